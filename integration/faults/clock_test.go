package faults

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/integration/internal/servers"
	"github.com/txonce/txonce/txidem"
)

// TestApplicationClock_I8_R12_DoesNotMatter has application and server disagree about the time by an hour. It is the server's clock
// that is moved, for Go's cannot be; all that could matter is the difference. Nothing in the test is an hour long, so what waits
// for the other clock does not come, and what the other clock has expired is run again.
func TestApplicationClock_I8_R12_DoesNotMatter(t *testing.T) {
	servers.Everywhere(t, func(t *testing.T, p servers.Place) {
		if !p.Container() {
			t.Skip("only a container gives a server a clock of its own; run make pg-image, and unset " + servers.EnvServers)
		}
		for name, ahead := range map[string]time.Duration{"server ahead": time.Hour, "server behind": -time.Hour} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s, err := p.Start(t.Context(), &servers.Config{Ahead: ahead})
				if errors.Is(err, servers.ErrNoClock) {
					t.Skip(err)
				}
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = s.Stop() })
				w := newWorld(t, s, &txidem.Policy{Retention: 30 * time.Minute}, nil)
				if off := time.Until(w.now()) - ahead; off.Abs() > 5*time.Minute {
					t.Fatalf("the server's clock is %v off, want %v", time.Until(w.now()), ahead)
				}
				w.employ(nil)
				w.staff.stumble.Store(true)
				l := newLoad(w, byRun, byBatch, byJob, byMessage).start()
				l.answered(16)
				l.end()
				w.timesAreTheServers()
				w.expiresInTime()
				w.leasesLast()
				w.clean()
			})
		}
	})
}

// now is the server's time.
func (w *world) now() (now time.Time) {
	w.t.Helper()
	if err := w.books.QueryRow(w.t.Context(), `select clock_timestamp()`).Scan(&now); err != nil {
		w.t.Fatal(err)
	}
	return now
}

// timesAreTheServers checks what callers are told of times.
func (w *world) timesAreTheServers() {
	w.t.Helper()
	before := w.now()
	got, err := txidem.Run(w.t.Context(), w.store, request("timed"), w.writes("timed"))
	if err != nil || got.FinishedAt.Before(before) || got.FinishedAt.After(w.now()) {
		w.t.Errorf("I8: the call has ended at %v (%v), want a time of the server's behind %v", got.FinishedAt, err, before)
	}
}

func (w *world) writes(run string) func(context.Context, pgx.Tx) (string, error) {
	return func(ctx context.Context, tx pgx.Tx) (string, error) { return run, w.write(ctx, tx, "other", run, "") }
}

// expiresInTime has a record answer as long as the policy says, and not longer.
func (w *world) expiresInTime() {
	w.t.Helper()
	req := request("short")
	req.Policy = &txidem.Policy{Retention: time.Second}
	if _, err := txidem.Run(w.t.Context(), w.store, req, w.writes("first")); err != nil {
		w.t.Fatal(err)
	}
	eventually(w.t, "the record has expired", func() bool {
		return w.count(`select count(*) from txonce.call where key = 'x:short' and expires_at <= clock_timestamp()`) == 1
	})
	if got, err := txidem.Run(w.t.Context(), w.store, req, w.writes("second")); err != nil || got.Replayed || got.Value != "second" {
		w.t.Errorf("R12: behind the record's time the call got %+v, %v; want to run", got, err)
	}
}

// leasesLast has a duplicate come while a leased call works, and its lease is renewed.
func (w *world) leasesLast() {
	w.t.Helper()
	req := request("leased")
	req.Policy = &txidem.Policy{Lease: 20 * time.Second, Renew: 2 * time.Second, OnLeaseLost: txidem.RerunLost}
	var runs atomic.Int64
	got, err := txidem.RunLeased(w.t.Context(), w.store, req, func(ctx context.Context) (string, error) {
		const sqlLease = `select (extract(epoch from lease_until) * 1000)::bigint from txonce.call where key = 'x:leased'`
		begun := w.count(sqlLease)
		eventually(w.t, "the lease is renewed", func() bool { return w.count(sqlLease) > begun+500 })
		_, err := txidem.RunLeased(context.WithoutCancel(w.t.Context()), w.store, req, func(context.Context) (string, error) {
			runs.Add(1)
			return "second", nil
		}, nil)
		if !errors.Is(err, txidem.ErrInProgress) {
			w.t.Errorf("R14: meanwhile a duplicate got %v, want ErrInProgress", err)
		}
		return "first", ctx.Err()
	}, nil)
	if err != nil || got.Value != "first" || runs.Load() != 0 {
		w.t.Errorf("R14: the leased call got %+v, %v; the duplicate ran %d times", got, err, runs.Load())
	}
}
