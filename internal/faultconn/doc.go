// Package faultconn breaks the wire between pgx and a real Postgres at a chosen moment.
//
//	wire := &faultconn.Dialer{}
//	cfg.ConnConfig.DialFunc = wire.DialFunc
//	…
//	faultconn.Of(conn).Arm(faultconn.Fault{Write: faultconn.Executes, Pass: faultconn.Nothing})
//
// [Dialer] wraps the connections of a pool, and [Of] finds the wrapper of one of them. [Conn.Arm] sets a fault for one
// write of that connection: how much of it the server gets, and what becomes of the connection then. Connections without a
// fault are as good as any, so that what looks for the outcome of a broken call finds the server. [Conn.Cut] and
// [Conn.Stall] do it at once, whatever the client is doing.
//
// # What is true of it
//
//   - pgx writes each round trip with one call of Write, so a fault hits one round trip. A batch whose statements are new
//     to the connection is two: they are prepared first. [Executes] tells them apart.
//   - A client that loses a connection sends a cancel request over a new one, as pgx does. A client that was killed does
//     not: see [Dialer.LoseCancels].
//   - A stalled connection is silent for the client, also when the server closes it. It still has deadlines, and Close.
//
// It is for tests, and knows connections without TLS only. It may import the standard library only.
package faultconn
