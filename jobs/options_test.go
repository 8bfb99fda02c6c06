package jobs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/toolcall"
)

// TestOptions_J06_NeverBeforeRunAt, whoever rings.
func TestOptions_J06_NeverBeforeRunAt(t *testing.T) {
	t.Parallel()
	d := plainly("report", nil)
	f := setup(t, nil, d)
	f.start(f.Runner)
	at := get[time.Time](f, `select clock_timestamp() + interval '2 s'`)
	id := submit(f, d, in{Label: "x"}, &SubmitOpts{Scope: scope, RunAt: at})
	if s := f.status(id); s.State != toolcall.StateQueued || !s.Job.NextAttemptAt.Equal(at.Truncate(time.Microsecond)) {
		t.Errorf("%+v, %+v; want it to wait for %v", s, s.Job, at)
	}
	f.exec(`update txonce_river.river_job set state = 'available', scheduled_at = now()`) // as by hand, in River's UI
	s := f.await(id, toolcall.StateSucceeded)
	if s.Job.StartedAt.Before(at) || s.Job.Attempts != 1 {
		t.Errorf("it began at %v, want %v or later", s.Job.StartedAt, at)
	}
	past := submit(f, d, in{Label: "x"}, &SubmitOpts{Scope: scope, RunAt: at.Add(-time.Hour)})
	f.await(past, toolcall.StateSucceeded)
	f.effectsAre(map[string]int{"x": 2})
}

// TestOptions_J06_Deadline: from then on nothing commits, wherever the job is.
func TestOptions_J06_Deadline(t *testing.T) {
	t.Parallel()
	causes := make(chan error, 1)
	computes := Define("computes", waits(causes, commitsAnyhow), &Options{Within: 3 * time.Second})
	waits := plainly("waits", &Options{Queue: idle, Within: time.Hour})
	retries := Define("retries", worksThen(errors.New("no luck")), &Options{Backoff: func(int) time.Duration { return time.Hour }})
	f := setup(t, nil, computes, waits, retries)
	f.start(f.Runner)
	soon := func() time.Time { return get[time.Time](f, `select clock_timestamp() + interval '1 s'`) }
	ids := map[string]toolcall.ID{
		"while it computes":     submit(f, computes, in{}, nil),
		"while it waits":        submit(f, waits, in{}, &SubmitOpts{Scope: scope, Deadline: soon()}),
		"while it is retried":   submit(f, retries, in{}, &SubmitOpts{Scope: scope, Deadline: soon()}),
		"while it is scheduled": submit(f, waits, in{}, &SubmitOpts{Scope: scope, RunAt: soon().Add(-time.Millisecond), Deadline: soon()}),
	}
	for label, id := range ids {
		s := f.await(id, toolcall.StateFailed)
		if s.Failure.Code != CodeDeadline || s.FinishedAt.Before(s.Job.Deadline) {
			t.Errorf("%s: %+v at %v, the deadline was %v", label, s.Failure, s.FinishedAt, s.Job.Deadline)
		}
	}
	if cause := receive(f, "the end of its context", causes); !errors.Is(cause, ErrDeadline) {
		t.Errorf("the attempt heard %v, want ErrDeadline", cause)
	}
	f.effectsAre(map[string]int{})
}

// TestOptions_J06_DeadlineHoldsForTheCommit: what has computed in time and is late to commit does not.
func TestOptions_J06_DeadlineHoldsForTheCommit(t *testing.T) {
	t.Parallel()
	s := make(stage)
	d := s.define("report", nil)
	f := setup(t, unhurried(), d)
	f.start(f.Runner)
	id := submit(f, d, in{Label: "x"}, nil)
	f.await(id, toolcall.StateRunning)
	f.exec(`update txonce.job set deadline = clock_timestamp()`) // of which the attempt does not know
	s.end(nil)
	if st := f.await(id, toolcall.StateFailed); st.Failure.Code != CodeDeadline {
		t.Errorf("%+v", st.Failure)
	}
	f.effectsAre(map[string]int{})
}

// TestOptions_J06_DeadlineInTheCommitHalf: from the deadline on no attempt commits, however late it passes.
func TestOptions_J06_DeadlineInTheCommitHalf(t *testing.T) {
	t.Parallel()
	d, visits := stepwise(t, "report", nil)
	f := setup(t, still(), d)
	id := submit(f, d, in{Label: "a"}, &SubmitOpts{Scope: scope, Deadline: time.Now().Add(time.Hour)})
	bell := ring(f, f.Runner, d, id)
	v := begun(f, visits)
	v.enters(f)
	v.committed <- func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `update txonce.job set deadline = clock_timestamp() where id = $1::uuid`, uuidOf(id))
		return err
	}
	if err := receive(f, "the attempt ends", bell); !isCancel(err) || !errors.Is(err, ErrDeadline) {
		t.Errorf("the doorbell: %v, want ErrDeadline", err)
	}
	f.ended(id, toolcall.StateFailed, 1, CodeDeadline)
	f.effectsAre(map[string]int{})
}

// TestOptions_J06_DeadlineThatHasPassedIsRefused, whichever option it comes from: the job would fail before anybody began it.
func TestOptions_J06_DeadlineThatHasPassedIsRefused(t *testing.T) {
	t.Parallel()
	d := plainly("report", &Options{Within: time.Hour})
	f := setup(t, still(), d)
	now := time.Now()
	for label, opts := range map[string]SubmitOpts{
		"the submission's": {Deadline: now.Add(-time.Second)},
		"the definition's": {RunAt: now.Add(-2 * time.Hour)},
	} {
		opts.Scope = scope
		if _, err := trySubmit(f, d, in{}, &opts); !errors.Is(err, ErrOptions) {
			t.Errorf("%s: %v, want ErrOptions", label, err)
		}
	}
	submit(f, d, in{}, &SubmitOpts{Scope: scope, RunAt: now.Add(-30 * time.Minute)})
	submit(f, d, in{}, &SubmitOpts{Scope: scope, RunAt: now.Add(-2 * time.Hour), Deadline: now.Add(time.Hour)})
}

// TestOptions_J06_WhenDeadlinesAre: of the submission, or else of the definition, counted from RunAt.
func TestOptions_J06_WhenDeadlinesAre(t *testing.T) {
	t.Parallel()
	d, none := plainly("report", &Options{Within: time.Hour}), plainly("none", nil)
	f := setup(t, unhurried(), d, none)
	at := time.Now().Add(time.Minute).Truncate(time.Microsecond)
	for label, c := range map[string]struct {
		d    *Definition[in, out]
		opts SubmitOpts
		want func(s toolcall.Status) time.Time
	}{
		"none":                {none, SubmitOpts{}, func(toolcall.Status) time.Time { return time.Time{} }},
		"the definition's":    {d, SubmitOpts{}, func(s toolcall.Status) time.Time { return s.Job.NextAttemptAt.Add(time.Hour) }},
		"counted from RunAt":  {d, SubmitOpts{RunAt: at}, func(toolcall.Status) time.Time { return at.Add(time.Hour) }},
		"the submission's":    {d, SubmitOpts{RunAt: at, Deadline: at.Add(time.Second)}, func(toolcall.Status) time.Time { return at.Add(time.Second) }},
		"the submission's, 2": {none, SubmitOpts{Deadline: at}, func(toolcall.Status) time.Time { return at }},
	} {
		c.opts.Scope = scope
		s := f.status(submit(f, c.d, in{}, &c.opts))
		if want := c.want(s); !s.Job.Deadline.Equal(want) {
			t.Errorf("%s: %v, want %v", label, s.Job.Deadline, want)
		}
	}
}

// TestOptions_J06_QueueThatNobodyWorks keeps its jobs.
func TestOptions_J06_QueueThatNobodyWorks(t *testing.T) {
	t.Parallel()
	d := plainly("report", &Options{Queue: "nights"})
	f := setup(t, nil, d)
	f.start(f.Runner)
	waiting := submit(f, d, in{Label: "nights"}, nil)
	worked := submit(f, d, in{Label: "days"}, &SubmitOpts{Scope: scope, Queue: defaultQueue})
	f.await(worked, toolcall.StateSucceeded)
	if s := f.status(waiting); s.State != toolcall.StateQueued {
		t.Errorf("%+v; want it to wait", s)
	}
	cfg := quick()
	cfg.Queues = map[string]int{"nights": 1}
	f.start(f.another(cfg, d))
	f.await(waiting, toolcall.StateSucceeded)
	f.effectsAre(map[string]int{"nights": 1, "days": 1})
}

// TestOptions_J06_MostUrgentFirst: by the priority of the job, or else of its definition.
func TestOptions_J06_MostUrgentFirst(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var order []string
	d := Define("report", func(_ context.Context, job *Job[in]) (Commit[out], error) {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, job.Args.Label)
		return commits(job.Args.Label), nil
	}, &Options{Priority: 3})
	cfg := quick()
	cfg.Queues = map[string]int{defaultQueue: 1}
	f := setup(t, cfg, d)
	var ids []toolcall.ID
	for _, priority := range []int{4, 0, 2, 1, 4, 1} {
		ids = append(ids, submit(f, d, in{Label: fmt.Sprint(priority)}, &SubmitOpts{Scope: scope, Priority: priority}))
	}
	f.start(f.Runner)
	for _, id := range ids {
		f.await(id, toolcall.StateSucceeded)
	}
	if want := []string{"1", "1", "2", "0", "4", "4"}; !slices.Equal(order, want) {
		t.Errorf("they ran in the order %v, want %v", order, want)
	}
}

// TestOptions_J06_MaxAttempts: of the job, or else of its definition; and no more.
func TestOptions_J06_MaxAttempts(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	seen := make(map[toolcall.ID][]string)
	d := Define("report", func(_ context.Context, job *Job[in]) (Commit[out], error) {
		mu.Lock()
		defer mu.Unlock()
		seen[job.ID] = append(seen[job.ID], fmt.Sprintf("%d of %d", job.Attempt, job.MaxAttempts))
		return nil, errors.New("no luck")
	}, &Options{MaxAttempts: 3, Backoff: noPause})
	f := setup(t, nil, d)
	f.start(f.Runner)
	for _, n := range []int{0, 1, 6} {
		id := submit(f, d, in{}, &SubmitOpts{Scope: scope, MaxAttempts: n})
		s := f.await(id, toolcall.StateFailed)
		var want []string
		for i := range first(n, 3) {
			want = append(want, fmt.Sprintf("%d of %d", i+1, first(n, 3)))
		}
		mu.Lock()
		if s.Failure.Code != CodeAttemptsExhausted || s.Job.Attempts != len(want) || !slices.Equal(seen[id], want) {
			t.Errorf("MaxAttempts %d: %+v, %+v, attempts %v", n, s.Failure, s.Job, seen[id])
		}
		mu.Unlock()
	}
}

// TestOptions_J06_BackoffIsKeptToWhatMakesSense, whatever the function does.
func TestOptions_J06_BackoffIsKeptToWhatMakesSense(t *testing.T) {
	t.Parallel()
	for label, c := range map[string]struct {
		backoff   func(int) time.Duration
		attempt   int
		low, high time.Duration
	}{
		"negative":      {func(int) time.Duration { return -time.Hour }, 1, 0, 0},
		"longest":       {func(int) time.Duration { return 1 << 62 }, 1, longestAttempt, longestAttempt},
		"panics":        {func(int) time.Duration { panic("oh no") }, 3, 3200 * time.Millisecond, 4800 * time.Millisecond},
		"first":         {nil, 1, 800 * time.Millisecond, 1200 * time.Millisecond},
		"second":        {nil, 2, 1600 * time.Millisecond, 2400 * time.Millisecond},
		"at most":       {nil, 1000, 4 * time.Minute, 6 * time.Minute},
		"of no attempt": {nil, 0, 800 * time.Millisecond, 1200 * time.Millisecond},
	} {
		d := plainly("report", &Options{Backoff: c.backoff})
		for range 100 {
			if got := d.def.pause(c.attempt); got < c.low || got > c.high {
				t.Errorf("%s: %v, want %v to %v", label, got, c.low, c.high)
			}
		}
	}
}

// TestOptions_J06_BackoffIsOfTheJobsAttempts, also where its doorbell was hung anew: River's count is the doorbell's.
func TestOptions_J06_BackoffIsOfTheJobsAttempts(t *testing.T) {
	t.Parallel()
	d := Define("report", worksThen(errors.New("no luck")), &Options{Backoff: func(attempt int) time.Duration {
		if attempt < 4 {
			return 0
		}
		return time.Hour
	}})
	f := setup(t, unhurried(), d)
	id := submit(f, d, in{}, nil)
	f.exec(`update txonce.job set attempts = 3`) // whose workers died
	f.start(f.Runner)
	f.eventually("the fourth attempt is over", func() bool {
		s := f.status(id)
		return s.State == toolcall.StateQueued && s.Job.Attempts == 4
	})
	f.eventually("River has taken note of it", func() bool {
		return get[string](f, `select state::text from txonce_river.river_job`) != "running"
	})
	if got := get[string](f, `select r.state::text || case when abs(extract(epoch from r.scheduled_at - j.run_at)) < 60 then ' in an hour' else ' now' end
		from txonce_river.river_job r, txonce.job j`); got != "retryable in an hour" {
		t.Errorf("it rings: %s", got)
	}
	if s := f.status(id); s.Job.Attempts != 4 {
		t.Errorf("%+v", s.Job)
	}
}

// TestOptions_J06_Timeout bounds an attempt, and what comes later is not committed.
func TestOptions_J06_Timeout(t *testing.T) {
	t.Parallel()
	for label, then := range map[string]func(context.Context) (Commit[out], error){"gives up": givesUp, "commits anyhow": commitsAnyhow} {
		causes := make(chan error, 2)
		d := Define("report", waits(causes, then), &Options{Timeout: 200 * time.Millisecond, MaxAttempts: 2, Backoff: noPause})
		f := setup(t, nil, d)
		f.start(f.Runner)
		id := submit(f, d, in{}, nil)
		if s := f.await(id, toolcall.StateFailed); s.Failure.Code != CodeAttemptsExhausted || s.Job.Attempts != 2 || !strings.Contains(f.lastError(id), ErrTimeout.Error()) {
			t.Errorf("%s: %+v, %+v, %s", label, s.Failure, s.Job, f.lastError(id))
		}
		for range 2 {
			if cause := receive(f, "the end of its context", causes); !errors.Is(cause, ErrTimeout) {
				t.Errorf("%s: the attempt heard %v, want ErrTimeout", label, cause)
			}
		}
		f.effectsAre(map[string]int{})
	}
}

// TestOptions_J06_CommitTimeout bounds the commit half, also where it waits for nothing but time.
func TestOptions_J06_CommitTimeout(t *testing.T) {
	t.Parallel()
	d := Define("report", func(context.Context, *Job[in]) (Commit[out], error) {
		return func(ctx context.Context, tx pgx.Tx) (out, error) {
			if err := write(ctx, tx, "x"); err != nil {
				return out{}, err
			}
			_, err := tx.Exec(ctx, `select pg_sleep(600)`)
			return out{}, err
		}, nil
	}, &Options{CommitTimeout: 300 * time.Millisecond, MaxAttempts: 1})
	f := setup(t, nil, d)
	f.start(f.Runner)
	id := submit(f, d, in{}, nil)
	if s := f.await(id, toolcall.StateFailed); s.Failure.Code != CodeAttemptsExhausted {
		t.Errorf("%+v, %s", s.Failure, f.lastError(id))
	}
	f.effectsAre(map[string]int{})
}
