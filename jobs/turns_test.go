package jobs

import (
	"context"
	"net"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/internal/pgturns"
)

// turns are what a process has the server execute, a round trip each.
type turns struct {
	mu  sync.Mutex
	all []pgturns.Turn
}

func (w *turns) take() []pgturns.Turn {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.all
	w.all = nil
	return all
}

// watch has the pool's connections watched.
func (w *turns) watch(cfg *pgxpool.Config) {
	dial := cfg.ConnConfig.DialFunc
	cfg.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		return &watched{Conn: conn, turns: w}, err
	}
}

type watched struct {
	net.Conn
	turns   *turns
	scanner pgturns.Scanner
}

func (c *watched) Write(b []byte) (int, error) {
	if t := c.scanner.Turn(b); t.Executes() {
		c.turns.mu.Lock()
		c.turns.all = append(c.turns.all, t)
		c.turns.mu.Unlock()
	}
	return c.Conn.Write(b)
}

// TestSubmitTx_J01_CostsOneRoundTrip, and a second one where River notifies its workers: once per queue and fetch.
func TestSubmitTx_J01_CostsOneRoundTrip(t *testing.T) {
	t.Parallel()
	w := &turns{}
	d := plainly("report", nil)
	c := callsOn(setupOn(t, func(cfg *pgxpool.Config) { cfg.MaxConns = 1; w.watch(cfg) }, unhurried(), d))
	most := 0
	for i := range 10 {
		var inner, all []pgturns.Turn
		w.take()
		if _, err := c.run(t.Context(), string(rune('a'+i)), func(ctx context.Context, tx pgx.Tx) (Handle, error) {
			w.take()
			h, err := d.SubmitTx(ctx, tx, c.Runner, in{}, nil)
			inner = w.take()
			return h, err
		}); err != nil {
			t.Fatal(err)
		}
		all = w.take()
		want := 1
		for _, turn := range inner {
			if turn.Has("pg_notify") {
				want = 2
			}
		}
		if most = max(most, want); i > 0 && (len(inner) != want || len(all) != 1) { // the first one asks River's capabilities
			t.Errorf("call %d: %d round trips, %d behind it; want %d and 1: %v", i, len(inner), len(all), want, inner)
		}
	}
	t.Logf("%d round trips at most", most)
}
