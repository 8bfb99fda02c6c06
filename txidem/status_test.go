package txidem

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/toolcall"
)

func (f *fixture) state(req Request) toolcall.State {
	f.t.Helper()
	status, err := f.store.Status(f.t.Context(), req)
	if err != nil {
		f.t.Fatal(err)
	}
	return status.State
}

func TestStatus_S02_TellsTheTruthAboutEachState(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	if got := f.state(request("k")); got != toolcall.StateNone {
		t.Errorf("never made: %s", got)
	}
	running := f.hold(request("k"), "k")
	if got := f.state(request("k")); got != toolcall.StateRunning {
		t.Errorf("while it runs: %s", got)
	}
	if got := f.state(request("other")); got != toolcall.StateNone {
		t.Errorf("another call: %s", got)
	}
	if err := running.end(nil); err != nil {
		t.Fatal(err)
	}
	got, err := f.store.Status(t.Context(), request("k"))
	if err != nil || got.State != toolcall.StateSucceeded || string(got.Answer) != `"done k"` || got.FinishedAt.IsZero() || got.Tool != "issue_refund" {
		t.Errorf("done: %+v, %v", got, err)
	}
	f.age("x:k")
	if got, err := f.store.Status(t.Context(), request("k")); err != nil || got.State != toolcall.StateExpired || got.Answer != nil {
		t.Errorf("expired: %+v, %v", got, err)
	}
	_, _ = Run(t.Context(), f.store, request("f"), func(context.Context, pgx.Tx) (string, error) { return "", Fail("no", "never") })
	if got, err := f.store.Status(t.Context(), request("f")); err != nil || got.State != toolcall.StateFailed || got.Failure == nil || got.Failure.Code != "no" {
		t.Errorf("failed: %+v, %v", got, err)
	}
	other := request("f")
	other.Args = []byte(`{}`)
	if got, err := f.store.Status(t.Context(), other); !errors.Is(err, ErrKeyReused) || got.Failure != nil {
		t.Errorf("other arguments: %+v, %v", got, err)
	}
}

// TestStatus_S02_NeverNoRecordAboutACommittedCall asks beside commits: a call that has returned must never look as if it
// had not been made.
func TestStatus_S02_NeverNoRecordAboutACommittedCall(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, func(cfg *pgxpool.Config) { cfg.MaxConns = 16 })
	const calls = 150
	var asked, wrong atomic.Int64
	for i := range calls {
		req := request(name("k", i))
		begun := make(chan struct{})
		var ended atomic.Bool
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := Run(t.Context(), f.store, req, func(ctx context.Context, tx pgx.Tx) (string, error) {
				close(begun)
				return "", write(ctx, tx, "k")
			}); err != nil {
				t.Error(err)
			}
			ended.Store(true)
		})
		<-begun // from here on the call is running or done, never absent
		for range 4 {
			wg.Go(func() {
				for last := false; !last; {
					last = ended.Load()
					asked.Add(1)
					if got, err := f.store.Status(t.Context(), req); err != nil || got.State == toolcall.StateNone {
						wrong.Add(1)
						t.Errorf("got %s, %v", got.State, err)
					}
				}
			})
		}
		wg.Wait()
	}
	t.Logf("%d questions, %d wrong answers", asked.Load(), wrong.Load())
}

func TestResolve_R08_WaitsForTheEnd(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	for _, c := range []struct {
		key  string
		err  error
		want toolcall.State
	}{{"commits", nil, toolcall.StateSucceeded}, {"rolls back", errors.New("no"), toolcall.StateNone}} {
		running := f.hold(request(c.key), c.key)
		got := make(chan toolcall.Status)
		go func() {
			status, err := f.store.Resolve(t.Context(), request(c.key))
			if err != nil {
				t.Error(err)
			}
			got <- status
		}()
		eventually(t, "the resolver waits for the lock", func() bool {
			var n int
			_ = f.pool.QueryRow(t.Context(), `select count(*) from pg_locks where locktype = 'advisory' and not granted`).Scan(&n)
			return n == 1
		})
		if err := running.end(c.err); !errors.Is(err, c.err) {
			t.Fatal(err)
		}
		if status := <-got; status.State != c.want {
			t.Errorf("%s: %s, want %s", c.key, status.State, c.want)
		}
	}
}

func TestResolve_R08_WhatDoesNotEndIsUnknown(t *testing.T) {
	t.Parallel()
	f := setup(t, &Policy{CommitTimeout: 50e6}, nil)
	running := f.hold(request("k"), "k")
	if got, err := f.store.Resolve(t.Context(), request("k")); !errors.Is(err, ErrOutcomeUnknown) {
		t.Errorf("got %+v, %v; want ErrOutcomeUnknown", got, err)
	}
	if err := running.end(nil); err != nil {
		t.Fatal(err)
	}
}
