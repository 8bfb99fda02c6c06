package jobs

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/toolcall"
)

// TestRolling_J09_RestartLosesAndDoublesNothing: three runners, as in three processes, work what callers submit all the time,
// and are stopped and started in turn. Some stops leave no time for what runs.
func TestRolling_J09_RestartLosesAndDoublesNothing(t *testing.T) {
	t.Parallel()
	const rounds, callers = 4, 3
	d := Define("report", func(ctx context.Context, job *Job[in]) (Commit[out], error) {
		job.Progress(0.5, "half")
		if !sleep(ctx, rand.N(30*time.Millisecond)) && rand.N(2) == 0 {
			return nil, ctx.Err() // the others are done in spite of the end
		}
		if job.Attempt == 1 && rand.N(10) == 0 {
			return nil, errors.New("no luck")
		}
		return commits(job.Args.Label), nil
	}, &Options{Backoff: noPause, MaxAttempts: 3})
	cfg := func() *Config {
		c := quick()
		c.Queues = map[string]int{defaultQueue: 3}
		return c
	}
	f := setup(t, cfg(), d)
	runners := []*Runner{f.Runner, f.another(cfg(), d), f.another(cfg(), d)}
	for _, r := range runners {
		f.start(r)
	}
	ctx, restarted := context.WithCancel(t.Context())
	var mu sync.Mutex
	submitted := make(map[string]toolcall.ID)
	var all sync.WaitGroup
	for caller := range callers {
		all.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				label := fmt.Sprintf("%d-%d", caller, n)
				id, err := trySubmitTo(f, runners[n%len(runners)], d, in{Label: label})
				if err != nil {
					t.Errorf("%s: %v", label, err)
					return
				}
				mu.Lock()
				submitted[label] = id
				mu.Unlock()
				sleep(ctx, rand.N(20*time.Millisecond))
			}
		})
	}
	for i := range rounds * len(runners) {
		f.restart(runners[i%len(runners)], i%2 == 0)
	}
	restarted()
	all.Wait()
	want := make(map[string]int)
	for label, id := range submitted {
		if s := f.await(id, toolcall.StateSucceeded); s.Job.Attempts > 2 {
			t.Errorf("%s, job %s: %+v; want no attempt counted that was handed back (%s)", label, id, s.Job, f.lastError(id))
		}
		want[label] = 1
	}
	f.effectsAre(want)
	t.Logf("%d jobs through %d restarts", len(want), rounds*len(runners))
}

// restart stops the runner when it has work, and starts it again.
func (f *fixture) restart(r *Runner, patiently bool) {
	f.t.Helper()
	f.eventually("it has work", func() bool {
		r.beats.mu.Lock()
		defer r.beats.mu.Unlock()
		return len(r.beats.live) > 0
	})
	ctx := f.t.Context()
	if !patiently {
		ctx = over(f.t)
	}
	if err := r.Stop(ctx); err != nil && patiently {
		f.t.Errorf("Stop: %v", err)
	}
	if err := r.Start(f.t.Context()); err != nil {
		f.t.Errorf("Start: %v", err)
	}
}

// trySubmitTo submits by a runner of the test's choice.
func trySubmitTo[I, O any](f *fixture, r *Runner, d *Definition[I, O], args I) (id toolcall.ID, err error) {
	err = pgx.BeginFunc(f.t.Context(), f.pool, func(tx pgx.Tx) error {
		h, err := d.SubmitTx(f.t.Context(), tx, r, args, &SubmitOpts{Scope: scope})
		if err != nil {
			return err
		}
		id, err = toolcall.ParseID(h.JobID)
		return err
	})
	return id, err
}
