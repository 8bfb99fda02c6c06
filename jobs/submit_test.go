package jobs

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/toolcall"
	"github.com/txonce/txonce/txidem"
)

// TestSubmitTx_J01_CommitsWithTheRecord: a tool that submits answers with the handle, and so does each retry.
func TestSubmitTx_J01_CommitsWithTheRecord(t *testing.T) {
	t.Parallel()
	d := plainly("report", nil)
	c := callsOn(setup(t, nil, d))
	for label, call := range c.all() {
		first, err := call(t.Context(), label, submits(c, d, in{Label: label}))
		if err != nil || first.replayed {
			t.Fatalf("%s: %+v, %v", label, first, err)
		}
		want := Handle{JobID: first.JobID, Kind: "report", State: toolcall.StateQueued, Next: next}
		if first.Handle != want {
			t.Errorf("%s: the handle is %+v, want %+v", label, first.Handle, want)
		}
		c.rowsAre(label, rows{calls: 1, held: 1, jobs: 1, bells: 1})
		if s := c.status(jobID(t, first.Handle)); s.State != toolcall.StateQueued || s.Tool != "report" || s.Job.Attempts != 0 || s.Job.NextAttemptAt.IsZero() {
			t.Errorf("%s: its status is %+v, %+v", label, s, s.Job)
		}
		again, err := call(t.Context(), label, submits(c, d, in{Label: "another"}))
		if err != nil || !again.replayed || again.raw != first.raw {
			t.Errorf("%s: the retry got %q, %v; want %q", label, again.raw, err, first.raw)
		}
		c.rowsAre(label+", again", rows{calls: 1, held: 1, jobs: 1, bells: 1})
		c.clean()
	}
}

// TestSubmitTx_J01_NothingIsLeftOfACallThatDoesNotCommit: not of the job, nor of its doorbell.
func TestSubmitTx_J01_NothingIsLeftOfACallThatDoesNotCommit(t *testing.T) {
	t.Parallel()
	d := plainly("report", nil)
	c := callsOn(setup(t, nil, d))
	for label, end := range map[string]struct {
		with  func(ctx context.Context, tx pgx.Tx) error
		calls int
	}{
		"error":         {func(context.Context, pgx.Tx) error { return errors.New("no luck") }, 0},
		"panic":         {func(context.Context, pgx.Tx) error { panic("oh no") }, 0},
		"failure":       {func(context.Context, pgx.Tx) error { return txidem.Fail("no", "not this one") }, 1},
		"our failure":   {func(context.Context, pgx.Tx) error { return Fail("no", "not this one") }, 1},
		"SQL error":     {func(ctx context.Context, tx pgx.Tx) error { _, err := tx.Exec(ctx, "select 1/0"); return err }, 0},
		"swallowed one": {func(ctx context.Context, tx pgx.Tx) error { _, _ = tx.Exec(ctx, "select 1/0"); return nil }, 0},
	} {
		for way, call := range c.atomic() {
			a, err := call(t.Context(), label, func(ctx context.Context, tx pgx.Tx) (Handle, error) {
				h, err := d.SubmitTx(ctx, tx, c.Runner, in{}, nil)
				if err != nil {
					return h, err
				}
				return h, end.with(ctx, tx)
			})
			if err == nil {
				t.Errorf("%s, %s: got %+v, want an error", way, label, a)
			}
			c.rowsAre(way+", "+label, rows{calls: end.calls})
			c.clean()
		}
	}
}

// TestSubmitTx_J01_LeasedCallThatWasNotDone: the job commits in the handler's own transaction, in front of the record.
func TestSubmitTx_J01_LeasedCallThatWasNotDone(t *testing.T) {
	t.Parallel()
	d := plainly("report", nil)
	c := callsOn(setup(t, nil, d))
	var outside error
	a, err := c.leased(t.Context(), "k", func(ctx context.Context, tx pgx.Tx) (Handle, error) {
		h, err := d.SubmitTx(ctx, tx, c.Runner, in{}, nil)
		outside = err
		return h, txidem.NotDone(errors.New("no luck"))
	})
	if err == nil || outside != nil {
		t.Errorf("got %+v, %v, from SubmitTx %v", a, err, outside)
	}
	c.rowsAre("not done", rows{})
}

// TestSubmitTx_J01_SavepointThatWasRolledBack takes its job with it, and nobody waits for it for ever.
func TestSubmitTx_J01_SavepointThatWasRolledBack(t *testing.T) {
	t.Parallel()
	d := plainly("report", nil)
	c := callsOn(setup(t, nil, d))
	for label, call := range c.atomic() {
		var gone Handle
		kept, err := call(t.Context(), label, func(ctx context.Context, tx pgx.Tx) (h Handle, err error) {
			for _, end := range []func(pgx.Tx) error{
				func(sp pgx.Tx) error { return sp.Rollback(ctx) },
				func(sp pgx.Tx) error { return sp.Commit(ctx) },
			} {
				sp, err := tx.Begin(ctx)
				if err != nil {
					return h, err
				}
				gone = h
				if h, err = d.SubmitTx(ctx, sp, c.Runner, in{}, nil); err != nil {
					return h, err
				}
				if err := end(sp); err != nil {
					return h, err
				}
			}
			return h, nil
		})
		if err != nil {
			t.Fatalf("%s: %v", label, err)
		}
		c.rowsAre(label, rows{calls: 1, held: 1, jobs: 1, bells: 1})
		c.status(jobID(t, kept.Handle))
		if _, err := c.Status(t.Context(), scope, jobID(t, gone)); !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: the status of the other one: %v, want ErrNotFound", label, err)
		}
		c.clean()
	}
}

// TestSubmitTx_J01_OfAnotherTransaction: the job and the record would not commit together.
func TestSubmitTx_J01_OfAnotherTransaction(t *testing.T) {
	t.Parallel()
	d := plainly("report", nil)
	c := callsOn(setup(t, nil, d))
	for label, call := range c.atomic() {
		_, err := call(t.Context(), label, func(ctx context.Context, _ pgx.Tx) (h Handle, err error) {
			err = pgx.BeginFunc(ctx, c.pool, func(tx pgx.Tx) error {
				h, err = d.SubmitTx(ctx, tx, c.Runner, in{}, nil)
				if !errors.Is(err, ErrOtherTx) {
					t.Errorf("%s: %v, want ErrOtherTx", label, err)
				}
				return err
			})
			return h, err
		})
		if err == nil {
			t.Errorf("%s: no error", label)
		}
		c.rowsAre(label, rows{})
	}
}

func TestSubmitTx_J01_Scope(t *testing.T) {
	t.Parallel()
	d := plainly("report", nil)
	c := callsOn(setup(t, nil, d))
	inCall := func(opts *SubmitOpts) (h Handle, inner error) {
		_, err := c.run(t.Context(), "k", func(ctx context.Context, tx pgx.Tx) (Handle, error) {
			h, inner = d.SubmitTx(ctx, tx, c.Runner, in{}, opts)
			return h, inner
		})
		return h, errors.Join(inner, err)
	}
	if _, err := inCall(&SubmitOpts{Scope: "bob"}); !errors.Is(err, ErrScope) || !strings.Contains(err.Error(), "leave SubmitOpts.Scope empty") {
		t.Errorf("another scope than the call's: %v", err)
	}
	h, err := inCall(&SubmitOpts{Scope: scope})
	if err != nil {
		t.Errorf("the call's own scope: %v", err)
	} else {
		c.status(jobID(t, h))
	}
	for label, bad := range map[string]*SubmitOpts{
		"none": {}, "long": {Scope: strings.Repeat("x", 256)}, "no text": {Scope: "\xff"}, "zero byte": {Scope: "a\x00"},
	} {
		if _, err := trySubmit(c.fixture, d, in{}, bad); !errors.Is(err, ErrScope) || !strings.HasPrefix(err.Error(), "jobs: a job needs a scope") {
			t.Errorf("%s: %v, want ErrScope", label, err)
		}
	}
	tx, err := c.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := d.SubmitTx(t.Context(), tx, c.Runner, in{}, nil); !errors.Is(err, ErrScope) || !strings.Contains(err.Error(), "set SubmitOpts.Scope") {
		t.Errorf("no options: %v, want ErrScope and what to do", err)
	}
	longest := strings.Repeat("é", 127) + "x"
	id := submit(c.fixture, d, in{}, &SubmitOpts{Scope: longest})
	if _, err := c.Status(t.Context(), longest, id); err != nil {
		t.Errorf("the longest scope: %v", err)
	}
	if _, err := c.Status(t.Context(), scope, id); !errors.Is(err, ErrNotFound) {
		t.Errorf("for another scope: %v, want ErrNotFound", err)
	}
}

// TestSubmitTx_J01_WhereNoRecordIsWritten: the job is the caller's, and holds nothing.
func TestSubmitTx_J01_WhereNoRecordIsWritten(t *testing.T) {
	t.Parallel()
	d := plainly("report", nil)
	c := callsOn(setup(t, nil, d))
	req := request("k")
	req.Policy = &txidem.Policy{Disabled: true}
	r, err := txidem.Run(t.Context(), c.store, req, submits(c, d, in{}))
	if err != nil {
		t.Fatal(err)
	}
	c.status(jobID(t, r.Value))
	c.rowsAre("unprotected", rows{jobs: 1, bells: 1})
	if n := get[int](c.fixture, `select count(*)::int from txonce.job where call is not null or call_attempt is not null or call_keep is not null`); n != 0 {
		t.Error("the job waits for a call that has no record")
	}
}

// TestSubmitTx_J01_InTheCommitHalfOfAJob: the next step commits with the one before it, for the same caller.
func TestSubmitTx_J01_InTheCommitHalfOfAJob(t *testing.T) {
	t.Parallel()
	second := plainly("second", nil)
	var f *fixture
	first := Define("first", func(ctx context.Context, job *Job[in]) (Commit[Handle], error) {
		tx, err := f.pool.Begin(ctx)
		if err != nil {
			return nil, err
		}
		defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
		if _, err := second.SubmitTx(ctx, tx, f.Runner, in{}, nil); !errors.Is(err, ErrScope) { // in no call's transaction
			t.Errorf("in the compute half: %v, want ErrScope", err)
		}
		return func(ctx context.Context, tx pgx.Tx) (Handle, error) {
			h, err := second.SubmitTx(ctx, tx, f.Runner, in{Label: "second"}, nil)
			if err == nil && job.Attempt == 1 {
				err = errors.New("not yet")
			}
			return h, err
		}, nil
	}, &Options{Backoff: noPause})
	f = setup(t, nil, first, second)
	f.start(f.Runner)
	s := f.await(submit(f, first, in{}, nil), toolcall.StateSucceeded)
	h, err := first.Result(s)
	if err != nil {
		t.Fatal(err)
	}
	f.await(jobID(t, h), toolcall.StateSucceeded)
	f.rowsAre("in the end", rows{jobs: 2, bells: 2})
	f.effectsAre(map[string]int{"second": 1})
}

// noPause is the Backoff of tests that want to see the next attempt.
func noPause(int) time.Duration { return 0 }

// TestSubmitTx_J01_RepeatedTransaction: what Postgres asks to repeat leaves the job of the last run.
func TestSubmitTx_J01_RepeatedTransaction(t *testing.T) {
	t.Parallel()
	d := plainly("report", nil)
	c := callsOn(setup(t, nil, d))
	runs := 0
	a, err := c.run(t.Context(), "k", func(ctx context.Context, tx pgx.Tx) (Handle, error) {
		runs++
		h, err := d.SubmitTx(ctx, tx, c.Runner, in{}, nil)
		if err == nil && runs == 1 {
			_, err = tx.Exec(ctx, `do $$ begin raise sqlstate '40001'; end $$`)
		}
		return h, err
	})
	if err != nil || runs != 2 {
		t.Fatalf("%v, %d runs", err, runs)
	}
	c.rowsAre("repeated", rows{calls: 1, held: 1, jobs: 1, bells: 1})
	if diff := cmp.Diff(toolcall.StateQueued, c.status(jobID(t, a.Handle)).State); diff != "" {
		t.Error(diff)
	}
}
