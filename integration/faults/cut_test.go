package faults

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/integration/internal/servers"
)

// positions is how many bytes of a connection it is cut behind, in each direction.
const positions = 30

// TestNetwork_R08_CutBehindBytesOfACall cuts the connection of a call behind bytes that are spread over all that it sends and
// hears, from the login to the answer. Other connections of the process are whole, so it can find out.
func TestNetwork_R08_CutBehindBytesOfACall(t *testing.T) {
	servers.Everywhere(t, func(t *testing.T, p servers.Place) {
		s := shared(t, p)
		w := newWorld(t, s, nil, nil)
		l := newLoad(w)
		for _, by := range []way{byRun, byBatch} {
			sent, heard := w.bytesOf(l, by)
			for direction, bytes := range map[string]int64{up: sent, down: heard} {
				for n := range int64(positions) {
					w.cutBehind(l, s, by, toxic{"limit_data", direction, 1, map[string]int64{"bytes": 1 + bytes*n/positions}})
				}
			}
		}
		l.judge()
		l.log()
		w.clean()
	})
}

// cutBehind has a process of its own make a call whose first connection ends behind some bytes, until it is answered, and again.
func (w *world) cutBehind(l *load, s *servers.Server, by way, limit toxic) {
	w.t.Helper()
	ill := newNetwork(w.t, s)
	defer ill.proxy.Stop()
	ill.infect(limit)
	var first counted
	w.oneCaller(l, by, func(dial dialer) dialer {
		var dialled atomic.Bool
		return func(ctx context.Context, network, address string) (net.Conn, error) {
			if dialled.CompareAndSwap(false, true) {
				return first.connect(dial)(ctx, "tcp", ill.address())
			}
			return dial(ctx, network, address)
		}
	})
	if first.cut.Load() == 0 {
		w.t.Errorf("a connection was not cut behind %d bytes %s; it sent %d and heard %d", limit.Attributes["bytes"], limit.Stream, first.sent.Load(), first.heard.Load())
	}
}

type dialer = func(ctx context.Context, network, address string) (net.Conn, error)

// oneCaller makes the two calls of a key in a process of its own, which connects in its own way.
func (w *world) oneCaller(l *load, by way, dial func(dialer) dialer) {
	w.t.Helper()
	process := *w
	process.pool, process.store = w.process(nil, func(cfg *pgxpool.Config) {
		cfg.MaxConns = 1
		cfg.ConnConfig.DialFunc = dial(cfg.ConnConfig.DialFunc)
	})
	defer process.pool.Close()
	_, key := l.newKey()
	for range callersOfKey {
		l.callUntilAnswered(&process, key, by)
	}
}

// bytesOf measures what a process sends and hears that connects and makes a call twice.
func (w *world) bytesOf(l *load, by way) (sent, heard int64) {
	w.t.Helper()
	var c counted
	w.oneCaller(l, by, c.connect)
	return c.sent.Load(), c.heard.Load()
}

// counted is what went over connections, and how many times one was found to be cut.
type counted struct{ sent, heard, cut atomic.Int64 }

// connect makes connections of a dialer that are counted.
func (c *counted) connect(dial dialer) dialer {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &countedConn{Conn: conn, counted: c}, nil
	}
}

type countedConn struct {
	net.Conn
	counted *counted
	sent    atomic.Int64
	ours    atomic.Bool // its end: a context has ended, and the driver with it
}

// cancelRequest is the length of the message with which the driver has the server cancel a statement, on a connection that ends with it.
const cancelRequest = 16

// note counts an error that is not of our making.
func (c *countedConn) note(err error) {
	if err != nil && !errors.Is(err, net.ErrClosed) && !c.ours.Load() && c.sent.Load() != cancelRequest {
		c.counted.cut.Add(1)
	}
}

func (c *countedConn) SetDeadline(at time.Time) error {
	if !at.IsZero() {
		c.ours.Store(true)
	}
	return c.Conn.SetDeadline(at)
}

func (c *countedConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.sent.Add(int64(n))
	c.counted.sent.Add(int64(n))
	c.note(err)
	return n, err
}

func (c *countedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.counted.heard.Add(int64(n))
	c.note(err)
	return n, err
}
