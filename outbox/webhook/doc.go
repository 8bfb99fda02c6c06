// Package webhook posts the messages of an outbox over HTTP: to an endpoint of one's own, to a provider's interface, or to
// the endpoints that customers have named.
//
//	hooks, err := webhook.New(&webhook.Config{URL: "https://pay.example/v1/charges", Secrets: []string{secret}})
//	box, err := outbox.New(pool, nil, outbox.Destination{Name: "payments", Publisher: hooks})
//
// Without [Config].URL, each message's Address is its URL; what may stand there is checked when it is published.
//
// # What is sent
//
// A POST with the message's body, byte for byte, over HTTP/1.1, and these headers:
//
//	Idempotency-Key    the downstream key, the same in each attempt (Config.KeyHeader, Config.BareKey)
//	Webhook-Id         the message's id, the same in each attempt
//	Webhook-Timestamp  the time of this attempt in Unix seconds, by this machine's clock
//	Webhook-Signature  over id, timestamp and body, as standardwebhooks.com says (kind v1, HMAC-SHA256), one for each secret;
//	                   without a secret there is none
//	Content-Type       application/json, unless the message has this header
//	User-Agent         Config.UserAgent
//
// and the message's own headers. Those are not signed. They may not be one of the above (but Content-Type), Host, Content-Length or
// another one that belongs to the connection: such a message is refused when it is published.
//
// # What an answer means
//
// Unanswered means that it may have been done (see [outbox.Class]). A server that fails in the middle, and a gateway that
// waits for one in vain, have passed the message on to somebody, so their answers are no proof of anything. Nor is 503: package
// txidem/httpidem, for one, gives it after a commit whose outcome it does not know. A receiver that minds the key does the
// message once either way.
//
//	200 to 299                      Delivered
//	303                             Unanswered: the result of what was done is said to be elsewhere
//	the other 3xx                   Rejected: redirects are not followed
//	408                             Unanswered
//	409, 425                        Retry: an earlier attempt is in progress; or it came too early
//	410                             Gone
//	429                             Retry; with Retry-After, Throttled
//	the other 4xx, 501, 505         Rejected
//	503                             Unanswered; with Retry-After, Throttled
//	the other 5xx, anything else    Unanswered
//	no connection                   Retry: no address for the name, nobody listens, TLS fails, no time left for all that
//	a connection, no whole answer   Unanswered: time is over, the connection breaks, the headers are cut short or above 64 KiB
//	every address is private        Rejected
//
// Retry-After is heeded with everything that is sent again, as seconds and as a date, which is compared with the answer's own
// Date. What follows the headers does not count: a body that is cut short or does not end (it is waited for for 2 seconds) changes
// nothing.
//
// net/http sends a request again by itself when a connection that it had kept open turns out to be broken: same key, id,
// timestamp, signature and body, so it is one more duplicate of those that the key is for. An answer to the second sending
// that is not 2xx says nothing about the first, so it is Unanswered.
//
// # Where it connects to
//
// URLs are https, unless [Config].AllowHTTP, have no user and password and no fragment, and at most 2,048 bytes. In an Address
// the port is 443 (80 for http), or at least 1024: those between are of other protocols.
//
// Each address that a name resolves to is looked at when the connection to it is made, so a name that resolves to something
// else the next time gains nothing. Public addresses are connected to, others are not: loopback, private (10/8, 172.16/12,
// 192.168/16, fc00::/7), shared (100.64/10), link-local with the metadata services of clouds (169.254/16, fe80::/10),
// unspecified, multicast, reserved, for documentation and benchmarks, and those in which others are embedded, by whatever they
// embed (::ffff:0:0/96 is looked at as what it embeds; NAT64, 6to4, Teredo are refused). [Config].Allow and AllowPrivate make exceptions. A proxy named in the environment is
// not used, for it would connect to anything.
//
// # Limits
//
//   - An attempt takes as long as its context allows (Destination.Timeout). To connect, and to agree on TLS, has 10 seconds each.
//   - A receiver checks timestamps by its own clock, mostly within 5 minutes: keep this machine's clock right.
//   - All that is signed with Config.Secrets can be signed by whoever has them. Where the receivers are of several parties, give
//     each its own ([Config].SecretsFor).
//   - Message headers begin and end with no space, for HTTP does not carry those.
//   - HTTP/2 is not spoken, so that a connection that has died is given up with the attempt that found out.
//
// It may import outbox and the Standard Webhooks library.
package webhook
