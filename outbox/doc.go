// Package outbox is for effects that leave the database: a mail, a charge at a payment provider, a webhook, a message to a broker.
// The message commits with the write that it tells of, and a relay delivers it afterwards, at least once, with the same
// idempotency key each time.
//
// [New] makes an [Outbox] for the [Destination]s that a process knows, [Outbox.PublishTx] publishes a [Message] in the handler
// of a protected call, and [Outbox.Run] relays, in any number of processes.
//
//	box, err := outbox.New(pool, nil, outbox.Destination{Name: "mail", Publisher: sendMail}) // after migrations.Up(ctx, pool, nil)
//	go box.Run(ctx)                                                                          // in the processes that deliver
//
//	func refund(ctx context.Context, tx pgx.Tx, in Refund) (Receipt, error) { // the tool's handler
//		receipt, err := writeRefund(ctx, tx, in)
//		if err == nil {
//			_, err = box.PublishTx(ctx, tx, outbox.Message{Destination: "mail", Body: letterTo(in.Customer)})
//		}
//		return receipt, err
//	}
//
// A [Publisher] brings messages to a destination. [Func] makes one of a function; webhook signs and posts them over HTTP,
// watermillpub hands them to one of Watermill's publishers (Kafka, NATS, AMQP, …), riverpub makes a River job of each.
//
// # What it promises
//
// A message exists if and only if the transaction that published it committed. It is delivered at least once, and each attempt
// has the same id, key, headers and body: a receiver that minds the key does it once. Of messages with one ordering key at one
// destination, each is sent when the one before it has ended, in the order of commits; others do not wait for them.
//
//	an attempt comes to       what becomes of the message                                   get_status says
//	Delivered                 it has ended                                                   delivered
//	Retry                     another attempt, behind a pause (Destination.Retry)            pending
//	Unanswered, a relay died  another attempt with the same key, as long as the receiver     pending
//	                          remembers that (KeyLifetime); then Probe is asked
//	Rejected, Gone            it has ended; what has its ordering key waits (OnDead)         failed
//	the last one, refused     likewise                                                       failed
//	the last one, unanswered  likewise, if Probe does not know                               unknown
//
// A message that was refused while an earlier attempt had got no answer is unknown as well, unless Probe knows. One whose time
// (Message.Within) is over before it is sent has expired. What has ended stays so, until an operator has it sent again
// ([Outbox.Redrive]).
//
// No transaction and no connection is open while an attempt is under way. A relay that dies, or is cut off from the database, keeps
// its messages from the others for Destination.Timeout and ten seconds. What it says after that changes nothing.
//
// # How it works
//
// Relays claim messages that are due with a lease and a random token, skipping what others have locked, and count the attempt as
// they claim: so N relays make as many attempts as one. They note what came of it by that token. Three tables keep the one
// that is searched small: what was published is never updated, a row of the backlog is deleted when its message ends, and its
// outcome is written in the same transaction.
//
// Messages with an ordering key take a lock of that key before they get their number, so the order of numbers is the order of
// commits; a relay walks from key to key and looks at the first message of each. No reader compares transaction ids: a
// transaction that somebody else has open delays nothing.
//
// While somebody holds an old snapshot, rows that are gone stay in the indexes, and each look goes through them. A relay that
// notices spends a twentieth of its time on looks at everything. In between it looks at messages that have been due for as long as the
// oldest one it knows, at keys that have a new message, and at those of which it has delivered one; what it misses so, such as
// what a dead relay had, waits up to five seconds for the next look at everything.
//
// # Limits
//
//   - At least once is not once: an attempt whose answer is lost is made again. What the receiver does then is its key's business.
//   - A relay that is frozen for longer than its lease and goes on in the middle of an attempt still finishes that attempt.
//   - A message with an address of its own (Message.Address) is paused with its destination only, not by address. Give messages
//     to one address an ordering key if they are to wait for each other.
//   - Messages outside a call, or of a call without an explicit key, have keys that are as random as their ids: after an asynchronous
//     failover that loses the call, and the message with it, the call is made again under another downstream key.
//   - A relay may hold as many bodies at a time as its destinations' Concurrency allows: 64 attempts with bodies of
//     [Config].MaxBody = 16 MiB are 1 GiB.
//   - A destination's name that no running relay knows keeps its messages waiting.
//   - Store.Forget and Store.ForgetScope of txidem leave messages alone: body and headers stay until Destination.Keep is over.
//
// It may import toolcall, internal/handlertx, internal/randid and pgx. It knows neither txidem nor jobs.
package outbox
