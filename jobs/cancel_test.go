package jobs

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/toolcall"
)

// mustCancel cancels a job, which must have the state behind it. One that runs may be quick to end.
func (f *fixture) mustCancel(id toolcall.ID, want toolcall.State) {
	f.t.Helper()
	s, err := f.Cancel(f.t.Context(), scope, id)
	quick := want == toolcall.StateRunning && s.State == toolcall.StateCancelled
	if err != nil || s.State != want && !quick || s.ID != id || !s.Job.CancelRequested {
		f.t.Errorf("Cancel gives %+v, %+v, %v; want %s", s, s.Job, err, want)
	}
}

func TestCancel_J07_WhatWaitsEndsAtOnce(t *testing.T) {
	t.Parallel()
	unlucky := Define("unlucky", worksThen(errors.New("no luck")), &Options{Backoff: func(int) time.Duration { return time.Hour }})
	d := plainly("report", &Options{Queue: idle})
	f := setup(t, unhurried(), d, unlucky)
	f.start(f.Runner)
	jobs := map[string]toolcall.ID{
		"queued":    submit(f, d, in{Label: "queued"}, nil),
		"scheduled": submit(f, d, in{Label: "scheduled"}, &SubmitOpts{Scope: scope, RunAt: time.Now().Add(time.Hour), Queue: defaultQueue}),
		"retried":   submit(f, unlucky, in{}, nil),
	}
	f.eventually("one waits for its second attempt", func() bool {
		s := f.status(jobs["retried"])
		return s.State == toolcall.StateQueued && s.Job.Attempts == 1
	})
	for label, id := range jobs {
		f.mustCancel(id, toolcall.StateCancelled)
		if s := f.status(id); s.State != toolcall.StateCancelled || s.FinishedAt.IsZero() || s.Answer != nil || s.Failure != nil || !s.Job.NextAttemptAt.IsZero() {
			t.Errorf("%s: %+v, %+v", label, s, s.Job)
		}
	}
	f.eventually("no doorbell hangs any more", func() bool { // River may still be writing down the attempt that failed
		return get[int](f, `select count(*)::int from txonce_river.river_job where state <> 'cancelled'`) == 0
	})
	// Whoever rings nevertheless finds that there is nothing to do.
	f.exec(`update txonce_river.river_job set state = 'available', finalized_at = null, scheduled_at = now(), queue = 'default'`)
	f.eventually("they have rung", func() bool {
		return get[int](f, `select count(*)::int from txonce_river.river_job where state <> 'completed'`) == 0
	})
	f.effectsAre(map[string]int{})
}

// waits is work that waits for the end of its context, tells what ended it, and returns what the test says.
func waits(causes chan<- error, then func(context.Context) (Commit[out], error)) func(context.Context, *Job[in]) (Commit[out], error) {
	return func(ctx context.Context, _ *Job[in]) (Commit[out], error) {
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return then(ctx)
	}
}

func givesUp(ctx context.Context) (Commit[out], error)   { return nil, ctx.Err() }
func commitsAnyhow(context.Context) (Commit[out], error) { return commits("anyhow"), nil }
func failsThen(context.Context) (Commit[out], error)     { return nil, errors.New("no luck") }

// TestCancel_J07_WhatRunsIsTold: at once by River, or by the next beat; and it never commits, whatever it returns.
func TestCancel_J07_WhatRunsIsTold(t *testing.T) {
	t.Parallel()
	for label, cancel := range map[string]struct {
		cfg *Config
		by  func(f *fixture, id toolcall.ID)
	}{
		"by River": {unhurried(), func(f *fixture, id toolcall.ID) { f.mustCancel(id, toolcall.StateRunning) }},
		"by the beat": {quick(), func(f *fixture, id toolcall.ID) {
			f.exec(`delete from txonce_river.river_job`)
			f.mustCancel(id, toolcall.StateRunning)
		}},
		"in the queue": {unhurried(), func(f *fixture, id toolcall.ID) { f.cancelBell(id) }},
	} {
		for name, then := range map[string]func(context.Context) (Commit[out], error){"gives up": givesUp, "commits anyhow": commitsAnyhow, "returns an error": failsThen} {
			t.Run(label+", "+name, func(t *testing.T) {
				t.Parallel()
				causes := make(chan error, 1)
				d := Define("report", waits(causes, then), &Options{Backoff: noPause})
				f := setup(t, cancel.cfg, d)
				f.start(f.Runner)
				id := submit(f, d, in{}, nil)
				f.await(id, toolcall.StateRunning)
				cancel.by(f, id)
				if cause := receive(f, "the end of its context", causes); !errors.Is(cause, ErrCancelled) {
					t.Errorf("its context ended with %v, want ErrCancelled", cause)
				}
				if s := f.await(id, toolcall.StateCancelled); s.Job.Attempts != 1 || s.FinishedAt.IsZero() {
					t.Errorf("%+v, %+v", s, s.Job)
				}
				f.effectsAre(map[string]int{})
			})
		}
	}
}

// cancelBell cancels the doorbell of a job, as River's UI does.
func (f *fixture) cancelBell(id toolcall.ID) {
	f.t.Helper()
	if _, err := f.client.Load().JobCancel(f.t.Context(), get[int64](f, `select bell from txonce.job where id = $1::uuid`, uuidOf(id))); err != nil {
		f.t.Error(err)
	}
}

// TestCancel_J07_InTheQueueOfWhatWaits: whoever asks for the status ends it, or else the sweeper.
func TestCancel_J07_InTheQueueOfWhatWaits(t *testing.T) {
	t.Parallel()
	d := plainly("report", &Options{Queue: idle})
	f := setup(t, nil, d)
	for label, opts := range map[string]SubmitOpts{"queued": {}, "scheduled": {RunAt: time.Now().Add(time.Hour)}} {
		opts.Scope = scope
		id := submit(f, d, in{}, &opts)
		f.cancelBell(id)
		if s := f.status(id); s.State != toolcall.StateCancelled || s.FinishedAt.IsZero() {
			t.Errorf("%s: %+v", label, s)
		}
	}
	swept := submit(f, d, in{}, nil)
	f.cancelBell(swept)
	f.start(f.Runner)
	f.eventually("the sweeper has ended it", func() bool {
		return get[string](f, `select state from txonce.job where id = $1::uuid`, uuidOf(swept)) == "cancelled"
	})
}

// TestCancel_J07_BetweenTheHalves: what has computed and was cancelled meanwhile does not commit.
func TestCancel_J07_BetweenTheHalves(t *testing.T) {
	t.Parallel()
	s := make(stage)
	d := s.define("report", nil)
	f := setup(t, unhurried(), d)
	f.start(f.Runner)
	id := submit(f, d, in{Label: "x"}, nil)
	f.await(id, toolcall.StateRunning)
	f.exec(`delete from txonce_river.river_job`) // nobody tells it
	f.mustCancel(id, toolcall.StateRunning)
	s.end(nil)
	f.await(id, toolcall.StateCancelled)
	f.effectsAre(map[string]int{})
}

// TestCancel_J07_WhatCommitsIsWaitedFor: it has ended then, or takes too long to wait for.
func TestCancel_J07_WhatCommitsIsWaitedFor(t *testing.T) {
	t.Parallel()
	inTx, goOn := make(chan struct{}), make(chan struct{})
	d := Define("report", func(context.Context, *Job[in]) (Commit[out], error) {
		return func(ctx context.Context, tx pgx.Tx) (out, error) {
			close(inTx)
			<-goOn
			return out{}, write(ctx, tx, "x")
		}, nil
	}, nil)
	f := setup(t, unhurried(), d)
	f.start(f.Runner)
	id := submit(f, d, in{}, nil)
	receive(f, "the commit half is under way", inTx)
	if s, err := f.Cancel(t.Context(), scope, id); !errors.Is(err, ErrBusy) {
		t.Errorf("while it commits: %+v, %v; want ErrBusy", s, err)
	}
	cancelled := make(chan error, 1)
	go func() {
		s, err := f.Cancel(t.Context(), scope, id)
		if err == nil || s.State != toolcall.StateSucceeded || s.Job.CancelRequested {
			t.Errorf("behind the commit: %+v", s)
		}
		cancelled <- err
	}()
	f.eventually("it waits for the row", func() bool {
		return get[int](f, `select count(*)::int from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`) > 0
	})
	close(goOn)
	if err := receive(f, "Cancel returns", cancelled); !errors.Is(err, ErrFinished) {
		t.Errorf("behind the commit: %v, want ErrFinished", err)
	}
	f.effectsAre(map[string]int{"x": 1})
}

// TestCancel_J07_WhatHasEndedStaysAsItIs, and the error comes with its status.
func TestCancel_J07_WhatHasEndedStaysAsItIs(t *testing.T) {
	t.Parallel()
	good, bad := plainly("good", nil), Define("bad", worksThen(Fail("no", "not this one")), nil)
	waiting := plainly("waiting", &Options{Queue: idle})
	f := setup(t, nil, good, bad, waiting)
	f.start(f.Runner)
	cancelled := submit(f, waiting, in{}, nil)
	f.mustCancel(cancelled, toolcall.StateCancelled)
	for id, state := range map[toolcall.ID]toolcall.State{
		submit(f, good, in{Label: "x"}, nil): toolcall.StateSucceeded, submit(f, bad, in{}, nil): toolcall.StateFailed, cancelled: toolcall.StateCancelled,
	} {
		before := f.await(id, state)
		for range 2 {
			s, err := f.Cancel(t.Context(), scope, id)
			if !errors.Is(err, ErrFinished) || s.State != state || !s.FinishedAt.Equal(before.FinishedAt) || s.Job.CancelRequested != (state == toolcall.StateCancelled) {
				t.Errorf("%s: %+v, %v; want ErrFinished and its status", state, s, err)
			}
		}
	}
}

// TestCancel_J07_TwiceIsOnce while it runs.
func TestCancel_J07_TwiceIsOnce(t *testing.T) {
	t.Parallel()
	told, goOn := make(chan struct{}), make(chan struct{})
	d := Define("report", func(ctx context.Context, _ *Job[in]) (Commit[out], error) {
		<-ctx.Done()
		close(told)
		<-goOn
		return nil, ctx.Err()
	}, nil)
	f := setup(t, unhurried(), d)
	f.start(f.Runner)
	id := submit(f, d, in{}, nil)
	f.await(id, toolcall.StateRunning)
	f.mustCancel(id, toolcall.StateRunning)
	receive(f, "the attempt is told", told)
	first := get[time.Time](f, `select cancel_at from txonce.job`)
	f.mustCancel(id, toolcall.StateRunning)
	if again := get[time.Time](f, `select cancel_at from txonce.job`); !again.Equal(first) {
		t.Errorf("asked for at %v, then at %v", first, again)
	}
	close(goOn)
	f.await(id, toolcall.StateCancelled)
}

// TestCancel_J07_DeadWorkersJob ends at once: there is nobody to ask.
func TestCancel_J07_DeadWorkersJob(t *testing.T) {
	t.Parallel()
	d := plainly("report", &Options{Queue: idle})
	f := setup(t, unhurried(), d)
	id := submit(f, d, in{}, nil)
	f.exec(`update txonce.job set state = 'running', attempt = gen_random_uuid(), attempts = 1, lease_until = clock_timestamp() - interval '1 s'`)
	f.mustCancel(id, toolcall.StateCancelled)
}

// TestCancel_J07_FailureIsStillAFailure: the work says what was wrong with the request.
func TestCancel_J07_FailureIsStillAFailure(t *testing.T) {
	t.Parallel()
	causes := make(chan error, 1)
	d := Define("report", waits(causes, func(context.Context) (Commit[out], error) { return nil, Fail("no", "not this one") }), nil)
	f := setup(t, unhurried(), d)
	f.start(f.Runner)
	id := submit(f, d, in{}, nil)
	f.await(id, toolcall.StateRunning)
	if _, err := f.Cancel(t.Context(), scope, id); err != nil {
		t.Error(err)
	}
	if s := f.await(id, toolcall.StateFailed); s.Failure.Code != "no" || !s.Job.CancelRequested {
		t.Errorf("%+v, %+v", s.Failure, s.Job)
	}
}
