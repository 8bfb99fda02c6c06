// Package txidemtest proves a user's own tool handler: that it has one effect and one answer, whatever crashes.
//
// [Run] is what most need: a test that runs a [Tool] through every crash point. [Check] does the same and returns what it
// found, as [Finding] values.
//
//	func TestRefund_OneEffect(t *testing.T) {
//		txidemtest.Run(t, func() string { return migratedDatabase(t) }, txidemtest.Tool{
//			Call: func(ctx context.Context, pool *pgxpool.Pool, intent int) ([]byte, error) {
//				return issueRefund(ctx, pool, fmt.Sprint("order-", intent)) // the way the server does it, through txidem
//			},
//			Effects: `select count(*) from refunds where order_id = 'order-' || $1`,
//		})
//	}
//
// # What it does
//
// A first call without faults shows the turns of the call on the wire, however it is run: claim, statements, record and
// commit. Then each fault is made at each turn of a call with an intent of its own:
//
//	the process is killed     before, inside and after each turn, before COMMIT, before the reply
//	the connection is cut     before, inside and after each turn, before COMMIT
//	the context is cancelled  before and inside each turn
//	the handler panics        before each of its statements, after the last one
//	Postgres refuses          each statement of the handler, the record: with 40001, with 53100
//
// "Inside" means that Postgres has all of the turn and the client nothing of the answer. After that the same call is
// repeated without faults until it has an answer, and then twice more. It is also called twice in a row, and twice at once.
//
// # What it demands
//
//   - The query counts Tool.Want effects of each intent in the end, also a while later.
//   - A call that failed had no effect, one that succeeded had all of it, and a process that died before COMMIT none: looked
//     at before the call is repeated. A call whose COMMIT was sent, or whose context was cancelled, may fail with or without, and so
//     may any call with Tool.Elsewhere.
//   - All answers of one intent are the same bytes, a failure made by txidem.Fail included.
//   - No transaction and no advisory lock is open in the database, and the pool has all its connections back.
//   - No call breaks a rule of txidem: an SQL error that is swallowed, a transaction that is ended by raw SQL, a tx that is
//     used after the handler has returned, arguments that change with a retry.
//
// # Limits
//
//   - Only effects that the query can see are counted: no e-mail, no HTTP call.
//   - A goroutine that a call left behind is waited for up to two seconds, and what it writes by the end of the check is found.
//     What it writes later is not.
//   - Of a call with many turns, the first four and the last four are broken.
//   - A statement that the handler runs in another goroutine does not panic: that would end the test.
//   - A handler that uses its connection after it has returned may meet the next user of it there, and end the test with a
//     panic of pgx's.
//   - What keeps a connection of the pool between two calls is taken for a leak.
//   - Effects of RunLeased lie outside its transactions: say so with Tool.Elsewhere, and what they count are rows that the other
//     system, or a stand-in for it, writes.
//   - It needs a direct connection to Postgres, not one through a pooler, and nobody else may write what the query counts.
//   - A process that is killed is the test binary, started again for this test alone: see [Run].
//
// It takes some seconds. It may import txidem, toolcall, pgx, internal/pgturns and the standard library.
package txidemtest
