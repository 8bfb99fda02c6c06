// Package httpidem protects the endpoints of an HTTP server: a request that arrives again, with the same Idempotency-Key,
// gets the first one's response and changes nothing.
//
// [New] makes an [Adapter]; [Adapter.Handler] wraps a handler that writes through a transaction, [Adapter.Middleware] one that
// has the signature of net/http and finds its transaction with [Tx]. [Webhook] is for events that others send, signed.
//
//	idem, err := httpidem.New(store, &httpidem.Config{Scope: tenantOf})
//	mux.Handle("POST /refunds", idem.Handler(refund)) // func(w http.ResponseWriter, r *http.Request, tx pgx.Tx) error
//
// # What it promises
//
// The body is read before anything is claimed, so a slow client holds no connection. The handler's response is kept back until
// what it wrote through tx has committed together with the record of the response; nothing is sent before.
//
//	the handler                              what it wrote    a repeated request
//	responds with 2xx or 3xx                 committed        gets the response
//	responds with a 4xx that Record names    rolled back      gets the response
//	returns txidem.Fail(…)                   rolled back      gets the same problem, 422
//	responds with another 4xx, or with 5xx   rolled back      runs
//	returns another error, or panics         rolled back      runs
//
// What is recorded is a document {"status", "header", "body"}; for a 4xx it is the message of a failure whose code is http_ and the
// status. A replay is the status, the kept headers and the body of the first response, byte for byte, and
// "Idempotent-Replayed: true".
//
// Two requests are the same when the caller ([Config].Scope), the operation (method and route) and the key are. The key is
// that of the header Idempotency-Key, as draft-ietf-httpapi-idempotency-key-header-07 has it: "abc" and abc are one key. What
// the request asks for is compared: method, path, query and body, where a body of JSON counts as a value and every other one as
// bytes. JSON is what the header Content-Type says is JSON: application/json, or a type that ends in +json. The request's
// arguments, for the paths of [Config].Rules and of a mismatch, are
//
//	{"method": "POST", "path": "/refunds", "query": {"dry": ["1"]}, "body": {"order": "A-1", "cents": 1050}}
//
// with "body_sha256" in place of "body" where the body is not JSON that has one meaning; rules for parts of the body do not
// apply to it then.
//
// # Refusals
//
// Each is a problem document (RFC 9457, application/problem+json) whose type is "tag:txonce.dev,2026:" and a word for programs.
// Its members say the rest: repeat_same_call (whether to repeat it with the same key), retry_after_seconds (the header
// Retry-After as well), code (that of txidem.Fail), call_id, differing_arguments.
//
//	400 no_key, bad_key               the request must be corrected
//	400 bad_body                      the body ended too early; repeat with the same key
//	401 no_caller, bad_signature      Config.Scope or the Verifier refused it
//	403 not_allowed                   txidem.Config.Authorize refused the replay
//	408 slow_body, 413 large_body     see Config.BodyTimeout and Config.MaxBody
//	409 in_progress                   the same request is running (503 for webhooks)
//	410 expired                       done earlier, response no longer kept (Policy.OnExpired = Refuse)
//	422 key_reused                    the key was used for another request
//	422 failed                        recorded, by txidem.Fail
//	429 over_quota                    Policy.Quota
//	500 fault, not_done               the handler or the set-up; nothing is recorded
//	500 failed                        recorded: the handler committed by itself
//	500 outcome_unknown               under Policy.Disabled: do not repeat, nothing is recorded
//	503 unavailable, outcome_unknown  the database; repeat with the same key
//	503 not_done                      the request's context ended; repeat with the same key
//
// What the database said and what a handler panicked with goes to [Config].Logger only.
//
// # Limits
//
//   - A protected handler cannot stream, hijack, send informational responses or trailers: [ErrUnsupported]. Serve such routes without
//     the adapter.
//   - Of http.ResponseController, nothing works in it. Deadlines belong in front of the adapter.
//   - Headers that a handler sets are all in the first response; a replay has those of [Config].Headers and of a built-in list,
//     which never has Set-Cookie in it.
//   - A body that is not JSON must be repeated byte for byte. Clients that make a new multipart boundary for each attempt send
//     another request.
//   - Middleware in front that reads the body, as (*http.Request).FormValue does, must put it back. A request whose body is
//     gone is refused with 500 where that can be seen: with a Content-Length, or where a form was read.
//   - Where Postgres asks for a repeat (40001, 40P01), a handler is run again that returns the error, or hands it to [Abort]. One that
//     only responds with 500 is not, and the client repeats.
//   - The response counts for Policy.MaxAnswer in its encoding: text in JSON, other bytes in base64.
//   - net/http's own client sends a request with the header Idempotency-Key again, by itself, when a connection breaks. That
//     is one of the duplicates that this package is for.
//
// The package knows HTTP and no SQL. It may import txidem, toolcall, internal/canonjson, internal/keyheader, the types of pgx
// and the Standard Webhooks library.
package httpidem
