//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package txidem

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/internal/dbtest"
	"github.com/txonce/txonce/internal/devpg"
)

// TestRunLeased_R14_R08_GhostStandby has commits wait for a standby that never answers. A claim that no standby has is none: a
// failover would forget it, and the effect would come twice. An answer that no standby has is not told.
func TestRunLeased_R14_R08_GhostStandby(t *testing.T) {
	t.Parallel()
	srv := ownServer(t, devpg.StartOwn, &devpg.Config{})
	f, _, _ := wiredAt(t, srv, &Policy{Lease: long, CommitTimeout: 500 * time.Millisecond}, 4)
	stores := map[string]*fixture{"cuts": f, "cancels": f.cancelling(srv)}
	held := make(map[string]*heldLease)
	for label, f := range stores {
		held[label], _ = f.holdLeased(t.Context(), request("held "+label), nil)
	}
	f.ghost(true)
	for label, f := range stores {
		f.besideGhost(label, held[label])
	}
	f.ghost(false)
	for label, f := range stores {
		again, err := RunLeased(t.Context(), f.store, request("held "+label), neverDo(t), neverAsk(t))
		if err != nil || !again.Replayed || again.Value != "done" {
			t.Errorf("%s: repeated later: %+v, %v", label, again, err)
		}
		if got, err := RunLeased(t.Context(), f.store, request("new "+label), doAnswers("done"), neverAsk(t)); err != nil || got.Replayed {
			t.Errorf("%s: the claim that was given up is in the way: %+v, %v", label, got, err)
		}
	}
	f.replayOnOneConnection(srv)
}

// besideGhost makes a call whose claim waits for the ghost, and ends one whose answer does.
func (f *fixture) besideGhost(label string, held *heldLease) {
	f.t.Helper()
	notTold := func(what string, r Result[string], err error) {
		f.t.Helper()
		_, failure := failureIn(err)
		if err == nil || failure || r.Raw != nil || r.Replayed || !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrOutcomeUnknown) && !errors.Is(err, ErrBlocked) {
			f.t.Errorf("%s: %s: got %+v, %v", label, what, r, err)
		}
	}
	got, err := RunLeased(f.t.Context(), f.store, request("new "+label), neverDo(f.t), nil)
	notTold("a claim that no standby has", got, err)
	if !errors.Is(err, ErrUnavailable) || !Retryable(err) {
		f.t.Errorf("%s: nothing was done, and the caller got %v", label, err)
	}
	end := held.end(doAnswers("done"))
	notTold("an answer that no standby has", end.Result, end.err)
	got, err = RunLeased(f.t.Context(), f.store, request("held "+label), neverDo(f.t), neverAsk(f.t))
	notTold("repeated", got, err)
}

// cancelling is the same with a pool that has the server break off what takes too long, and reads what it says then: a
// commit that waits for a standby is told as done.
func (f *fixture) cancelling(srv *devpg.Server) *fixture {
	f.t.Helper()
	pool := dbtest.PoolAt(f.t, srv.URL(), func(cfg *pgxpool.Config) {
		cfg.ConnConfig.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
			return &pgconn.CancelRequestContextWatcherHandler{Conn: conn, DeadlineDelay: 10 * time.Second}
		}
	})
	store, err := New(pool, &Config{Policy: &Policy{Lease: long, CommitTimeout: 500 * time.Millisecond}})
	if err != nil {
		f.t.Fatal(err)
	}
	return &fixture{t: f.t, pool: pool, store: store}
}

// replayOnOneConnection replays from a pool of one where commits may have to wait for a standby: the record is confirmed
// over the connection that the call has.
func (f *fixture) replayOnOneConnection(srv *devpg.Server) {
	f.t.Helper()
	f.exec(`alter system set synchronous_standby_names = 'ghost'`)
	f.exec(`select pg_reload_conf()`)
	d := &dials{}
	pool := dbtest.PoolAt(f.t, srv.URL(), func(cfg *pgxpool.Config) {
		cfg.ConnConfig.DialFunc = d.dial
		cfg.ConnConfig.RuntimeParams["synchronous_commit"] = "local"
		cfg.MaxConns = 1
	})
	store, err := New(pool, &Config{Policy: &Policy{CommitTimeout: 3 * time.Second}})
	if err != nil {
		f.t.Fatal(err)
	}
	eventually(f.t, "the setting is there", func() bool {
		var names string
		err := pool.QueryRow(f.t.Context(), `show synchronous_standby_names`).Scan(&names)
		return err == nil && names == "ghost"
	})
	got, err := RunLeased(f.t.Context(), store, request("held cuts"), neverDo(f.t), nil)
	if n := d.count(); err != nil || !got.Replayed || n != 1 {
		f.t.Errorf("got %+v, %v over %d connections; want the replay over one", got, err, n)
	}
	f.exec(`alter system reset synchronous_standby_names`)
	f.exec(`select pg_reload_conf()`)
}
