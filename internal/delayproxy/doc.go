// Package delayproxy puts a network between a client and a server that share a machine: a proxy for streams (TCP, Unix
// sockets) that delivers each byte a fixed time after it came in.
//
//	proxy, err := delayproxy.New(delayproxy.Endpoint{Network: "unix", Address: socket}, nil)
//	…
//	address, err := proxy.Listen(delayproxy.Endpoint{Network: "tcp", Address: "127.0.0.1:0"})
//
// [New] makes it. [Proxy.Listen] is for clients of any kind, [Proxy.Dial] for those in the same process. [Proxy.Close]
// ends it.
//
// # What it keeps
//
//   - Bytes arrive unharmed and in order, in both directions, however they are cut into writes.
//   - The delay is a distance, not a bottleneck: what is sent while earlier bytes are under way is under way as well.
//     At most 16 MiB per direction are, which at half a millisecond is 32 GB/s.
//   - End of file travels like a byte. A connection that breaks on one side breaks on the other.
//   - It sleeps, it does not spin. Where the system has finer timers than the Go runtime's, whose sleeps are rounded up to a
//     millisecond, it uses them (timerfd, Linux).
//
// # Limits
//
// The real round trip is the delay, twice, and what the proxy itself costs on this machine: measure it. A connection is
// made without delay.
//
// It is for tests and benchmarks. It may import the standard library only.
package delayproxy
