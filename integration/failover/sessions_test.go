package failover

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/integration/internal/servers"
	"github.com/txonce/txonce/toolcall"
	"github.com/txonce/txonce/txidem"
)

// TestFailover_R11_R08_SessionsGoOn: pools have one session each, with prepared statements, on the primary that is killed or on the
// standby that is promoted. The first call behind that is answered without a repeat by the caller, whichever way it goes.
func TestFailover_R11_R08_SessionsGoOn(t *testing.T) {
	servers.Everywhere(t, sessionsGoOn)
}

// ways to make a call that writes a row.
var ways = map[string]func(ctx context.Context, s *txidem.Store, in intent) (txidem.Result[string], error){
	"Run": func(ctx context.Context, s *txidem.Store, in intent) (txidem.Result[string], error) {
		return txidem.Run(ctx, s, request(in), func(ctx context.Context, tx pgx.Tx) (string, error) {
			_, err := tx.Exec(ctx, sqlEffect, in.tool, in.key, "")
			return in.key, err
		})
	},
	"RunBatch": func(ctx context.Context, s *txidem.Store, in intent) (txidem.Result[string], error) {
		return txidem.RunBatch(ctx, s, request(in), func(_ context.Context, b *txidem.Batch) (string, error) {
			b.Queue(sqlEffect, in.tool, in.key, "")
			return in.key, nil
		})
	},
}

// session is a pool of one session, which is not looked at before it is given out.
type session struct {
	pool  *pgxpool.Pool
	store *txidem.Store
}

func newSession(p *pair, url string) session {
	p.t.Helper()
	pool := p.pool(url, func(cfg *pgxpool.Config) {
		cfg.MaxConns = 1
		cfg.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	})
	return session{pool, newStore(p.t, pool)}
}

func sessionsGoOn(t *testing.T, place servers.Place) {
	p := newPair(t, place)
	on, off := map[string]session{}, map[string]session{}
	for way, call := range ways {
		on[way], off[way] = newSession(p, p.url), newSession(p, p.standby.URL())
		for range 2 { // the second one finds its statements prepared
			if _, err := call(t.Context(), on[way].store, intent{way, "before"}); err != nil {
				t.Fatal(err)
			}
		}
	}
	eventually(t, "the standby has the calls", func() bool {
		return get[int](p, p.standby, `select count(*) from txonce.call`) == len(ways)
	})
	readers := map[string]uint32{}
	for way, call := range ways {
		if got, err := call(t.Context(), off[way].store, intent{way, "before"}); !errors.Is(err, txidem.ErrUnavailable) || !txidem.Retryable(err) {
			t.Errorf("%s on the standby: %+v, %v; want ErrUnavailable", way, got, err)
		}
		for range 2 {
			if status, err := off[way].store.Status(t.Context(), request(intent{way, "before"})); !errors.Is(err, txidem.ErrOutcomeUnknown) {
				t.Errorf("the status on the standby: %+v, %v; want ErrOutcomeUnknown", status, err)
			}
		}
		readers[way] = off[way].backend(t)
	}

	if err := p.primary.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.promote()
	for way, call := range ways {
		for what, s := range map[string]session{"on the primary": on[way], "on the standby": off[way]} {
			if got, err := call(t.Context(), s.store, intent{way, "after, " + what}); err != nil || got.Replayed {
				t.Errorf("%s, whose session was %s: %+v, %v; want an answer", way, what, got, err)
			}
			if got, err := call(t.Context(), s.store, intent{way, "before"}); err != nil || !got.Replayed {
				t.Errorf("%s of a call from before, whose session was %s: %+v, %v; want the replay", way, what, got, err)
			}
		}
		if pid := off[way].backend(t); pid != readers[way] {
			t.Errorf("the session on the standby was %d and is %d: the test proves nothing of sessions that see a promotion", readers[way], pid)
		}
		status, err := off[way].store.Status(t.Context(), request(intent{way, "before"}))
		if err != nil || status.State != toolcall.StateSucceeded {
			t.Errorf("the status on the promoted standby: %+v, %v", status, err)
		}
	}
	if n, want := get[int](p, p.standby, `select count(*) from effect`), 3*len(ways); n != want {
		t.Errorf("%d effects of %d calls", n, want)
	}
}

// backend is the server process of the session.
func (s session) backend(t *testing.T) (pid uint32) {
	t.Helper()
	if err := s.pool.QueryRow(t.Context(), `select pg_backend_pid()`).Scan(&pid); err != nil {
		t.Fatal(err)
	}
	return pid
}
