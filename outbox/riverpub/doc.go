// Package riverpub makes a job of River, the job queue, of each message of an outbox: for effects that the application's own River
// workers have, such as a mail or a charge that they know how to do.
//
// [New] makes an [outbox.Publisher] of a client of River, and [Args] is what the worker gets.
//
//	mail, err := riverpub.New(pool, client, &riverpub.Config{Kind: "refund_mail"})
//	box, err := outbox.New(pool, nil, outbox.Destination{Name: "mail", Publisher: mail})
//
//	river.AddWorkerArgs(workers, riverpub.ArgsOf("refund_mail"), river.WorkFunc(func(ctx context.Context, job *river.Job[riverpub.Args]) error {
//		return send(ctx, job.Args.Body, job.Args.Key) // the key is the same whenever this message is worked on
//	}))
//
// River's tables may lie in another database than the outbox: the job is inserted after the message has committed, in a
// transaction of its own. Where both are in one database, a handler can insert a River job, or submit one of package jobs, in its
// own transaction: then no outbox is needed.
//
// # What it promises
//
// A message is delivered when its job has been inserted; what becomes of the job is River's to tell. As long as River has a row of the
// job, in whatever state, further attempts of the message insert no second one, from whatever process, and whatever kind and
// queue they were configured with: River's unique index holds the message's id. Fate.ProviderID is the id of the job in River.
//
//	an attempt that                                            comes to
//	inserted the job, or found it                              Delivered
//	got no connection, was refused by River or by Postgres     Retry: nothing was committed
//	had its COMMIT not answered                                Unanswered: the next one finds the job, or inserts it
//
// # Limits
//
//   - River deletes the rows of jobs that have ended: of those that succeeded or were cancelled after 24 hours, of those it gave up
//     after 7 days, if its config does not say otherwise. Whoever tries again after that cannot know, and inserts a second job. Set
//     Destination.KeyLifetime to the shortest of the three retentions of the client's config, and the outbox does not try
//     again after that: the message is unknown then. The same goes for rows that are deleted by hand.
//   - A client with Config.Test.DisableUniqueEnforcement inserts a job with each attempt.
//   - River may work a job more than once, and its completion is not fenced. Give Args.Key to whom the worker calls, or make
//     the worker's effect a protected call with that key.
//   - River has no order: the jobs of messages with one ordering key are inserted in the order of commits, and worked as workers
//     are free.
//   - The body travels in the job's arguments, as base64: a third larger. Rows of more than some 100 KiB make River slow; send a
//     reference instead.
//   - A client that has workers refuses kinds that none of them knows, and the message waits for its next attempt. Use one without
//     workers, or one with SkipUnknownJobCheck, where others work the jobs.
//   - Scope and tool of the call, and the message's headers and body, can be read by whoever can read River's tables or its UI.
//
// It may import outbox, toolcall, pgx and River.
package riverpub
