// Package mcpidem protects the tools of an MCP server: whatever way a retry arrives, it finds the first call's answer.
//
// [New] makes an [Adapter] on a server of the official Go SDK; [AddTool] adds a tool whose handler writes through a
// transaction. Reads need no protection: add them with mcp.AddTool.
//
//	idem, err := mcpidem.New(server, store, &mcpidem.Config{Scope: mcpidem.ScopeFromToken})
//	mcpidem.AddTool(idem, &mcp.Tool{Name: "issue_refund"}, refund) // func(ctx, tx pgx.Tx, in Refund) (Receipt, error)
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
// error says in structuredContent.status which kind it is and in repeat_same_call whether to repeat. The texts tell a
// model what happened, what not to do and what to do next.
//
// Arguments are checked inside the call, so that a retry after a change of the schema still finds its answer, and the
// result is checked before the commit. Handlers may panic; the server goes on.
//
// # Limits
//
// Handlers that elicit input or return a result of their own making are not supported yet. Integers above 2^53 reach
// the handler exactly, but many clients cannot send them: prefer strings for ids and money.
//
// The package knows MCP and no SQL. It may import txidem, toolcall, internal/canonjson, internal/keyheader, the types of pgx, the MCP SDK with
// its JSON Schema, and the JSON library that canonjson uses.
package mcpidem
