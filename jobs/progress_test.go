package jobs

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/toolcall"
)

// stage is work that does what the test says, step by step.
type stage chan func(ctx context.Context, job *Job[in]) (Commit[out], error, bool)

// define makes a definition whose work goes on until a step says that it is over.
func (s stage) define(name string, opts *Options) *Definition[in, out] {
	return Define(name, func(ctx context.Context, job *Job[in]) (Commit[out], error) {
		for {
			select {
			case step := <-s:
				if c, err, over := step(ctx, job); over {
					return c, err
				}
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
	}, opts)
}

func (s stage) say(fraction float64, message string) {
	s <- func(_ context.Context, job *Job[in]) (Commit[out], error, bool) {
		job.Progress(fraction, message)
		return nil, nil, false
	}
}

func (s stage) end(err error) {
	s <- func(_ context.Context, job *Job[in]) (Commit[out], error, bool) {
		return commits(job.Args.Label), err, true
	}
}

// reported waits until the status shows the report.
func (f *fixture) reported(id toolcall.ID, fraction float64, message string) {
	f.t.Helper()
	f.eventually(fmt.Sprintf("status shows %v %q", fraction, message), func() bool {
		p := f.status(id).Job.Progress
		return p != nil && p.Fraction == float64(float32(fraction)) && p.Message == message && !p.At.IsZero()
	})
}

func TestProgress_J05_LatestReportIsShown(t *testing.T) {
	t.Parallel()
	s := make(stage)
	d := s.define("report", &Options{Backoff: noPause})
	f := setup(t, nil, d)
	f.start(f.Runner)
	id := submit(f, d, in{Label: "x"}, nil)
	if p := f.await(id, toolcall.StateRunning).Job.Progress; p != nil {
		t.Errorf("before any report: %+v", p)
	}
	s.say(0.25, "a quarter")
	f.reported(id, 0.25, "a quarter")
	renewed := `select lease_until > $1::timestamptz from txonce.job`
	since := get[time.Time](f, `select lease_until from txonce.job`)
	f.eventually("a lease is renewed without a report", func() bool { return get[bool](f, renewed, since) })
	f.reported(id, 0.25, "a quarter")
	s.say(0.5, "half")
	s.say(0.75, "")
	f.reported(id, 0.75, "")
	s.say(0.1, "back again")
	f.reported(id, 0.1, "back again")

	s.end(errors.New("no luck")) // the next attempt starts anew
	f.eventually("the second attempt runs", func() bool {
		st := f.status(id)
		if st.State == toolcall.StateQueued && st.Job.Progress != nil {
			t.Errorf("between two attempts: %+v", st.Job.Progress)
		}
		return st.State == toolcall.StateRunning && st.Job.Attempts == 2
	})
	if p := f.status(id).Job.Progress; p != nil {
		t.Errorf("of the attempt before: %+v", p)
	}
	s.say(1, "done")
	f.reported(id, 1, "done")
	s.end(nil)
	if p := f.await(id, toolcall.StateSucceeded).Job.Progress; p != nil {
		t.Errorf("in the end: %+v", p)
	}
}

// TestProgress_J05_IsWrittenAtMostOnceASecond: a worker that reports all the time costs a write a second.
func TestProgress_J05_IsWrittenAtMostOnceASecond(t *testing.T) {
	t.Parallel()
	begun, ended := make(chan time.Time, 1), make(chan int, 1)
	d := Define("report", func(ctx context.Context, job *Job[in]) (Commit[out], error) {
		begun <- time.Now()
		n := 0
		for ; ctx.Err() == nil; n++ {
			job.Progress(0.5, fmt.Sprint(n))
		}
		ended <- n
		return nil, ctx.Err()
	}, nil)
	f := setup(t, nil, d)
	f.exec(`create table written (message text not null)`)
	f.exec(`create function note() returns trigger language plpgsql as $$ begin insert into written values (new.message); return null; end $$`)
	f.exec(`create trigger notes after update on txonce.job for each row when (new.progress_at is distinct from old.progress_at) execute function note()`)
	f.start(f.Runner)
	id := submit(f, d, in{}, nil)
	written := func() int { return get[int](f, `select count(distinct message)::int from written`) }
	f.eventually("three reports are written", func() bool { return written() >= 3 })
	if _, err := f.Cancel(t.Context(), scope, id); err != nil {
		t.Fatal(err)
	}
	reports := <-ended
	took := time.Since(<-begun)
	if n := written(); n > int(took/reportEvery)+1 || reports < 1000 {
		t.Errorf("%d reports were written in %v, of %d", n, took, reports)
	}
}

// TestProgress_J05_AnythingMayBeReported: it comes out as a fraction and as text.
func TestProgress_J05_AnythingMayBeReported(t *testing.T) {
	t.Parallel()
	type report struct {
		fraction float64
		message  string
	}
	cases := []struct{ said, want report }{
		{report{math.NaN(), "nan"}, report{0, "nan"}},
		{report{math.Inf(1), "inf"}, report{1, "inf"}},
		{report{math.Inf(-1), "-inf"}, report{0, "-inf"}},
		{report{-0.1, "below"}, report{0, "below"}},
		{report{7, "above"}, report{1, "above"}},
		{report{math.SmallestNonzeroFloat64, "tiny"}, report{0, "tiny"}},
		{report{1. / 3, "third"}, report{1. / 3, "third"}},
		{report{0.5, "a\x00b"}, report{0.5, "a\uFFFDb"}},
		{report{0.5, "\xff\xfe"}, report{0.5, "\uFFFD"}},
		{report{0.5, `{"a",'b',\c,NULL}` + "\n\t"}, report{0.5, `{"a",'b',\c,NULL}` + "\n\t"}},
		{report{0.5, "NULL"}, report{0.5, "NULL"}},
		{report{0.5, strings.Repeat("x", longestProgress+1)}, report{0.5, strings.Repeat("x", longestProgress)}},
		{report{0.5, "x" + strings.Repeat("é", longestProgress)}, report{0.5, "x" + strings.Repeat("é", (longestProgress-1)/2)}},
		{report{0.5, strings.Repeat("\x00", longestProgress)}, report{0.5, strings.Repeat("\uFFFD", longestProgress/3)}},
	}
	d := Define("report", func(ctx context.Context, job *Job[int]) (Commit[out], error) {
		job.Progress(cases[job.Args].said.fraction, cases[job.Args].said.message)
		<-ctx.Done()
		return nil, ctx.Err()
	}, nil)
	cfg := quick()
	cfg.Queues = map[string]int{defaultQueue: len(cases)}
	f := setup(t, cfg, d)
	f.start(f.Runner)
	ids := make([]toolcall.ID, len(cases))
	for i := range cases {
		ids[i] = submit(f, d, i, nil)
	}
	for i, c := range cases {
		f.reported(ids[i], c.want.fraction, c.want.message)
		if _, err := f.Cancel(t.Context(), scope, ids[i]); err != nil {
			t.Error(err)
		}
	}
	(&Job[in]{}).Progress(0.5, "made by hand")
}

// TestProgress_J05_ReportBesideALockedRowIsNotLost: it is written when the row is free.
func TestProgress_J05_ReportBesideALockedRowIsNotLost(t *testing.T) {
	t.Parallel()
	w, s := &turns{}, make(stage)
	d := s.define("report", nil)
	f := setupOn(t, func(cfg *pgxpool.Config) { w.watch(cfg) }, nil, d)
	f.start(f.Runner)
	id := submit(f, d, in{}, nil)
	f.await(id, toolcall.StateRunning)
	tx, err := f.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := tx.Exec(t.Context(), `select from txonce.job for update`); err != nil {
		t.Fatal(err)
	}
	s.say(0.5, "half")
	w.take()
	beats := 0
	f.eventually("two beats have met the lock", func() bool {
		for _, turn := range w.take() {
			if turn.Has("unnest(") && turn.Has("skip locked") {
				beats++
			}
		}
		return beats >= 2
	})
	if p := f.status(id).Job.Progress; p != nil {
		t.Errorf("the row is locked, and the status shows %+v", p)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.reported(id, 0.5, "half")
	s.end(nil)
	f.await(id, toolcall.StateSucceeded)
}

// TestProgress_J05_ReportOfADeadAttemptIsGone when the next one begins.
func TestProgress_J05_ReportOfADeadAttemptIsGone(t *testing.T) {
	t.Parallel()
	s := make(stage)
	d := s.define("report", nil)
	f := setup(t, unhurried(), d)
	id := submit(f, d, in{Label: "x"}, nil)
	f.exec(`update txonce.job set state = 'running', attempt = gen_random_uuid(), attempts = 1, lease_until = clock_timestamp(), progress = 0.9,
		message = 'nearly', progress_at = clock_timestamp()`)
	f.start(f.Runner)
	f.eventually("the second attempt runs", func() bool { return f.status(id).Job.Attempts == 2 })
	if p := f.status(id).Job.Progress; p != nil {
		t.Errorf("of the attempt before: %+v", p)
	}
	s.end(nil)
	f.await(id, toolcall.StateSucceeded)
}

// TestProgress_J05_AfterTheEndItIsNothing: a goroutine that the work left behind may go on reporting.
func TestProgress_J05_AfterTheEndItIsNothing(t *testing.T) {
	t.Parallel()
	kept := make(chan *Job[in], 2)
	d := Define("report", func(ctx context.Context, job *Job[in]) (Commit[out], error) {
		kept <- job
		if job.Args.Label == "waits" {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return commits("x"), nil
	}, nil)
	f := setup(t, nil, d)
	f.start(f.Runner)
	f.await(submit(f, d, in{}, nil), toolcall.StateSucceeded)
	over := <-kept
	other := submit(f, d, in{Label: "waits"}, nil)
	running := <-kept
	over.Progress(0.9, "too late")
	running.Progress(0.5, "in time")
	f.reported(other, 0.5, "in time")
	if p := f.status(over.ID).Job.Progress; p != nil {
		t.Errorf("%+v", p)
	}
	if _, err := f.Cancel(t.Context(), scope, other); err != nil {
		t.Error(err)
	}
}
