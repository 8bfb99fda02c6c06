// Package mcpidem protects the tools of an MCP server: whatever way a retry arrives, it finds the first call's answer.
//
// [New] makes an [Adapter] on a server of the official Go SDK; [AddTool] adds a tool whose handler writes through a
// transaction.
//
//	idem, err := mcpidem.New(server, store, &mcpidem.Config{Scope: mcpidem.ScopeFromToken})
//	mcpidem.AddTool(idem, &mcp.Tool{Name: "issue_refund"}, refund) // func(ctx, tx pgx.Tx, in Refund) (Receipt, error)
//
// # Which tools to protect
//
// Protection is for tools that charge, refund, send, create or append. [AddReadTool] is for those that change nothing and
// [AddIdempotentTool] for those that change nothing more when they are called again: they cost nothing. All get the annotations that are
// true of them. The hint idempotentHint of a protected tool stays false, for protection ends with the retention, and some clients
// take the hint for a licence to repeat at any time; under Policy.OnExpired = Refuse it does not end, and the hint is true.
//
// [AddToolRaw] is for handlers that see the request and make the result: images, several blocks of content, questions to the
// client. [AddLeasedTool] is for effects outside the database. [ToolConfig] has the rest: times and sizes, which arguments count,
// whether a key is needed, and [ToolConfig].Confirm, for calls that a person has to confirm.
//
// Package intent is the other side: for Go programs that call tools.
//
// # What it promises
//
// Two calls are the same when caller, tool and key are. The caller comes from [Config.Scope], on each request anew. The
// key is the first of
//
//   - _meta["dev.txonce/idempotency-key"] of the request, where a harness puts it out of the model's reach;
//   - the HTTP header Idempotency-Key;
//   - the argument idempotency_key, which the adapter adds to the tool's input schema and strips before the handler;
//   - a hash of the arguments, when nobody gave a key.
//
// JSON-RPC ids, session ids and the model's tool-call ids never count: all are reused for other work or change between
// retries of the same work. A call with a key and one without are two calls, even with equal arguments.
//
// An answer is given again byte for byte, with a note behind it and dev.txonce/replayed in _meta. A result that is an
// error says in structuredContent.status which kind it is and in repeat_same_call whether to repeat:
//
//	status               what it says                                            repeat
//	in_progress          the call is running; wait retry_after_seconds           yes
//	failed               a recorded outcome; the tool's code stands in code      no
//	not_done             the handler's error; rolled back, nothing recorded      yes
//	key_reused           the key was used for other arguments                    no
//	expired              done, and the answer is no longer kept (Refuse)         no
//	outcome_unknown      the answer of COMMIT was lost, and not found out        yes
//	blocked              an effect elsewhere was cut off; for people             no
//	declined             the person who was asked said no                        no
//	confirmation_needed  nobody decided, or nobody can be asked                  no
//	unavailable          the database cannot be used; nothing changed            yes
//	over_quota           the caller has too many calls on record                 yes
//	bad_key, bad_args, no_caller, not_allowed, tool_fault                        no
//
// The texts tell a model what happened, what not to do and what to do next; testdata/texts.golden has them all.
//
// Arguments are checked inside the call, so that a retry after a change of the schema still finds its answer, and the
// result is checked before the commit. Handlers may panic; the server goes on. The server's capabilities and each protected tool's
// _meta say under [Extension] how long calls are remembered.
//
// # Transports
//
// All of the SDK's, and all its revisions of the protocol. A stateful Streamable HTTP server cannot speak 2026-07-28, and some clients do
// not fall back by themselves when they hear so: set ServerOptions.SupportedProtocolVersions to the older ones there. On Streamable HTTP, a client that hangs up does not stop the handler
// unless PropagateRequestCancellation is set: either is safe, since a cancelled call is rolled back, or committed and replayed.
// Clients that give a progress token hear each 5 seconds that their call goes on ([Config].Progress), also while it waits for
// another one that is the same.
//
// # Limits
//
// Integers above 2^53 reach the handler exactly, but many clients cannot send them: prefer strings for ids and money. A
// handler that asks the client something by ServerSession.Elicit holds its transaction open meanwhile, for at most Policy.IdleInTx:
// return InputRequests from AddToolRaw, or use Confirm.
//
// The package knows MCP and no SQL. It may import txidem, toolcall, internal/canonjson, internal/idemkey, internal/keyheader, the
// types of pgx, the MCP SDK with its JSON Schema, and the JSON library that canonjson uses.
package mcpidem
