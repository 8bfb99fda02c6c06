package txidem

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/internal/dbtest"
	"github.com/txonce/txonce/toolcall"
)

// TestRunTx_R02_R06_NothingIsThereBeforeTheCallersCommit has the caller roll back after RunTx has returned an answer, or a
// failure, and another caller come in between.
func TestRunTx_R02_R06_NothingIsThereBeforeTheCallersCommit(t *testing.T) {
	t.Parallel()
	for _, level := range isolationLevels {
		for _, fails := range []bool{false, true} {
			f := setup(t, nil, nil)
			ctx := t.Context()
			handler := func(ctx context.Context, tx pgx.Tx) (string, error) {
				if err := write(ctx, tx, "k"); err != nil || !fails {
					return "mine", err
				}
				return "", Fail("no", "no")
			}
			tx, err := f.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: level})
			if err != nil {
				t.Fatal(err)
			}
			got, err := RunTx(ctx, tx, f.store, request("k"), handler)
			if fails != isFailure(err) || got.Replayed || got.FinishedAt.IsZero() {
				t.Errorf("%s: %+v, %v", level, got, err)
			}
			if f.records() != 0 || f.effects("k") != 0 || f.state(request("k")) != toolcall.StateRunning {
				t.Errorf("%s: %d records, %d effects, state %s in front of the commit", level, f.records(), f.effects("k"), f.state(request("k")))
			}
			rival := request("k")
			rival.Policy = &Policy{Wait: NoWait}
			if _, err := Run(ctx, f.store, rival, writes("k")); !errors.Is(err, ErrInProgress) {
				t.Errorf("%s: a rival got %v", level, err)
			}
			if err := tx.Rollback(ctx); err != nil {
				t.Error(err)
			}
			if status, err := f.store.Resolve(ctx, request("k")); err != nil || status.State != toolcall.StateNone || f.records() != 0 {
				t.Errorf("%s, rolled back: %+v, %v, %d records", level, status, err, f.records())
			}
			if got, err := Run(ctx, f.store, request("k"), writes("k")); err != nil || got.Replayed {
				t.Errorf("%s, the next call: %+v, %v", level, got, err)
			}
			f.effectsAre(map[string]int{"k": 1})
			f.clean()
		}
	}
}

// TestRunTx_R02_SavepointOfTheCallers undoes a call with the caller's own savepoint.
func TestRunTx_R02_SavepointOfTheCallers(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	ctx := t.Context()
	err := pgx.BeginFunc(ctx, f.pool, func(tx pgx.Tx) error {
		for _, undo := range []bool{true, false} {
			inner, err := tx.Begin(ctx)
			if err != nil {
				return err
			}
			if got, err := RunTx(ctx, inner, f.store, request("k"), writes("k")); err != nil || got.Replayed {
				t.Errorf("undo %v: %+v, %v", undo, got, err)
			}
			if undo {
				err = inner.Rollback(ctx)
			} else {
				err = inner.Commit(ctx)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil || f.effects("k") != 1 || f.records() != 1 {
		t.Errorf("%v, %d effects, %d records", err, f.effects("k"), f.records())
	}
	f.clean()
}

// TestRunTx_R08_CutsAtTheCallersCommit cuts the wire at the caller's COMMIT, of which RunTx knows nothing. Resolve says what
// became of it, and a repeated call agrees.
func TestRunTx_R08_CutsAtTheCallersCommit(t *testing.T) {
	t.Parallel()
	for label, c := range map[string]struct {
		cuts      []aCut
		committed bool
	}{
		"before": {[]aCut{inEveryMode[0].aCut, inEveryMode[1].aCut, inEveryMode[2].aCut}, false}, // COMMIT is one message
		"after":  {cutsAfter[1:], true},
	} {
		t.Run(name(label), func(t *testing.T) {
			t.Parallel()
			n := cuts(36)
			f, wire, _ := wired(t, nil, 8)
			wire.LoseCancels(true)
			f.slowCommits(`perform pg_sleep(0.002 * random())`)
			f.cutEach(n, func(key string, i int) {
				cut := c.cuts[i%len(c.cuts)]
				fails := i/3%3 == 2
				if err := f.cutTx(key, cut, isolationLevels[(i+i/3+i/9)%3], fails); err == nil {
					t.Errorf("%s: the commit was not cut", cut.name)
				}
				status, err := f.store.Resolve(t.Context(), request(key))
				want := toolcall.StateNone
				if c.committed && fails {
					want = toolcall.StateFailed
				} else if c.committed {
					want = toolcall.StateSucceeded
				}
				if err != nil || status.State != want {
					t.Errorf("%s, fails %v: resolved to %+v, %v; want %s", cut.name, fails, status, err, want)
				}
				effects := len(f.ranLike(key)[key])
				if wanted := want == toolcall.StateSucceeded; wanted != (effects == 1) {
					t.Errorf("%s, fails %v: %d effects", cut.name, fails, effects)
				}
				if got, err := Run(t.Context(), f.store, request(key), writes(key)); got.Replayed != c.committed || isFailure(err) != (c.committed && fails) {
					t.Errorf("%s: repeated: %+v, %v", cut.name, got, err)
				}
			})
			f.clean()
		})
	}
}

// cutTx makes a call in a transaction whose commit is cut.
func (f *fixture) cutTx(key string, cut aCut, level pgx.TxIsoLevel, fails bool) error {
	ctx := f.t.Context()
	tx, err := f.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: level})
	if err != nil {
		f.t.Error(err)
		return nil
	}
	defer func() { _ = tx.Rollback(ctx) }()
	if _, err = RunTx(ctx, tx, f.store, request(key), func(ctx context.Context, tx pgx.Tx) (string, error) {
		if err := writeRun(ctx, tx, key, 1); err != nil || !fails {
			return "done", err
		}
		return "", Fail("no", "no")
	}); err != nil && !isFailure(err) {
		f.t.Error(err)
	}
	fault := cut.fault
	fault.Write = nil // the commit is the next one
	wireOf(tx).Arm(fault)
	return tx.Commit(ctx)
}

// TestRunTx_R02_BackendTerminated ends the caller's backend at each step of a call. Nothing of the call is left, and nobody is
// told that it was done.
func TestRunTx_R02_BackendTerminated(t *testing.T) {
	t.Parallel()
	steps := []string{"before the call", "first in the handler", "between two statements", "last in the handler", "behind the call"}
	for at, step := range steps {
		t.Run(name(step), func(t *testing.T) {
			t.Parallel()
			f, _, events := wired(t, nil, 4)
			ctx := t.Context()
			kill := at
			dbtest.SkipPooled(t, "which backend ends is the pooler's to say, and this one would end its own")
			here := func(tx pgx.Tx, now int) {
				if now == kill {
					f.terminate(tx.Conn().PgConn().PID())
				}
			}
			call := func() (got Result[string], err error) {
				tx, err := f.pool.Begin(ctx)
				if err != nil {
					return got, err
				}
				defer func() { _ = tx.Rollback(ctx) }()
				here(tx, 0)
				got, err = RunTx(ctx, tx, f.store, request("k"), func(ctx context.Context, tx pgx.Tx) (string, error) {
					here(tx, 1)
					if err := writeRun(ctx, tx, "k", 1); err != nil {
						return "", err
					}
					here(tx, 2)
					if kill == 2 {
						if err := writeRun(ctx, tx, "k", 2); err != nil {
							return "", err
						}
					}
					here(tx, 3)
					return "done", nil
				})
				if err != nil {
					return got, err
				}
				here(tx, 4)
				return got, tx.Commit(ctx)
			}
			got, err := call()
			if err == nil || !Retryable(err) || errors.Is(err, ErrOutcomeUnknown) || kill < 4 && !errors.Is(err, ErrUnavailable) {
				t.Errorf("got %+v, %v; want ErrUnavailable", got, err)
			}
			if e := events.last(got.ID); kill < 4 && e.Decision != DecidedReleased {
				t.Errorf("event %+v", e)
			}
			if len(f.ran()) != 0 || f.records() != 0 {
				t.Errorf("%v, %d records are left", f.ran(), f.records())
			}
			kill = -1
			if got, err := call(); err != nil || got.Replayed {
				t.Errorf("repeated: %+v, %v", got, err)
			}
			f.clean()
		})
	}
}

// TestRunTx_R20_IdleCallerLosesItsClaim has the caller think for too long behind the call.
func TestRunTx_R20_IdleCallerLosesItsClaim(t *testing.T) {
	t.Parallel()
	f := setup(t, &Policy{IdleInTx: 50 * time.Millisecond}, nil)
	ctx := t.Context()
	tx, err := f.pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := RunTx(ctx, tx, f.store, request("k"), writes("k")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the server has ended the transaction", func() bool { return f.locks() == 0 })
	if err := tx.Commit(ctx); err == nil {
		t.Error("the caller's commit went through")
	}
	_, err = f.callTx(ctx, pgx.ReadCommitted, request("k"), func(ctx context.Context, tx pgx.Tx) (string, error) {
		eventually(t, "the server has ended the transaction", func() bool { return f.locks() == 0 })
		return "fine", write(ctx, tx, "k")
	})
	if !errors.Is(err, ErrIdleTooLong) {
		t.Errorf("an idle handler: %v", err)
	}
	if f.records() != 0 || f.effects("k") != 0 {
		t.Errorf("%d records, %d effects", f.records(), f.effects("k"))
	}
	f.clean()
}

// TestRunTx_R20_SettingsEndWithTheTransaction keeps them from the next user of the connection.
func TestRunTx_R20_SettingsEndWithTheTransaction(t *testing.T) {
	t.Parallel()
	for _, commit := range []bool{false, true} {
		f := setup(t, nil, nil)
		ctx := t.Context()
		conn, err := pgx.ConnectConfig(ctx, f.pool.Config().ConnConfig)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(ctx)
		tx, err := conn.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		_, before, _ := seen(ctx, tx)
		if _, err := RunTx(ctx, tx, f.store, request("k"), func(ctx context.Context, tx pgx.Tx) (string, error) {
			if attempt, idle, err := seen(ctx, tx); len(attempt) != 36 || idle != "30s" || err != nil {
				t.Errorf("inside: attempt %q, idle %q, %v", attempt, idle, err)
			}
			return strconv.FormatBool(commit), nil
		}); err != nil {
			t.Fatal(err)
		}
		if attempt, idle, err := seen(ctx, tx); attempt != "" || idle != "30s" || err != nil { // the lock is still there
			t.Errorf("behind the call: attempt %q, idle %q, %v", attempt, idle, err)
		}
		if commit {
			err = tx.Commit(ctx)
		} else {
			err = tx.Rollback(ctx)
		}
		if err != nil {
			t.Error(err)
		}
		after, err := conn.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if attempt, idle, err := seen(ctx, after); attempt != "" || idle != before || err != nil {
			t.Errorf("behind the transaction: attempt %q, idle %q, was %q, %v", attempt, idle, before, err)
		}
	}
}
