// Package jobs is for tools whose work takes longer than a request may: the tool answers with the id of a job within
// milliseconds, a worker does the work and commits once, and whoever wants to know asks for the status. What is retried is a
// call that answers at once; what takes long is a read.
//
// [Define] makes a kind of job, [New] a [Runner] for the kinds that a process knows. [Definition.SubmitTx] submits a job in the
// handler of a protected call, [Runner.Start] works jobs, [Runner.Status] tells how far one is, [Runner.Cancel] cancels it.
//
//	var report = jobs.Define("build_report", func(ctx context.Context, job *jobs.Job[Order]) (jobs.Commit[Report], error) {
//		pages, err := render(ctx, job.Args, job.Progress) // minutes, outside any transaction
//		if err != nil {
//			return nil, err
//		}
//		return func(ctx context.Context, tx pgx.Tx) (Report, error) { // milliseconds, in one
//			return save(ctx, tx, pages)
//		}, nil
//	}, nil)
//
//	runner, err := jobs.New(pool, nil, report) // after migrations.Up(ctx, pool, nil)
//	err = runner.Start(ctx)                    // in a process that works jobs; others only submit
//
//	func buildReport(ctx context.Context, tx pgx.Tx, in Order) (jobs.Handle, error) { // the tool's handler
//		return report.SubmitTx(ctx, tx, runner, in, nil)
//	}
//
// # What it promises
//
// A job exists if and only if the transaction that submitted it committed; in a protected call, that is the transaction of the
// call's record, which is then kept for as long as the job runs and the call's retention after that. So each retry of the call
// gets the same job.
//
// Of one job, at most one attempt commits, whatever happens to workers, connections and doorbells:
//
//	the work                               the job                                     its effect
//	commits                                succeeded                                   committed, with the result
//	returns Fail(…), from either half      failed, with that failure                   rolled back
//	returns another error, or panics       queued again behind a pause, until          rolled back
//	                                       MaxAttempts; then failed
//	is cut off: killed, frozen, cut from   runs again within Lease + Sweep + 1 s       rolled back
//	the database
//	is handed back by [Runner.Stop]        runs elsewhere at once, uncounted           rolled back
//	is cancelled before it commits         cancelled                                   rolled back
//	does not commit before the deadline    failed                                      rolled back
//	ends its transaction by SQL            failed, not repeated                        what it committed stays
//
// A worker that is frozen or cut off inside its commit half keeps the job's row until Postgres ends its transaction, at most
// Options.CommitTimeout (30 s) after its last statement; until then nobody else begins the job, and Cancel returns ErrBusy. One
// that is killed does not: its connection closes.
//
// A state that is succeeded, failed or cancelled never changes, and is never told of a job before it is so. Nothing of a job is
// told to another scope. The compute half holds no connection and no transaction.
//
// # How it works
//
// The table of jobs is the truth. River, the job queue, has a row for each job as well, but that is a doorbell: it carries
// nothing but the id, and makes some worker look at the table. A doorbell may ring twice, late, or for a worker that was
// thought dead; it may be lost, deleted or rung by hand in River's UI. What counts is the row: an attempt begins by writing a
// random token and a lease into it, and commits in a transaction that holds the row's lock and finds its own token there. (River's
// own JobCompleteTx is no such fence: it checks neither the attempt nor whether it changed anything.)
//
// While attempts run, one statement per process renews their leases each quarter of [Config].Lease, over a connection beside
// the pool, and writes what they report. A sweeper in each started runner looks for jobs whose lease has run out and for those
// whose doorbell is gone, and hangs a new one; it ends jobs whose deadline has passed, whose last attempt died, and those
// that were cancelled in the queue. So recovery does not wait for River's rescuer, which takes an hour by default.
//
// River's tables lie in a schema of their own. An application that runs River already may share its client: [Config].Workers.
// River's UI shows our jobs by kind; there one may cancel them (the job is cancelled), ask for another try (of a job that
// waits: it begins at once; of one that has ended: nothing happens), and delete doorbells (a new one is hung).
//
// # Limits
//
//   - What the compute half does outside the database may happen more than once: give other systems the key from
//     [toolcall.Call.DownstreamKey], which is the same in each attempt. A worker that is cut off from the database computes on until
//     it hears that it has lost the job.
//   - Arguments at most [Config].MaxArgs (1 MiB), results at most 16 MiB, both as JSON in the table. A scope has at most 255
//     bytes, the message of a report 500.
//   - A kind that no started process knows stays queued, until its deadline if it has one and a process knows it then.
//   - Store.Forget and Store.ForgetScope of txidem leave jobs alone: their arguments and results stay until Options.Retention is
//     over. A Codec of the store does not apply to them.
//   - With a queue of many thousand jobs, a doorbell that was lost is missed late: the sweeper of a process looks at 500 waiting
//     jobs each Sweep. Jobs that run are looked at first.
//   - River notes when to ring by its clients' clocks. Behind one that is ahead of the database's, a job begins as much later; one
//     that is ahead by more than Config.Lease is found out by the sweeper, which has River ring by the database's.
//   - Postgres never takes out of River's index on arguments (river_job_args_index) what was once in it: it grows by some 100 bytes with each job
//     until it is rebuilt. River does so each midnight (UTC; ReindexerSchedule in [Config].Configure) where a client works jobs whose role
//     owns the table. Elsewhere have the owner run "reindex index concurrently txonce_river.river_job_args_index" as often.
//   - River moves scheduled jobs, and pauses of more than 5 s, each 5 s, where a client leads the queue.
//   - Behind pgbouncer in transaction mode River cannot listen: set PollOnly in [Config].Configure, and see txidem's limits.
//   - An asynchronous failover may lose a job together with the call that submitted it, or a result together with its effect.
//
// It may import toolcall, internal/handlertx, internal/sideconn, pgx and River. It does not know package txidem.
package jobs
