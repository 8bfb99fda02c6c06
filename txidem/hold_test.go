package txidem

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/toolcall"
)

// sqlToken is what a handler can learn of its attempt.
const sqlToken = `select current_setting('txonce.attempt', true)`

// holder is what handlers do that have their records held, and what they saw.
type holder struct {
	token string // of the last run
	keep  time.Duration
}

// inTx is a handler that has its record held, and returns err.
func (h *holder) inTx(err error) func(context.Context, pgx.Tx) (string, error) {
	return func(ctx context.Context, tx pgx.Tx) (string, error) {
		return "held", errors.Join(tx.QueryRow(ctx, sqlToken).Scan(&h.token), h.hold(ctx), err)
	}
}

// leased is the same for RunLeased, where the claim can be seen.
func (h *holder) leased(f *fixture, req Request, err error) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		return "held", errors.Join(f.pool.QueryRow(ctx, `select attempt::text from txonce.call where key = $1`, "x:"+req.Key).Scan(&h.token), h.hold(ctx), err)
	}
}

// batch is the same for RunBatch. What it saw is in the table of effects.
func (h *holder) batch(req Request, err error) func(context.Context, *Batch) (string, error) {
	return func(ctx context.Context, b *Batch) (string, error) {
		b.Queue(`insert into effect (intent) select $1 || ' ' || current_setting('txonce.attempt', true)`, req.Key)
		return "held", errors.Join(h.hold(ctx), err)
	}
}

func (h *holder) hold(ctx context.Context) error {
	call, _ := toolcall.FromContext(ctx)
	h.keep = call.Keep
	if call.Held() {
		return errors.New("it is held before anyone asked for it")
	}
	if err := call.Hold(); err != nil {
		return err
	}
	if !call.Held() {
		return errors.New("it is not held after Hold")
	}
	return nil
}

// holding are calls whose handlers have their records held and return err, in each way and at each level.
func holding(f *fixture, policy *Policy, err error) map[string]func(context.Context, string) (*holder, Result[string], error) {
	ways := make(map[string]func(context.Context, string) (*holder, Result[string], error))
	for _, level := range isolationLevels {
		at := *policy
		at.Isolation = level
		named := func(key string) Request {
			req := request(key)
			req.Policy = &at
			return req
		}
		ways["Run "+string(level)] = func(ctx context.Context, key string) (*holder, Result[string], error) {
			h := &holder{}
			r, err := Run(ctx, f.store, named(key), h.inTx(err))
			return h, r, err
		}
		ways["RunTx "+string(level)] = func(ctx context.Context, key string) (*holder, Result[string], error) {
			h := &holder{}
			r, err := f.callTx(ctx, level, named(key), h.inTx(err))
			return h, r, err
		}
		ways["RunBatch "+string(level)] = func(ctx context.Context, key string) (*holder, Result[string], error) {
			h := &holder{}
			r, err := RunBatch(ctx, f.store, named(key), h.batch(named(key), err))
			_ = f.pool.QueryRow(ctx, `select substr(intent, length($1) + 2) from effect where intent like $1 || ' %' order by id desc limit 1`, key).Scan(&h.token)
			return h, r, err
		}
	}
	ways["RunLeased"] = func(ctx context.Context, key string) (*holder, Result[string], error) {
		h, req := &holder{}, request(key)
		req.Policy = policy
		r, err := RunLeased(ctx, f.store, req, h.leased(f, req, err), nil)
		return h, r, err
	}
	return ways
}

// held reports whether the record of the key has no expiry.
func (f *fixture) held(key string) bool {
	f.t.Helper()
	var yes bool
	if err := f.pool.QueryRow(f.t.Context(), `select expires_at is null from txonce.call where key = $1`, "x:"+key).Scan(&yes); err != nil {
		f.t.Errorf("%s: %v", key, err)
	}
	return yes
}

// release gives the record of an attempt an expiry, as package jobs does, and reports whether it did.
func (f *fixture) release(id toolcall.ID, attempt string, keep time.Duration) bool {
	f.t.Helper()
	tag, err := f.pool.Exec(f.t.Context(), `update txonce.call set expires_at = clock_timestamp() + make_interval(secs => $3)
		where id = $1::text::uuid and attempt = $2::text::uuid and expires_at is null`, id.String(), attempt, keep.Seconds())
	if err != nil {
		f.t.Errorf("release of %s by %q: %v", id, attempt, err)
	}
	return tag.RowsAffected() == 1
}

func TestHold_J01_I2_HeldRecordAnswersUntilItIsReleasedAndExpires(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	const keep = 3 * time.Hour
	for way, call := range holding(f, &Policy{Retention: keep}, nil) {
		t.Run(name(way), func(t *testing.T) {
			key := name(way)
			h, first, err := call(t.Context(), key)
			if err != nil || first.Replayed || h.keep != keep {
				t.Fatalf("first: %+v, %v, Keep %v; want %v", first, err, h.keep, keep)
			}
			if !f.held(key) {
				t.Fatal("its record has an expiry")
			}
			replays := func(when string) {
				t.Helper()
				again, err := onceMore(t.Context(), call, key)
				if err != nil || !again.Replayed || string(again.Raw) != string(first.Raw) || !again.FinishedAt.Equal(first.FinishedAt) {
					t.Errorf("%s: %+v, %v; want the first answer", when, again, err)
				}
			}
			replays("held")
			if swept, err := f.store.Sweep(t.Context()); err != nil || swept != (Swept{}) {
				t.Errorf("swept %+v, %v; want nothing", swept, err)
			}
			if status, err := f.store.Status(t.Context(), request(key)); err != nil || status.State != toolcall.StateSucceeded || string(status.Answer) != string(first.Raw) {
				t.Errorf("its status is %+v, %v", status, err)
			}
			if f.release(first.ID, newToken().String(), keep) || !f.release(first.ID, h.token, keep) || f.release(first.ID, h.token, 0) {
				t.Errorf("the handler's token %q does not name the record once and alone", h.token)
			}
			replays("released")
			f.age("x:" + key)
			if _, again, err := call(t.Context(), key); err != nil || again.Replayed {
				t.Errorf("expired: %+v, %v; want another run", again, err)
			}
			if !f.held(key) {
				t.Error("the record of the run over the expired one is not held")
			}
			f.exec(`delete from txonce.call`)
		})
	}
	f.idle()
}

func onceMore(ctx context.Context, call func(context.Context, string) (*holder, Result[string], error), key string) (Result[string], error) {
	_, again, err := call(ctx, key)
	return again, err
}

// TestHold_J01_FailuresAreNotHeld: no job was submitted, since nothing that the handler wrote is kept.
func TestHold_J01_FailuresAreNotHeld(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	for way, call := range holding(f, &Policy{Retention: time.Hour}, Fail("no", "not this one")) {
		_, _, err := call(t.Context(), name(way))
		var failure *toolcall.Failure
		if !errors.As(err, &failure) {
			t.Errorf("%s: %v, want the failure", way, err)
		} else if f.held(name(way)) {
			t.Errorf("%s: the failure is held", way)
		}
	}
}

// TestHold_J01_FailureOfAnEscapeIsNotHeld: what is recorded is not the handler's answer.
func TestHold_J01_FailureOfAnEscapeIsNotHeld(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	for _, level := range isolationLevels {
		commits := func(ctx context.Context, tx pgx.Tx) (string, error) {
			_, err := tx.Exec(ctx, "commit")
			return "", errors.Join((&holder{}).hold(ctx), err)
		}
		key := name("run ", level)
		req := request(key)
		req.Policy = &Policy{Isolation: level}
		if _, err := Run(t.Context(), f.store, req, commits); !errors.Is(err, ErrHandlerEndedTx) || f.held(key) {
			t.Errorf("%s: %v; want ErrHandlerEndedTx, and no hold", key, err)
		}
		key = name("tx ", level)
		if _, err := f.callTx(t.Context(), level, request(key), commits); !errors.Is(err, ErrHandlerEndedTx) || f.held(key) {
			t.Errorf("%s: %v; want ErrHandlerEndedTx, and no hold", key, err)
		}
	}
}

// TestHold_J01_IsOfOneRun: a run that was rolled back, or whose call went another way, says nothing of the next.
func TestHold_J01_IsOfOneRun(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	for _, holds := range [...][2]bool{{true, false}, {false, true}} {
		key, runs := name(holds), 0
		if _, err := Run(t.Context(), f.store, request(key), func(ctx context.Context, tx pgx.Tx) (string, error) {
			runs++
			if holds[runs-1] {
				if err := (&holder{}).hold(ctx); err != nil {
					return "", err
				}
			}
			if runs == 1 {
				_, err := tx.Exec(ctx, `do $$ begin raise sqlstate '40001'; end $$`)
				return "", err
			}
			return "done", nil
		}); err != nil || runs != 2 {
			t.Fatalf("%v: %v, %d runs", holds, err, runs)
		}
		if f.held(key) != holds[1] {
			t.Errorf("%v: held is %v, want what the last run said", holds, !holds[1])
		}
	}
	for i, want := range [...]bool{false, true} { // the other call's hold is not this one's
		h, key := &holder{}, name("outer", i)
		if _, err := Run(t.Context(), f.store, request(key), func(ctx context.Context, tx pgx.Tx) (string, error) {
			inner := &holder{}
			if _, err := RunTx(ctx, tx, f.store, request(key+"-inner"), inner.inTx(nil)); err != nil {
				return "", err
			}
			if err := tx.QueryRow(ctx, sqlToken).Scan(&h.token); err != nil || h.token == inner.token {
				return "", errors.Join(err, errors.New("the token is still the inner call's"))
			}
			if want {
				return "", h.hold(ctx)
			}
			return "", nil
		}); err != nil {
			t.Fatal(err)
		}
		if f.held(key) != want || !f.held(key+"-inner") {
			t.Errorf("outer is held: %v, inner: %v; want %v, true", f.held(key), f.held(key+"-inner"), want)
		}
		if want && !f.release(toolcall.NewID("alice", "issue_refund", "x:"+key), h.token, 0) {
			t.Error("behind an inner call, the handler's token does not name its record")
		}
	}
}

// TestHold_J01_BatchThatNeedsADialogueIsHeldToo: its handler does not run again.
func TestHold_J01_BatchThatNeedsADialogueIsHeldToo(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	for _, key := range []string{"a", "b"} {
		if _, err := RunBatch(t.Context(), f.store, request(key), queues(key)); err != nil || f.held(key) {
			t.Fatalf("%v, held %v", err, f.held(key))
		}
	}
	f.age("%")
	for _, key := range []string{"a", "b"} { // over an expired record, and with the tool on its slow way
		if r, err := RunBatch(t.Context(), f.store, request(key), (&holder{}).batch(request(key), nil)); err != nil || r.Replayed || !f.held(key) {
			t.Errorf("%s: %+v, %v; want it to be held", key, r, err)
		}
	}
}

func TestHold_J01_LeasedCallIsHeldByWhoeverAnswers(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	cutOff := func(key string) {
		_, _ = RunLeased(t.Context(), f.store, request(key), func(ctx context.Context) (string, error) {
			return "", errors.Join((&holder{}).hold(ctx), errors.New("cut off"))
		}, nil)
		if f.held(key) {
			t.Errorf("%s: a claim that was cut off is held", key)
		}
	}
	for key, c := range map[string]struct{ found, askHolds, doHolds, want bool }{
		"found and held": {true, true, false, true}, "found": {true, false, true, false},
		"not found": {false, true, false, false}, "not found and held": {false, false, true, true},
	} {
		cutOff(key)
		if _, err := RunLeased(t.Context(), f.store, request(key), func(ctx context.Context) (string, error) {
			if c.doHolds {
				return "done", (&holder{}).hold(ctx)
			}
			return "done", nil
		}, func(ctx context.Context) (string, bool, error) {
			if c.askHolds {
				return "asked", c.found, (&holder{}).hold(ctx)
			}
			return "asked", c.found, nil
		}); err != nil {
			t.Errorf("%s: %v", key, err)
		} else if f.held(key) != c.want {
			t.Errorf("%s: held is %v", key, !c.want)
		}
	}
}

// TestHold_J01_TooLateIsSaid: nothing is held that nobody will release.
func TestHold_J01_TooLateIsSaid(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	var kept *toolcall.Call
	var late error
	if _, err := Run(t.Context(), f.store, request("k"), func(ctx context.Context, _ pgx.Tx) (string, error) {
		kept, _ = toolcall.FromContext(ctx)
		return "done", kept.AtFinish(func(*pgx.Batch) { late = kept.Hold() })
	}); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(late, toolcall.ErrCallOver) || !errors.Is(kept.Hold(), toolcall.ErrCallOver) || kept.Held() || f.held("k") {
		t.Errorf("at the end: %v, later: %v, held: %v; want ErrCallOver twice and no hold", late, kept.Hold(), kept.Held())
	}
}
