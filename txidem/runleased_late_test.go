package txidem

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/internal/dbtest"
)

// late is a network on which the first claim that is written arrives when the second one is about to be: its connection is
// broken for the client at once.
type late struct {
	mu      sync.Mutex
	armed   bool
	arrives func() // the first claim
	arrived func() // waits until the server is through with it
}

func (l *late) claims(p []byte) bool { return strings.Contains(string(p), "txonce.attempt") }

var errCutConn = errors.New("the connection is cut")

type lateConn struct {
	net.Conn
	net *late
	cut bool
}

func (c *lateConn) Write(p []byte) (int, error) {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	switch {
	case c.cut:
		return 0, errCutConn
	case c.net.armed:
		c.net.armed, c.cut = false, true
		kept := append([]byte{}, p...)
		c.net.arrives = func() {
			_ = c.Conn.SetDeadline(time.Time{}) // pgx has given the connection up
			_, _ = c.Conn.Write(kept)
		}
		return len(p), nil
	case c.net.arrives != nil && c.net.claims(p):
		c.net.arrives()
		c.net.arrives = nil
		c.net.arrived()
	}
	return c.Conn.Write(p)
}

func (c *lateConn) Read(p []byte) (int, error) {
	c.net.mu.Lock()
	cut := c.cut
	c.net.mu.Unlock()
	if cut {
		return 0, errCutConn
	}
	return c.Conn.Read(p)
}

func (c *lateConn) Close() error {
	if c.cut { // what is kept has yet to arrive; the test closes it
		return nil
	}
	return c.Conn.Close()
}

// TestRunLeased_R14_R08_ClaimThatArrivesLate: the server reads a claim only when its connection has long been given up and
// nothing of it was found. It is the call's own all the same: to take it for a rival's would block the call for good.
func TestRunLeased_R14_R08_ClaimThatArrivesLate(t *testing.T) {
	t.Parallel()
	n := &late{}
	var conns []net.Conn
	f := setup(t, &Policy{Lease: long}, func(cfg *pgxpool.Config) {
		cfg.MaxConns = 1
		cfg.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
		dial := cfg.ConnConfig.DialFunc
		cfg.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := dial(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			n.mu.Lock()
			defer n.mu.Unlock()
			conns = append(conns, conn)
			return &lateConn{Conn: conn, net: n}, nil
		}
	})
	observer := dbtest.PoolAt(t, f.pool.Config().ConnString(), nil)
	t.Cleanup(func() {
		for _, conn := range conns {
			_ = conn.Close()
		}
	})
	for _, key := range []string{"warm", "warmer"} { // then all that is sent is prepared
		if _, err := RunLeased(t.Context(), f.store, request(key), doAnswers("done"), nil); err != nil {
			t.Fatal(err)
		}
	}
	n.mu.Lock()
	n.armed = true
	n.arrived = func() {
		eventually(t, "the late claim is committed", func() bool {
			return says(t, observer, `select exists (select from txonce.call where key = 'x:k')`)
		})
	}
	n.mu.Unlock()
	runs := 0
	got, err := RunLeased(t.Context(), f.store, request("k"), func(ctx context.Context) (string, error) {
		runs++
		return "done", ctx.Err()
	}, nil)
	if err != nil || runs != 1 || got.Replayed {
		t.Errorf("got %+v, %v, %d runs; want its own answer", got, err, runs)
	}
}
