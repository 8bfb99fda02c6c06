// Package txidem runs a database write at most once, however often it is asked for.
//
// Two functions are what most need: [New] makes a [Store] on a pgx pool, after migrations.Up has made its table, and
// [Run] calls a handler in a transaction and commits what it wrote together with the record of its answer. [Fail] is
// for answers that are a "no": they are recorded as well.
//
//	result, err := txidem.Run(ctx, store, txidem.Request{
//		Scope: tenant, Tool: "issue_refund", Key: key, Args: args,
//	}, func(ctx context.Context, tx pgx.Tx) (Receipt, error) { … })
//
// Other ways to run a call are below. [Retryable] says of an error whether to repeat the same call; repeating it with the same key is never unsafe. [Policy]
// sets times and sizes per tool, [NewRules] which arguments count, [NewSweeper] removes what has expired, [Store.Status] tells
// how far a call is, and an [Observer] hears how each one ended.
//
// # What it promises
//
// A call is identified by scope, tool and key, or by the hash of its arguments where no key is given. For one identity run by
// Run, as long as its record is kept:
//
//	when the process, connection or server dies    effect            a repeated call
//	before the handler has returned                rolled back       runs
//	before Postgres has read COMMIT                rolled back       runs
//	while Postgres commits                         with the record   gets the answer, or runs
//	after the commit                               committed         gets the answer
//
//	when the handler                               effect            the caller, and a repeated call
//	returns a result                               committed         the answer, byte for byte
//	returns Fail(…)                                rolled back       the failure
//	returns another error, or panics               rolled back       the error; runs
//	ignores an SQL error                           rolled back       ErrTxAborted; runs
//	commits by raw SQL                             stays             ErrHandlerEndedTx; a failure
//
// A record never answers another scope, another tool or other arguments. A caller is never told "failed" of what
// committed, nor "done" of what did not: where the answer of COMMIT is lost, the outcome is found out over a second
// connection, and where it cannot be known, [ErrOutcomeUnknown] says so. A call that does not end leaves nothing behind:
// no lock outlives its connection by more than a second, nor a client that vanished without a word by much more than
// Policy.IdleInTx.
//
// A duplicate of a running call waits without a connection, up to [Policy].Wait, and then hears [ErrInProgress]. While
// a call runs, its arguments cannot be seen: another payload under its key hears [ErrInProgress] too, and [ErrKeyReused] once
// there is a record.
//
// # Which way to run
//
// [Run] is for most: the handler has a transaction, reads and writes in it, and its writes commit with the record. Three round
// trips, like a bare transaction.
//
// [RunTx] is for calls inside a transaction that you have already, and that must commit as one with what else is in it: a
// step of a larger unit of work, or a tool that calls another in its own handler. You commit, so you also hear of a lost
// commit, and ask [Store.Resolve]. A duplicate of a running call is told so at once instead of waiting.
//
// [RunBatch] is for writes that need no answer from the database, with ids made by the caller: the handler queues its
// statements, and claim, effects and record are one round trip, which is faster than the same write without protection wherever
// there is a network in between. [Batch.MustAffect] takes the place of looking at a row count.
//
// [RunLeased] is for an effect outside the database that must be answered synchronously, such as a payment. Nothing can make that
// atomic; it commits a claim first, keeps it with a lease, gives the other system a key to recognise repeats by, and leaves it to you
// what happens when an attempt was cut off: ask the other system, block, or run again. Prefer an outbox or a job where the answer can wait.
//
// A call made by Run, RunTx or RunBatch may be repeated by any of the three. [NewMemory] makes a store without Postgres for unit
// tests; package txidemtest crashes your handler at every point on a real one. A [Codec] stands between answers and the
// table, to encrypt them.
//
// # How it works
//
// Three round trips, like a bare transaction: BEGIN with an advisory lock and the read of the record; the handler; the
// record with COMMIT. The lock keeps duplicates from running, the primary key of the record decides where it cannot. A
// token in the transaction's own settings, which the insert of the record reads, finds out handlers that end the
// transaction themselves. All times are the database's.
//
// # Limits
//
//   - What a handler does outside tx is not protected, and may happen more than once. tx.Conn and tx.LargeObjects give the
//     connection itself: what keeps them is not stopped.
//   - A client that is alive and stops reading a large result keeps its claim where the server's own connection is a Unix
//     socket; over TCP, with a server on Linux, it loses it.
//   - A handler that commits by raw SQL gives up its lock: a duplicate that comes before it returns runs as well.
//   - Scope, tool and key have at most 255 bytes of printable text; arguments at most 4 MiB, 64 levels deep, with numbers of
//     at most 1024 digits; an answer at most 16 MiB ([Policy].MaxAnswer).
//   - Window and Retention lie between 1 ms and 10 years, IdleInTx between 10 ms and a day, Lease between 100 ms and a day,
//     CommitTimeout is at most an hour.
//   - Text of arguments is compared as it is: NFC and NFD are two values.
//   - A retry that comes after the record has expired runs again.
//   - RunLeased cannot know what an attempt did that was cut off between its effect and its record.
//   - An administrator who cancels a backend that waits for a synchronous standby makes Postgres say "committed" of what no
//     standby has; everyone who asks is told so.
//   - An asynchronous failover may lose effect and record together; a jump of the database's clock expires records early.
//   - Behind pgbouncer in transaction mode, pgx needs QueryExecModeCacheDescribe, QueryExecModeExec or
//     QueryExecModeSimpleProtocol.
//
// The package knows no protocol. It may import toolcall, internal/canonjson, internal/handlertx, internal/idemkey,
// internal/sideconn, internal/sqltext and pgx.
package txidem
