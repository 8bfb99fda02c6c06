package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/txonce/txonce/toolcall"
	"github.com/txonce/txonce/txidem"
)

// TestAttempts_J06_DeadWorkersUseThemUp: no code runs when they die. The job ends all the same, by the sweeper or by whoever
// asks for it, and nothing that comes later counts.
func TestAttempts_J06_DeadWorkersUseThemUp(t *testing.T) {
	t.Parallel()
	for label, ends := range map[string]func(f *fixture, id toolcall.ID){
		"the sweeper": func(f *fixture, _ toolcall.ID) { f.sweeps(f.Runner) },
		"who asks":    func(*fixture, toolcall.ID) {},
	} {
		t.Run(label, func(t *testing.T) {
			t.Parallel()
			d, visits := stepwise(t, "stepwise", &Options{MaxAttempts: 2})
			f := setup(t, still(), d)
			id := submit(f, d, in{Label: "a"}, nil)
			var late []*visit
			var bells []<-chan error
			for n := 1; n <= 2; n++ {
				bells = append(bells, ring(f, f.Runner, d, id))
				late = append(late, begun(f, visits))
				if n == 2 {
					break
				}
				f.lapse(id)
				f.longAgo(id)
				f.sweeps(f.Runner)
				if got := f.doorbells(id); got != 2 {
					t.Errorf("there are %d doorbells, want a second one", got)
				}
				f.sweeps(f.Runner)
			}
			f.hears("one too many, early", ring(f, f.Runner, d, id), isSnooze)
			f.lapse(id)
			f.hears("one too many", ring(f, f.Runner, d, id), isSnooze)
			nobody(f, visits)
			ends(f, id)
			s := f.ended(id, toolcall.StateFailed, 2, CodeAttemptsExhausted)
			if s.FinishedAt.IsZero() || s.Failure == nil || !strings.Contains(s.Failure.Message, "2 attempts") {
				t.Errorf("got %+v", s)
			}
			if got := f.doorbells(id); got != 2 {
				t.Errorf("there are %d doorbells", got)
			}
			for i, v := range late {
				v.computes(nil)
				f.hears("a late one", bells[i], isSnooze)
			}
			f.hears("one behind the end", ring(f, f.Runner, d, id), isNil)
			f.effectsBy(map[string][]string{})
			f.ended(id, toolcall.StateFailed, 2, CodeAttemptsExhausted)
		})
	}
}

// longAgo makes River's row one that a worker fetched long ago.
func (f *fixture) longAgo(id toolcall.ID) {
	f.t.Helper()
	f.sets(id, `state = 'running', attempt = 1, attempted_at = now() - interval '1 day'`)
}

// panics cannot be encoded.
type panics struct{}

func (panics) MarshalJSON() ([]byte, error) { panic("in MarshalJSON") }

// badEnds are what is a failed attempt, and what is then kept as its error.
var badEnds = map[string]struct {
	work func(ctx context.Context) (Commit[any], error)
	want string
}{
	"error":                {func(context.Context) (Commit[any], error) { return nil, errors.New("the printer is on fire") }, "the printer is on fire"},
	"panic":                {func(context.Context) (Commit[any], error) { panic("the printer is on fire") }, "jobs: the worker panicked: the printer is on fire\n"},
	"panic with nil":       {func(context.Context) (Commit[any], error) { panic(nil) }, "jobs: the worker panicked: panic called with nil argument"},
	"Goexit":               {func(context.Context) (Commit[any], error) { runtime.Goexit(); return nil, nil }, "jobs: the worker panicked: it ended its goroutine"},
	"no commit":            {func(context.Context) (Commit[any], error) { return nil, nil }, "jobs: the work returned neither"},
	"timeout":              {func(ctx context.Context) (Commit[any], error) { <-ctx.Done(); return nil, ctx.Err() }, "jobs: the attempt took longer than Options.Timeout: context deadline exceeded"},
	"timeout, ignored":     {func(ctx context.Context) (Commit[any], error) { <-ctx.Done(); return nothing, nil }, "jobs: the attempt took longer than Options.Timeout"},
	"timeout as the cause": {func(ctx context.Context) (Commit[any], error) { <-ctx.Done(); return nil, context.Cause(ctx) }, "jobs: the attempt took longer than Options.Timeout"},
	"snooze":               {func(context.Context) (Commit[any], error) { return nil, river.JobSnooze(time.Hour) }, "JobSnoozeError"},
	"cancel":               {func(context.Context) (Commit[any], error) { return nil, river.JobCancel(errors.New("on fire")) }, "on fire"},
	"not a text":           {func(context.Context) (Commit[any], error) { return nil, errors.New("a\x00b\xff") }, "a\uFFFDb\uFFFD"},
	"commit: error":        {in2(func(context.Context, pgx.Tx) (any, error) { return nil, errors.New("the printer is on fire") }), "the printer is on fire"},
	"commit: panic":        {in2(func(context.Context, pgx.Tx) (any, error) { panic("the printer is on fire") }), "jobs: the worker panicked: the printer is on fire\n"},
	"commit: Goexit":       {in2(func(context.Context, pgx.Tx) (any, error) { runtime.Goexit(); return nil, nil }), "jobs: the worker panicked: it ended"},
	"commit: cannot be encoded": {in2(func(context.Context, pgx.Tx) (any, error) {
		return func() {}, nil
	}), "jobs: the result cannot be encoded: json: unsupported type"},
	"commit: encoding panics": {in2(func(context.Context, pgx.Tx) (any, error) { return panics{}, nil }), "in MarshalJSON"},
	"commit: swallows an SQL error": {in2(func(ctx context.Context, tx pgx.Tx) (any, error) {
		_, _ = tx.Exec(ctx, `select 1/0`)
		return nil, nil
	}), "jobs: a statement of the commit function failed and it returned no error"},
	"commit: unique violation": {in2(func(ctx context.Context, tx pgx.Tx) (any, error) {
		_, err := tx.Exec(ctx, `create table once (a int primary key) `)
		if err == nil {
			_, err = tx.Exec(ctx, `insert into once values (1), (1)`)
		}
		return nil, err
	}), "23505"},
	"commit: snooze": {in2(func(context.Context, pgx.Tx) (any, error) { return nil, river.JobSnooze(time.Hour) }), "JobSnoozeError"},
	"commit: takes too long": {in2(func(ctx context.Context, _ pgx.Tx) (any, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}), "context deadline exceeded"},
	"commit: takes too long, unawares": {in2(func(ctx context.Context, _ pgx.Tx) (any, error) {
		<-ctx.Done()
		return nil, nil
	}), "deadline exceeded"},
	"commit: queues what fails": {in2(func(ctx context.Context, _ pgx.Tx) (any, error) {
		call, _ := toolcall.FromContext(ctx)
		return nil, call.AtFinish(func(b *pgx.Batch) { b.Queue(`select 1/0`) })
	}), "22012"},
	"commit: queues what is no number": {in2(func(ctx context.Context, _ pgx.Tx) (any, error) {
		call, _ := toolcall.FromContext(ctx)
		return nil, call.AtFinish(func(b *pgx.Batch) { b.Queue(`select $1::text::int`, "no number") })
	}), "22P02"},
	"commit: fails at COMMIT": {in2(func(ctx context.Context, tx pgx.Tx) (any, error) {
		_, err := tx.Exec(ctx, `insert into child values (1)`)
		return nil, err
	}), "23503"},
}

func nothing(context.Context, pgx.Tx) (any, error) { return nil, nil }

// in2 is a commit half that writes first.
func in2(half Commit[any]) func(ctx context.Context) (Commit[any], error) {
	return func(context.Context) (Commit[any], error) {
		return func(ctx context.Context, tx pgx.Tx) (any, error) {
			if err := write(ctx, tx, "bad"); err != nil {
				return nil, err
			}
			return half(ctx, tx)
		}, nil
	}
}

// TestAttempts_J06_EachBadEndIsAFailedAttempt: the next one has the job, and of the last nothing but its error is kept. There are
// as many as MaxAttempts says.
func TestAttempts_J06_EachBadEndIsAFailedAttempt(t *testing.T) {
	t.Parallel()
	for label, bad := range badEnds {
		t.Run(label, func(t *testing.T) {
			t.Parallel()
			opts := &Options{MaxAttempts: 2, Timeout: time.Minute, CommitTimeout: 30 * time.Second}
			if strings.HasPrefix(label, "timeout") {
				opts.Timeout = 100 * time.Millisecond
			}
			if strings.HasPrefix(label, "commit: takes too long") {
				opts.CommitTimeout = 500 * time.Millisecond
			}
			last := false // whether the second attempt ends as badly
			d := Define("bad", func(ctx context.Context, job *Job[in]) (Commit[any], error) {
				if job.Attempt == 1 || last {
					return bad.work(ctx)
				}
				return func(ctx context.Context, tx pgx.Tx) (any, error) { return "good", write(ctx, tx, "good") }, nil
			}, opts)
			f := setup(t, still(), d)
			f.exec(`create table parent (a int primary key)`)
			f.exec(`create table child (a int references parent deferrable initially deferred)`)
			for _, last = range []bool{false, true} {
				id := submit(f, d, in{}, nil)
				answer := func() error { return f.answer(t.Context(), d.def, id) }
				if err := answer(); !isError(err) {
					t.Errorf("the doorbell of the first attempt: %v", err)
				}
				s := f.ended(id, toolcall.StateQueued, 1, "")
				if s.Job.NextAttemptAt.IsZero() {
					t.Error("there is no next attempt")
				}
				f.effectsAre(map[string]int{})
				f.wantError(id, bad.want)
				if last {
					if err := answer(); !isError(err) {
						t.Errorf("the doorbell of the last attempt: %v", err)
					}
					f.ended(id, toolcall.StateFailed, 2, CodeAttemptsExhausted)
					f.wantError(id, bad.want)
					f.effectsAre(map[string]int{})
					continue
				}
				if err := answer(); err != nil {
					t.Errorf("the doorbell of the second attempt: %v", err)
				}
				f.ended(id, toolcall.StateSucceeded, 2, "")
				f.effectsAre(map[string]int{"good": 1})
				f.exec(`delete from effect`)
			}
		})
	}
}

func (f *fixture) wantError(id toolcall.ID, want string) {
	f.t.Helper()
	if got := f.lastError(id); !strings.Contains(got, want) {
		f.t.Errorf("the error is %q, want %q in it", got, want)
	}
}

// TestAttempts_J06_FailEndsAtOnce: from each half, also where something else is wrong besides, and also when it is made by another
// package of ours.
func TestAttempts_J06_FailEndsAtOnce(t *testing.T) {
	t.Parallel()
	no := Fail("no", "No.")
	for label, end := range map[string]func(ctx context.Context) (Commit[any], error){
		"compute":          func(context.Context) (Commit[any], error) { return nil, no },
		"compute, wrapped": func(context.Context) (Commit[any], error) { return nothing, fmt.Errorf("so: %w", no) },
		"compute, behind the timeout": func(ctx context.Context) (Commit[any], error) {
			<-ctx.Done()
			return nil, no
		},
		"compute, with an instruction to River": func(context.Context) (Commit[any], error) { return nil, errors.Join(river.JobSnooze(time.Hour), no) },
		"txidem":                                func(context.Context) (Commit[any], error) { return nil, txidem.Fail("no", "No.") },
		"commit":                                in2(func(context.Context, pgx.Tx) (any, error) { return nil, no }),
		"commit, behind an SQL error": in2(func(ctx context.Context, tx pgx.Tx) (any, error) {
			_, err := tx.Exec(ctx, `select 1/0`)
			return nil, fmt.Errorf("%w: %w", no, err)
		}),
		"commit, on a connection that is lost": in2(func(ctx context.Context, tx pgx.Tx) (any, error) {
			_ = tx.Conn().Close(ctx)
			return nil, no
		}),
		"commit, txidem": in2(func(context.Context, pgx.Tx) (any, error) { return nil, txidem.Fail("no", "No.") }),
	} {
		t.Run(label, func(t *testing.T) {
			t.Parallel()
			opts := &Options{}
			if strings.Contains(label, "timeout") {
				opts.Timeout = 100 * time.Millisecond
			}
			calls := 0
			d := Define("fails", func(ctx context.Context, _ *Job[in]) (Commit[any], error) {
				half, err := end(ctx)
				return func(ctx context.Context, tx pgx.Tx) (any, error) { calls++; return half(ctx, tx) }, err
			}, opts)
			f := setup(t, still(), d)
			id := submit(f, d, in{}, nil)
			if err := f.answer(t.Context(), d.def, id); !isCancel(err) {
				t.Errorf("the doorbell: %v", err)
			}
			s := f.ended(id, toolcall.StateFailed, 1, "no")
			if s.Failure == nil || s.Failure.Message != "No." || s.Answer != nil {
				t.Errorf("got %+v", s)
			}
			var failure *toolcall.Failure
			if _, err := d.Result(s); !errors.As(err, &failure) || failure.Code != "no" {
				t.Errorf("Result gives %v", err)
			}
			if calls > 1 {
				t.Errorf("the commit half was called %d times", calls)
			}
			f.effectsAre(map[string]int{})
		})
	}
}

// TestAttempts_J06_ArgumentsThatDoNotFitFailAtOnce: no code of the work's has run.
func TestAttempts_J06_ArgumentsThatDoNotFitFailAtOnce(t *testing.T) {
	t.Parallel()
	d := plainly("plain", nil)
	f := setup(t, still(), d)
	id := submit(f, d, in{}, nil)
	f.exec(`update txonce.job set args = '{"label": 7}'`)
	if err := f.answer(t.Context(), d.def, id); !isCancel(err) {
		t.Errorf("the doorbell: %v", err)
	}
	f.ended(id, toolcall.StateFailed, 1, CodeBadArgs)
}

// TestAttempts_J06_LargestAnswer: one byte more is a failure that another attempt would not change.
func TestAttempts_J06_LargestAnswer(t *testing.T) {
	t.Parallel()
	for size, code := range map[int]string{100: "", 101: CodeResultTooLarge} {
		d := Define("large", func(context.Context, *Job[in]) (Commit[string], error) {
			return func(ctx context.Context, tx pgx.Tx) (string, error) {
				return strings.Repeat("x", size-2), write(ctx, tx, "a")
			}, nil
		}, &Options{MaxAnswer: 100})
		f := setup(t, still(), d)
		id := submit(f, d, in{}, nil)
		_ = f.answer(t.Context(), d.def, id)
		if code == "" {
			if s := f.ended(id, toolcall.StateSucceeded, 1, ""); len(s.Answer) != size {
				t.Errorf("the answer has %d bytes", len(s.Answer))
			}
			f.effectsAre(map[string]int{"a": 1})
		} else {
			f.ended(id, toolcall.StateFailed, 1, code)
			f.effectsAre(map[string]int{})
		}
	}
}

// TestAttempts_J06_HandedBackOnesDoNotCount: also where it was the last one.
func TestAttempts_J06_HandedBackOnesDoNotCount(t *testing.T) {
	t.Parallel()
	d, visits := stepwise(t, "stepwise", &Options{MaxAttempts: 2})
	f := setup(t, still(), d)
	id := submit(f, d, in{Label: "a"}, nil)
	for n, c := range []struct {
		stops bool // the runner
		end   error
		left  int // attempts that count
	}{{true, ErrStopping, 0}, {false, errors.New("no luck"), 1}, {true, context.Canceled, 1}, {true, fmt.Errorf("so: %w", ErrStopping), 1}} {
		ctx, stop := context.WithCancel(t.Context())
		bell := ringIn(ctx, f.Runner, d, id)
		v := begun(f, visits)
		if want := c.left + map[bool]int{true: 1}[c.stops]; v.Attempt != want {
			t.Errorf("%d: it is attempt %d, want %d", n, v.Attempt, want)
		}
		if c.stops {
			stop()
			receive(f, "the end of the context", v.ctx.Done())
		}
		v.computes(c.end)
		f.hears("the doorbell", bell, isError)
		f.ended(id, toolcall.StateQueued, c.left, "")
		stop()
	}
	bell := ring(f, f.Runner, d, id)
	begun(f, visits).goesOn(f)
	f.hears("the last doorbell", bell, isNil)
	f.ended(id, toolcall.StateSucceeded, 2, "")
	f.effectsBy(map[string][]string{"a": {"2"}})
}

// TestAttempts_J06_BackoffIsThatOfTheJobsAttempts: also behind a doorbell that is new, with which River counts from the beginning.
func TestAttempts_J06_BackoffIsThatOfTheJobsAttempts(t *testing.T) {
	t.Parallel()
	d, visits := stepwise(t, "stepwise", &Options{Backoff: func(attempt int) time.Duration { return time.Duration(attempt) * time.Hour }})
	f := setup(t, nil, d)
	f.start(f.Runner)
	id := submit(f, d, in{Label: "a"}, nil)
	dead := begun(f, visits)
	f.eventually("it is taken for dead, and begun anew", func() bool {
		f.lapse(id) // the worker lives, and may renew it
		return f.status(id).Job.Attempts == 2
	})
	begun(f, visits).computes(errors.New("no luck"))
	f.await(id, toolcall.StateQueued)
	hours := func(sql string, args ...any) float64 {
		return math.Round(get[float64](f, `select extract(epoch from `+sql, args...) / 3600)
	}
	if got := hours(`run_at - now())::float8 from txonce.job where id = $1`, uuidOf(id)); got != 2 {
		t.Errorf("behind the second attempt the job waits %v hours", got)
	}
	f.eventually("the doorbell is to ring again", func() bool {
		return get[bool](f, `select state = 'retryable' from txonce_river.river_job where id = $1`, f.bell(id))
	})
	if got := hours(`scheduled_at - now())::float8 from txonce_river.river_job where id = $1`, f.bell(id)); got != 2 {
		t.Errorf("behind the second attempt the doorbell waits %v hours", got)
	}
	dead.computes(nil)
	f.ended(id, toolcall.StateQueued, 2, "")
	f.effectsBy(map[string][]string{})
}

// TestAttempts_J06_BackoffThatIsNoneOrPanics is kept to what makes sense.
func TestAttempts_J06_BackoffThatIsNoneOrPanics(t *testing.T) {
	t.Parallel()
	for label, c := range map[string]struct {
		backoff    func(int) time.Duration
		least, max time.Duration
	}{
		"panics":   {func(int) time.Duration { panic("no") }, 4*time.Second - 4*time.Second/5, 4*time.Second + 4*time.Second/5},
		"negative": {func(int) time.Duration { return -time.Hour }, 0, 0},
		"for ever": {func(int) time.Duration { return 1<<63 - 1 }, longestAttempt, longestAttempt},
		"default":  {nil, 4*time.Second - 4*time.Second/5, 4*time.Second + 4*time.Second/5},
	} {
		def := &definition{opts: Options{Backoff: c.backoff}.withDefaults()}
		if got := def.pause(3); got < c.least || got > c.max {
			t.Errorf("%s: %v", label, got)
		}
	}
	if got := doubling(1 << 40); got < longestBackoff*4/5 || got > longestBackoff*6/5 {
		t.Errorf("the longest default is %v", got)
	}
}

// TestAttempts_J06_LastErrorIsForOperators: callers are told failures only.
func TestAttempts_J06_LastErrorIsForOperators(t *testing.T) {
	t.Parallel()
	secret := strings.Repeat("password ", longestError)
	d := Define("leaks", func(context.Context, *Job[in]) (Commit[any], error) { return nil, errors.New(secret) }, &Options{MaxAttempts: 1})
	f := setup(t, still(), d)
	id := submit(f, d, in{}, nil)
	_ = f.answer(t.Context(), d.def, id)
	raw, err := json.Marshal(f.ended(id, toolcall.StateFailed, 1, CodeAttemptsExhausted))
	if err != nil || strings.Contains(string(raw), "password") {
		t.Errorf("%s, %v", raw, err)
	}
	if n := len(get[string](f, `select last_error from txonce.job`)); n == 0 || n > longestError {
		t.Errorf("%d bytes are kept", n)
	}
}
