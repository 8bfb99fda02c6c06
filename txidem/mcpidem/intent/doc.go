// Package intent is the caller's side of package mcpidem: a sending middleware for clients of the official MCP Go SDK that
// gives each tool call the key of its intent and repeats it until it has an answer.
//
//	list, err := session.ListTools(ctx, nil)
//	client.AddSendingMiddleware(intent.Middleware(&intent.Config{Tools: intent.Guarded(list.Tools...)}))
//	…
//	ctx = intent.WithStep(ctx, run, step) // both from the checkpoint
//	result, err := session.CallTool(ctx, params)
//
// Nothing else changes: a call whose context names no intent passes untouched, unless [Config].Require says otherwise.
// [WithKey] is for a key of the caller's own, such as the order that is refunded; [Nth] tells several calls of one step apart.
//
// # What it promises
//
// The key stands in the request's _meta, where no model can reach it, and is the same after a crash, on another worker and on
// another session: txidem.IntentKey(run, step, tool). A key that the caller has put there already stays, and so do
// the arguments; this package never writes to the caller's params (the SDK puts fields of its own into their _meta).
//
// A call whose answer is lost, whose attempt takes too long, or whose server says in progress, unavailable, over quota or
// outcome unknown, is made again with the same key, after a pause that grows and is random in full
// (between 0 and the bound), behind the time that the server asks for. Where there is a status tool ([Config].StatusTool, such as
// get_status of package statustool) it is asked first, for as long as it says that the call is running. Every other answer, and a protocol error that refuses the request, goes to the
// caller as it is, unless an earlier attempt may have been done and it says nothing of that.
//
// It takes no longer than [Config].Deadline and the caller's context. If the outcome is not known by then, the error
// is an [*OutcomeUnknownError], never a failure: the call may have been done. The same step may be repeated at any time, in
// another process too: with a server that protects the tool, that is done once.
//
// # Limits
//
//   - Repeating is safe only for tools that the server protects, by mcpidem.AddTool, or that may be done twice. [Config].Tools
//     must say which they are.
//   - How long the record is kept is the server's to say (24 hours by default): a step that is repeated later runs again.
//   - A call is not repeated on a session that has ended: open a new session and call again in the same step.
//   - An attempt ends after [Config].Attempt, progress notifications or not. In memory and over stdio that cancels the
//     handler on the server, so a tool that always takes longer is never done. Attempt must exceed what the slowest tool takes.
//   - Where the SDK answers input requests by itself, the time that people take for that counts as the attempt's, and a repeated
//     attempt asks them again. With ClientOptions.MultiRoundTrip disabled each continuation is a call of its own, with the
//     same key.
//   - Over stdio, writing to a server that does not read blocks, whatever the context says: the SDK's transport does.
//   - Over HTTP the SDK says of a status such as 401 or 404 only its text, and ends the session: the error is an
//     [*OutcomeUnknownError] that wraps it.
//   - A session that fails is closed by the SDK, which may take 5 seconds, and a call on it waits for that, whatever the deadline says.
//   - An error without the status that package mcpidem gives, as of a gateway or of a tool added by mcpidem.AddToolRaw, says nothing of
//     attempts before it: where one was lost, the outcome counts as unknown.
//   - A step whose name ends in # and a number is one that [Nth] has named.
//   - A refusal is about this call: it says nothing of what the same step did in an earlier process.
//   - "Nothing was done" is said of the attempt that heard it. A request that the network has kept and delivers later still
//     finds its key free then, and runs.
//
// The package knows the client's side of MCP, and no database: it may import the MCP SDK and internal/idemkey, not txidem and
// not pgx.
package intent
