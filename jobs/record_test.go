package jobs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/txonce/txonce/toolcall"
)

// canary is what must not be found where it does not belong.
const canary = "canary-7f3a"

// leaks are jobs that put the canary wherever they can, by how they end.
func leaks() map[string]*Definition[in, out] {
	at := func(name string, half func(ctx context.Context, tx pgx.Tx) error, first error) *Definition[in, out] {
		return Define(name, func(_ context.Context, job *Job[in]) (Commit[out], error) {
			job.Progress(0.5, canary)
			if first != nil {
				return nil, first
			}
			return func(ctx context.Context, tx pgx.Tx) (out, error) { return out{Label: canary}, half(ctx, tx) }, nil
		}, &Options{MaxAttempts: 2, Backoff: noPause})
	}
	raises := func(sql string) func(context.Context, pgx.Tx) error {
		return func(ctx context.Context, tx pgx.Tx) error { _, err := tx.Exec(ctx, sql); return err }
	}
	return map[string]*Definition[in, out]{
		"succeeds":      at("succeeds", func(context.Context, pgx.Tx) error { return nil }, nil),
		"fails":         at("fails", nil, Fail("no", canary)),
		"errs":          at("errs", nil, errors.New(canary)),
		"wraps-cancel":  at("wraps-cancel", nil, river.JobCancel(errors.New(canary))),
		"wraps-snooze":  at("wraps-snooze", nil, fmt.Errorf("%s: %w", canary, river.JobSnooze(time.Hour))),
		"raises":        at("raises", raises(`do $$ begin raise exception '`+canary+`'; end $$`), nil),
		"fails-late":    at("fails-late", func(context.Context, pgx.Tx) error { return Fail("no", canary) }, nil),
		"panics":        at("panics", func(context.Context, pgx.Tx) error { panic(canary) }, nil),
		"ends-by-sql":   at("ends-by-sql", raises("commit"), nil),
		"zero-byte":     at("zero-byte", nil, errors.New("a\x00b "+canary)),
		"no-text":       at("no-text", nil, errors.New("\xff\xfe"+canary)),
		"long":          at("long", nil, errors.New(strings.Repeat(canary, 1<<17))),
		"says-deadline": at("says-deadline", nil, fmt.Errorf("%s: %w", canary, context.DeadlineExceeded)),
	}
}

// TestRecord_J08_QueueKnowsNothingButTheID: arguments, results, errors and reports are in the job's row and nowhere else.
func TestRecord_J08_QueueKnowsNothingButTheID(t *testing.T) {
	t.Parallel()
	defs := leaks()
	var all []Registered
	for _, d := range defs {
		all = append(all, d)
	}
	f := setup(t, nil, all...)
	ids := make(map[string]toolcall.ID)
	for name, d := range defs {
		ids[name] = submit(f, d, in{Label: canary}, nil)
	}
	f.start(f.Runner)
	for name, id := range ids {
		state := toolcall.StateFailed
		if name == "succeeds" {
			state = toolcall.StateSucceeded
		}
		s := f.await(id, state)
		if s.State == toolcall.StateFailed && s.Failure.Code == CodeAttemptsExhausted && strings.Contains(s.Failure.Message, canary) {
			t.Errorf("%s: callers are told %q", name, s.Failure.Message)
		}
		if got := get[string](f, `select last_error from txonce.job where id = $1::uuid`, uuidOf(id)); len(got) > longestError || name != "succeeds" && name != "ends-by-sql" && !strings.Contains(got, canary) {
			t.Errorf("%s: operators are told %.100q (%d bytes)", name, got, len(got))
		}
	}
	f.eventually("River has taken note of each end", func() bool {
		return get[int](f, `select count(*)::int from txonce_river.river_job where finalized_at is null`) == 0
	})
	if n := get[int](f, `select count(*)::int from txonce_river.river_job r where r::text like '%' || $1::text || '%'`, canary); n != 0 {
		t.Errorf("%d of River's rows have what is not theirs: %s", n, get[string](f, `select left(string_agg(r::text, chr(10)), 3000) from txonce_river.river_job r where r::text like '%' || $1::text || '%'`, canary))
	}
	if n := get[int](f, `select count(*)::int from txonce_river.river_job r where not exists (select from txonce.job j
		where r.args = jsonb_build_object('job', j.id) and r.kind = j.kind and r.id = j.bell)`); n != 0 {
		t.Errorf("%d of River's rows have other arguments than the id of their job", n)
	}
	if longest := get[int](f, `select max(length(r::text)) from txonce_river.river_job r`); longest > 2000 {
		t.Errorf("a row of River's has %d bytes", longest)
	}
}

// TestRecord_J08_OutlivesTheQueuesRows: River forgets, we do not.
func TestRecord_J08_OutlivesTheQueuesRows(t *testing.T) {
	t.Parallel()
	good, bad := plainly("good", nil), Define("bad", worksThen(Fail("no", "not this one")), nil)
	f := setup(t, nil, good, bad)
	f.start(f.Runner)
	ids := []toolcall.ID{submit(f, good, in{Label: "a"}, nil), submit(f, bad, in{}, nil)}
	before := []toolcall.Status{f.await(ids[0], toolcall.StateSucceeded), f.await(ids[1], toolcall.StateFailed)}
	f.exec(`delete from txonce_river.river_job`)
	for i, id := range ids {
		if diff := cmp.Diff(before[i], f.status(id)); diff != "" {
			t.Errorf("-before +after: %s", diff)
		}
		if _, err := f.Cancel(t.Context(), scope, id); !errors.Is(err, ErrFinished) {
			t.Errorf("Cancel: %v, want ErrFinished", err)
		}
	}
}

// TestRecord_J08_GoesAfterItsRetention: as if it had never been, and in the table, too.
func TestRecord_J08_GoesAfterItsRetention(t *testing.T) {
	t.Parallel()
	d := plainly("report", nil)
	f := setup(t, unhurried(), d)
	f.start(f.Runner)
	var ids []toolcall.ID
	for range 2*sweepBatch/100 + 3 {
		ids = append(ids, submit(f, d, in{Label: "x"}, nil))
	}
	for _, id := range ids {
		f.await(id, toolcall.StateSucceeded)
	}
	waits := submit(f, d, in{}, &SubmitOpts{Scope: scope, RunAt: time.Now().Add(time.Hour)})
	f.exec(`update txonce.job set expires_at = clock_timestamp() where id <> $1::uuid and finished_at is not null`, uuidOf(ids[0]))
	for _, id := range ids[1:] {
		if _, err := f.Status(t.Context(), scope, id); !errors.Is(err, ErrNotFound) {
			t.Errorf("Status: %v, want ErrNotFound", err)
		}
		if _, err := f.Cancel(t.Context(), scope, id); !errors.Is(err, ErrNotFound) {
			t.Errorf("Cancel: %v, want ErrNotFound", err)
		}
	}
	if err := f.tidy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := f.rows().jobs; n != 2 {
		t.Errorf("%d jobs are left, want 2", n)
	}
	f.await(ids[0], toolcall.StateSucceeded)
	f.await(waits, toolcall.StateQueued)
}

// TestRecord_J08_TidyTakesAllThatHasExpired, a batch at a time.
func TestRecord_J08_TidyTakesAllThatHasExpired(t *testing.T) {
	t.Parallel()
	f := setup(t, unhurried(), plainly("report", nil))
	f.exec(`insert into txonce.job (id, scope, kind, queue, priority, state, args, keep, max_attempts, created_at, run_at, check_at, finished_at, expires_at)
		select gen_random_uuid(), 'x', 'report', 'default', 1, 'succeeded', '', '1 s', 1, now(), now(), now(), now(), now() from generate_series(1, $1::integer)`, 2*sweepBatch+1)
	f.exec(`insert into txonce.call (id, scope, tool, key, fingerprint, canon, fields, state, attempt, answer, started_at, finished_at, expires_at, tombstone)
		select gen_random_uuid(), 'x', 'x', n::text, '', 1, '', 'succeeded', gen_random_uuid(), '', now(), now(), null, false from generate_series(1, $1::integer) n`, 2*sweepBatch+1)
	if err := f.tidy(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.rowsAre("behind tidy", rows{calls: 2*sweepBatch + 1})
}

// TestRecord_J08_QueueIsKeptSmall: River's rows of jobs that succeeded go after an hour, unless Configure says otherwise.
func TestRecord_J08_QueueIsKeptSmall(t *testing.T) {
	t.Parallel()
	pool := dummyPool(t)
	for want, change := range map[time.Duration]func(*river.Config){
		time.Hour: nil, time.Minute: func(c *river.Config) { c.CompletedJobRetentionPeriod = time.Minute },
	} {
		var got time.Duration
		if _, err := New(pool, &Config{Configure: func(c *river.Config) {
			if change != nil {
				change(c)
			}
			got = c.CompletedJobRetentionPeriod
		}}, plainly("report", nil)); err != nil || got != want {
			t.Errorf("%v, %v; want %v", got, err, want)
		}
	}
}

// errorHandler is an application's, which reports errors elsewhere.
type errorHandler chan error

func (h errorHandler) HandleError(_ context.Context, _ *rivertype.JobRow, err error) *river.ErrorHandlerResult {
	h <- err
	return nil
}

func (h errorHandler) HandlePanic(context.Context, *rivertype.JobRow, any, string) *river.ErrorHandlerResult {
	return nil
}

// TestRecord_J08_ErrorHandlerHearsTheErrorItself, though River's row does not.
func TestRecord_J08_ErrorHandlerHearsTheErrorItself(t *testing.T) {
	t.Parallel()
	unlucky := errors.New(canary)
	d := Define("report", worksThen(unlucky), &Options{MaxAttempts: 1})
	heard := make(errorHandler, 1)
	cfg := quick()
	cfg.Configure = func(c *river.Config) { c.ErrorHandler = heard }
	f := setup(t, cfg, d)
	f.start(f.Runner)
	f.await(submit(f, d, in{}, nil), toolcall.StateFailed)
	if err := <-heard; !errors.Is(err, unlucky) || strings.Contains(err.Error(), canary) {
		t.Errorf("it heard %q", err)
	}
}
