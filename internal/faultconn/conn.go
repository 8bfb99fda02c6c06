package faultconn

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// Conn is a connection that can be broken. As long as it is whole it passes on what it is given.
type Conn struct {
	net.Conn
	dialer *Dialer

	silence net.Conn // what a client reads from a stalled connection: nothing, up to a deadline or Close
	mouth   net.Conn // the other end of silence

	mu    sync.Mutex
	fault *Fault
	state Then // whole, or what became of it
}

const whole Then = -1

// Of returns the wrapper around a connection that a [Dialer] made, or nil. For a pgx.Tx that is
// tx.Conn().PgConn().Conn().
func Of(conn net.Conn) *Conn {
	c, _ := conn.(*Conn)
	return c
}

// Arm sets the fault that the next write meets for which f.Write is true. It replaces one that has not been met.
func (c *Conn) Arm(f Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fault = &f
}

// Cut closes the connection now, in both directions.
func (c *Conn) Cut() { c.become(Cut) }

// Stall lets the network go silent now, in both directions.
func (c *Conn) Stall() { c.become(Stall) }

// become ends the connection for the client, and for a cut also for the server.
func (c *Conn) become(t Then) {
	c.set(t)
	if t == Cut {
		_ = c.Conn.Close()
		_ = c.mouth.Close()
	}
}

func (c *Conn) set(t Then) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state = t
}

func (c *Conn) is(t Then) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state == t
}

// met takes the fault that b meets, if any, and returns the state before it.
func (c *Conn) met(b []byte) (state Then, f *Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == whole && c.fault != nil && (c.fault.Write == nil || c.fault.Write(b)) {
		f, c.fault = c.fault, nil
	}
	return c.state, f
}

// Write passes on what no fault keeps back.
func (c *Conn) Write(b []byte) (int, error) {
	if c.dialer.loseCancels.Load() && isCancel(b) {
		c.Cut() // pgx waits for the server to close this connection, and the server would wait for a packet
		return len(b), nil
	}
	switch state, f := c.met(b); {
	case state == Cut:
		return 0, os.ErrClosed
	case state == Stall:
		return len(b), nil
	case f == nil:
		return c.Conn.Write(b)
	default:
		return c.meet(f, b)
	}
}

func (c *Conn) meet(f *Fault, b []byte) (int, error) {
	pass := len(b)
	if f.Pass != nil {
		pass = min(max(f.Pass(b), 0), len(b))
	}
	c.set(f.Then) // in front of the write: the answer may be quick, and the client is not to hear it
	n, err := c.Conn.Write(b[:pass])
	if f.Then == Cut {
		c.Cut()
	}
	switch {
	case err != nil:
		return n, err
	case f.Told:
		return n, io.ErrClosedPipe
	}
	return len(b), nil
}

// Read gives what the server says, unless the client is not to hear it any more.
func (c *Conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	switch {
	case c.is(Stall):
		return c.silence.Read(b)
	case c.is(CutAtAnswer) && n > 0:
		c.Cut()
		return 0, io.EOF
	case c.is(Cut):
		return 0, io.EOF
	}
	return n, err
}

// SetDeadline bounds reads and writes, also the silence of a stalled connection.
func (c *Conn) SetDeadline(t time.Time) error {
	_ = c.silence.SetDeadline(t)
	return c.Conn.SetDeadline(t)
}

// SetReadDeadline bounds reads.
func (c *Conn) SetReadDeadline(t time.Time) error {
	_ = c.silence.SetReadDeadline(t)
	return c.Conn.SetReadDeadline(t)
}

// Close closes the connection for good.
func (c *Conn) Close() error {
	c.dialer.forget(c)
	_ = c.silence.Close()
	return c.Conn.Close()
}
