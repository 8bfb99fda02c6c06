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
// [Retryable] says of an error whether to repeat the same call. Repeating it with the same key is never unsafe.
//
// # What it promises
//
// A call is identified by scope, tool and key, or by the hash of its arguments where no key is given. For one identity,
// as long as its record is kept:
//
//   - at most one effect is committed, whichever process, connection or server dies at which moment;
//   - the answer is the first one, byte for byte, and never an error where the first one was none;
//   - a record never answers another scope, another tool, or other arguments;
//   - a caller is never told "failed" of what committed, nor "done" of what did not: where it cannot be known,
//     [ErrOutcomeUnknown] says so;
//   - a call that does not end leaves nothing behind: no lock outlives its connection by more than a second, nor a client
//     that vanished without a word by more than [Policy].IdleInTx.
//
// A duplicate of a running call waits without a connection, up to [Policy].Wait, and then hears [ErrInProgress]. While
// a call runs, its arguments cannot be seen: another payload under its key hears [ErrInProgress] too, and [ErrKeyReused] once
// there is a record.
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
//   - What a handler does outside tx is not protected, and may happen more than once.
//   - Scope, tool and key have at most 255 bytes of printable text; arguments at most 4 MiB, 64 levels deep, with numbers of
//     at most 1024 digits; an answer at most 16 MiB ([Policy].MaxAnswer).
//   - Text of arguments is compared as it is: NFC and NFD are two values.
//   - A retry that comes after the record has expired runs again.
//   - An asynchronous failover may lose effect and record together; a jump of the database's clock expires records early.
//   - Behind pgbouncer in transaction mode, pgx needs QueryExecModeCacheDescribe or QueryExecModeExec.
//
// The package knows no protocol. It may import toolcall, internal/canonjson and pgx.
package txidem
