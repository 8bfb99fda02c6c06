package txidem

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/toolcall"
)

// terminate ends the backend as an administrator does, and returns when it is gone.
func (f *fixture) terminate(pid uint32) {
	f.t.Helper()
	f.exec(`select pg_terminate_backend($1::int)`, int32(pid))
	eventually(f.t, "the backend is gone", func() bool {
		var n int
		err := f.pool.QueryRow(f.t.Context(), `select count(*) from pg_stat_activity where pid = $1::int`, int32(pid)).Scan(&n)
		return err == nil && n == 0
	})
}

// barrier is an advisory lock that the test holds and that statements of calls wait for.
const barrier = 42

// raise takes the barrier, in a transaction: a pooler gives away what lasts longer. lower frees it.
func (f *fixture) raise() (lower func()) {
	f.t.Helper()
	tx, err := f.pool.Begin(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	if _, err := tx.Exec(f.t.Context(), `select pg_advisory_xact_lock($1)`, barrier); err != nil {
		f.t.Fatal(err)
	}
	return func() {
		f.t.Helper()
		if err := tx.Rollback(f.t.Context()); err != nil {
			f.t.Error(err)
		}
	}
}

// holder returns the backend that holds the lock of the only call that runs. What the client knows is not it where a
// pooler stands between the two, and asking on the call's connection would be a statement of the handler's.
func (f *fixture) holder() (pid uint32) {
	f.t.Helper()
	if err := f.pool.QueryRow(f.t.Context(), `select pid from pg_locks where locktype = 'advisory' and granted
		and database = (select oid from pg_database where datname = current_database())`).Scan(&pid); err != nil {
		f.t.Fatal(err)
	}
	return pid
}

// atBarrier returns the backend that waits for the barrier.
func (f *fixture) atBarrier() (pid uint32) {
	f.t.Helper()
	eventually(f.t, "a backend waits at the barrier", func() bool {
		err := f.pool.QueryRow(f.t.Context(), `select pid from pg_locks where locktype = 'advisory' and not granted and objid = $1
			and database = (select oid from pg_database where datname = current_database())`, barrier).Scan(&pid)
		return err == nil
	})
	return pid
}

// TestRun_R02_BackendTerminatedInTheHandler ends the backend under a handler. What the handler had written is gone.
func TestRun_R02_BackendTerminatedInTheHandler(t *testing.T) {
	t.Parallel()
	for label, c := range map[string]struct {
		before, after bool // a statement before, and one after the backend's end
		retried       bool // by Run itself: the handler has not seen the end, and COMMIT is what finds out
	}{
		"before the first statement":  {false, true, false},
		"between two statements":      {true, true, false},
		"behind the last statement":   {true, false, true},
		"and there are no statements": {false, false, true},
	} {
		t.Run(name(label), func(t *testing.T) {
			t.Parallel()
			f, _, events := wired(t, nil, 4)
			run := 0
			handler := func(ctx context.Context, tx pgx.Tx) (string, error) {
				run++
				if run == 1 && c.before || run > 1 {
					if err := writeRun(ctx, tx, "k", run); err != nil {
						return "", err
					}
				}
				if run == 1 {
					f.terminate(f.holder())
					if c.after {
						return "", writeRun(ctx, tx, "k", run)
					}
				}
				return strconv.Itoa(run), nil
			}
			got, err := Run(t.Context(), f.store, request("k"), handler)
			if !c.retried {
				if err == nil || !Retryable(err) || errors.Is(err, ErrOutcomeUnknown) || run != 1 {
					t.Errorf("got %+v, %v, %d runs; want a retryable error that is sure of the outcome", got, err, run)
				}
				if e, r := len(f.ran()), f.records(); e != 0 || r != 0 {
					t.Errorf("without a retry: %d effects, %d records", e, r)
				}
				got, err = Run(t.Context(), f.store, request("k"), handler)
			}
			if err != nil || got.Replayed || got.Value != "2" || run != 2 {
				t.Errorf("got %+v, %v, %d runs, event %+v; want the second run's answer", got, err, run, events.last(got.ID))
			}
			f.oneEffectEach(1)
			f.clean()
		})
	}
}

// TestRun_R02_BackendTerminatedInTheLastRoundTrip ends the backend while the record is being written, and while COMMIT
// executes.
func TestRun_R02_BackendTerminatedInTheLastRoundTrip(t *testing.T) {
	t.Parallel()
	for label, c := range map[string]struct {
		atFinish, atCommit, fails bool
		retry                     bool // the context allows another run
	}{
		"in front of the record":            {atFinish: true, retry: true},
		"in front of the record, no retry":  {atFinish: true},
		"at COMMIT":                         {atCommit: true, retry: true},
		"at COMMIT, no retry":               {atCommit: true},
		"while the failure is being stored": {atCommit: true, fails: true, retry: true},
	} {
		t.Run(name(label), func(t *testing.T) {
			t.Parallel()
			f, _, events := wired(t, &Policy{Wait: 20 * time.Second, CommitTimeout: 30 * time.Second}, 8)
			if c.atCommit {
				f.slowCommits(`perform pg_advisory_xact_lock(42)`)
				f.exec(`create constraint trigger slow after insert on txonce.call deferrable initially deferred for each row
					when (new.state = 'failed') execute function slow()`)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			run := 0
			handler := func(ctx context.Context, tx pgx.Tx) (string, error) {
				run++
				call, _ := toolcall.FromContext(ctx)
				if c.atFinish {
					if err := call.AtFinish(func(b *pgx.Batch) { b.Queue(`select pg_advisory_xact_lock(42)`) }); err != nil {
						return "", err
					}
				}
				if err := writeRun(ctx, tx, "k", run); err != nil {
					return "", err
				}
				if c.fails {
					return "", Fail("no", strconv.Itoa(run))
				}
				return strconv.Itoa(run), nil
			}
			lower := f.raise()
			type result struct {
				Result[string]
				err error
			}
			ended := make(chan result)
			go func() {
				got, err := Run(ctx, f.store, request("k"), handler)
				ended <- result{got, err}
			}()
			pid := f.atBarrier()
			if !c.retry {
				cancel()
			}
			f.terminate(pid)
			if c.retry {
				if again := f.atBarrier(); again == pid {
					t.Error("the same backend is back")
				}
			}
			lower()
			got := <-ended
			event := events.last(got.ID)
			if !c.retry {
				if got.err == nil || !Retryable(got.err) || errors.Is(got.err, ErrOutcomeUnknown) || event.Runs != 1 {
					t.Errorf("got %+v, event %+v; want a retryable error that is sure of the outcome", got, event)
				}
				if e, r := len(f.ran()), f.records(); e != 0 || r != 0 {
					t.Errorf("without a retry: %d effects, %d records", e, r)
				}
				got.Result, got.err = Run(t.Context(), f.store, request("k"), handler)
			}
			if c.fails {
				if failure, ok := failureIn(got.err); !ok || failure.Message != "2" || len(f.ran()) != 0 || f.records() != 1 {
					t.Errorf("got %+v, %d effects, %d records; want the second run's failure", got, len(f.ran()), f.records())
				}
			} else {
				if got.err != nil || got.Replayed || got.Value != "2" {
					t.Errorf("got %+v, event %+v; want the second run's answer", got, event)
				}
				f.oneEffectEach(1)
			}
			f.clean()
		})
	}
}
