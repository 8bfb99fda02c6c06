package outbox_test

import (
	"context"
	"net"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/internal/dbtest"
	"github.com/txonce/txonce/internal/pgturns"
	"github.com/txonce/txonce/outbox"
	"github.com/txonce/txonce/txidem"
)

// turns keeps what is executed in one round trip each.
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

type watchedConn struct {
	net.Conn
	scanner *pgturns.Scanner
	turns   *turns
}

func (c watchedConn) Write(b []byte) (int, error) {
	if turn := c.scanner.Turn(b); turn.Executes() {
		c.turns.mu.Lock()
		c.turns.all = append(c.turns.all, turn)
		c.turns.mu.Unlock()
	}
	return c.Conn.Write(b)
}

// watched has a pool of one connection, of which turns are kept.
func (w *turns) watched(cfg *pgxpool.Config) {
	dial := cfg.ConnConfig.DialFunc
	cfg.MaxConns = 1
	cfg.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		return watchedConn{conn, &pgturns.Scanner{}, w}, err
	}
	cfg.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
}

// TestPublish_O01_CostsNoRoundTrip: a call with messages makes three turns, as one without, and a batch makes one.
func TestPublish_O01_CostsNoRoundTrip(t *testing.T) {
	t.Parallel()
	w := &turns{}
	pool := dbtest.Pool(t, w.watched)
	box := newBox(t, pool, nil, mail())
	store := newStore(t, pool, nil)
	keyed := outbox.Message{Destination: "mail", OrderingKey: "k"}
	for label, c := range map[string]struct {
		call func(key string) error
		want int
	}{
		"Run": {func(key string) error {
			_, err := txidem.Run(t.Context(), store, request(key), sends(box, keyed, outbox.Message{Destination: "mail"}))
			return err
		}, 2}, // the handler's own one is not made: it has no statement
		"RunBatch": {func(key string) error {
			_, err := txidem.RunBatch(t.Context(), store, request(key), func(ctx context.Context, _ *txidem.Batch) (string, error) {
				_, err := box.Publish(ctx, keyed)
				return "", err
			})
			return err
		}, 1},
	} {
		for i := range 4 { // the first ones describe statements
			w.take()
			if err := c.call(label + string(rune('0'+i))); err != nil {
				t.Fatalf("%s: %v", label, err)
			}
			all := w.take()
			if i < 3 {
				continue
			}
			if len(all) != c.want {
				t.Errorf("%s: %d round trips, want %d: %+v", label, len(all), c.want, all)
			}
			last := all[len(all)-1]
			lock, message, record := last.Find("pg_advisory_xact_lock(a, b)"), last.Find(`".message (id, `), last.Find(pgturns.RecordText)
			if !last.Commits || lock < 0 || message < lock || record < 0 || label == "Run" && record < message {
				t.Errorf("%s: the last round trip has the lock at %d, the message at %d, the record at %d, and commits: %v", label, lock, message, record, last.Commits)
			}
		}
	}
}
