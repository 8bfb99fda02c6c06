package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"

	"github.com/txonce/txonce/internal/dbtest"
	"github.com/txonce/txonce/toolcall"
)

// storm is what happens to the jobs of one test, by chance.
type storm struct {
	*fixture
	d      *Definition[in, out]
	losers chan struct{} // attempts that wait for others to take over, for which there must be workers

	attempts, stale, failed, rescued, doubled, retried, lapsed atomic.Int64 // how often
}

// work fails one time in ten, and about as often again it loses its job on the way and returns late.
func (s *storm) work(ctx context.Context, job *Job[in]) (Commit[out], error) {
	s.attempts.Add(1)
	commit := func(ctx context.Context, tx pgx.Tx) (out, error) {
		return out{Label: job.Args.Label}, writeBy(ctx, tx, job.Args.Label, job.Attempt)
	}
	if _, err := s.pool.Exec(ctx, `select pg_sleep(0.02 * random())`); err != nil {
		return nil, err
	}
	switch dice := rand.N(100); {
	case dice < 5:
		s.failed.Add(1)
		return s.fails(commit)
	case dice < 10:
		s.failed.Add(1)
		return func(ctx context.Context, tx pgx.Tx) (out, error) {
			_, _ = commit(ctx, tx)
			_, err := s.fails(nil)
			return out{}, err
		}, nil
	case dice < 40:
		select {
		case s.losers <- struct{}{}:
			defer func() { <-s.losers }()
			s.stale.Add(1)
			s.loses(ctx, job)
			return s.late(commit)
		default:
		}
	}
	return commit, nil
}

// fails is a failed attempt of some kind.
func (s *storm) fails(commit Commit[out]) (Commit[out], error) {
	switch rand.N(7) {
	case 0:
		panic("no luck")
	case 1:
		runtime.Goexit()
	case 2:
		return nil, river.JobSnooze(time.Hour)
	case 3:
		return nil, river.JobCancel(errors.New("no luck"))
	case 4:
		return nil, context.Canceled
	case 5:
		if commit != nil {
			return nil, nil
		}
		return nil, context.DeadlineExceeded
	}
	return nil, errors.New("no luck")
}

// late is any end of an attempt that has lost its job.
func (s *storm) late(commit Commit[out]) (Commit[out], error) {
	switch rand.N(6) {
	case 0:
		return nil, Fail("late", "Late.")
	case 1:
		return nil, []error{ErrCancelled, ErrStopping, ErrDeadline, ErrTimeout, ErrLeaseLost}[rand.N(5)]
	case 2:
		return s.fails(commit)
	}
	return commit, nil
}

// loses lets the lease run out until another attempt has the job, or the job has ended.
func (s *storm) loses(ctx context.Context, job *Job[in]) {
	ctx = context.WithoutCancel(ctx)
	token := job.attempt.token
	s.rings(ctx, job.ID)
	for mine := true; mine && s.t.Context().Err() == nil; time.Sleep(10 * time.Millisecond) {
		err := s.pool.QueryRow(ctx, `with lapsed as (update txonce.job set lease_until = clock_timestamp() - interval '1 s', check_at = clock_timestamp()
			where id = $1 and attempt = $2 and state = 'running' returning 1) select exists (select from lapsed)`, uuidOf(job.ID), token).Scan(&mine)
		mine = mine || err != nil
	}
}

// rings hangs another doorbell.
func (s *storm) rings(ctx context.Context, id toolcall.ID) {
	first := &river.InsertOpts{ScheduledAt: time.Now().Add(-time.Hour)} // in front of those that wait
	if _, err := s.client.Load().Insert(ctx, bell{Job: id, kind: s.d.Kind()}, first); err == nil {
		s.doubled.Add(1)
	}
}

// rages disturbs jobs until the test says that it is enough.
func (s *storm) rages(ids []toolcall.ID, enough <-chan struct{}) {
	ctx := context.WithoutCancel(s.t.Context())
	for {
		select {
		case <-enough:
			return
		case <-time.After(5 * time.Millisecond):
		}
		id := ids[rand.N(len(ids))]
		switch rand.N(4) {
		case 0: // as the rescuer does, but of workers that live
			tag, _ := s.pool.Exec(ctx, `update txonce_river.river_job set state = 'available', scheduled_at = now() where state = 'running' and random() < 0.3`)
			s.rescued.Add(tag.RowsAffected())
		case 1:
			s.rings(ctx, id)
		case 2: // as River's UI does
			if hung, err := s.hung(ctx, id); err == nil {
				if _, err := s.client.Load().JobRetry(ctx, hung); err == nil {
					s.retried.Add(1)
				}
			}
		case 3:
			var lapsed toolcall.ID
			err := s.pool.QueryRow(ctx, `update txonce.job set lease_until = clock_timestamp() - interval '1 s' where id =
				(select id from txonce.job where state = 'running' limit 1 for update skip locked) returning id`).Scan((*[16]byte)(&lapsed))
			if err == nil {
				s.rings(ctx, lapsed)
				s.lapsed.Add(1)
			}
		}
	}
}

func (s *storm) hung(ctx context.Context, id toolcall.ID) (hung int64, err error) {
	err = s.pool.QueryRow(ctx, `select bell from txonce.job where id = $1`, uuidOf(id)).Scan(&hung)
	return hung, err
}

// TestStorm_J02_OneEffectPerJob: four hundred jobs, of whose doorbells many ring twice, whose workers are thought dead, fail, lose
// their jobs and return late, in two processes.
func TestStorm_J02_OneEffectPerJob(t *testing.T) {
	t.Parallel()
	n := 400
	if testing.Short() {
		n = 50
	}
	s := &storm{losers: make(chan struct{}, 24)}
	s.d = Define("storm", s.work, &Options{MaxAttempts: 1000, Backoff: func(int) time.Duration { return 0 }})
	cfg := func() *Config {
		return &Config{Lease: time.Second, Sweep: 100 * time.Millisecond, Queues: map[string]int{"default": 16}, Logger: slog.New(slog.DiscardHandler)}
	}
	s.fixture = setup(t, cfg(), s.d)
	s.pool = dbtest.PoolAt(t, s.pool.Config().ConnString(), func(cfg *pgxpool.Config) { cfg.MaxConns = 60 })
	s.Runner = s.another(cfg(), s.d)
	ids := make([]toolcall.ID, n)
	for i := range ids {
		ids[i] = submit(s.fixture, s.d, in{Label: fmt.Sprint("job ", i)}, nil)
	}
	enough := make(chan struct{})
	var raging sync.WaitGroup
	raging.Go(func() { s.rages(ids, enough) })
	s.start(s.Runner)
	s.start(s.another(cfg(), s.d))
	s.eventually("all jobs have ended", func() bool {
		return get[int](s.fixture, `select count(*)::int from txonce.job where finished_at is null`) == 0
	})
	close(enough)
	raging.Wait()
	s.oneEach(n)
	// And once more, of jobs that have ended.
	s.exec(`update txonce_river.river_job set state = 'available', finalized_at = null, scheduled_at = now(), max_attempts = attempt + 1 where state <> 'running'`)
	s.eventually("all doorbells are down", func() bool {
		s.exec(`update txonce_river.river_job set state = 'available', scheduled_at = now() where state in ('scheduled', 'retryable')`) // put off by those who came late
		return get[int](s.fixture, `select count(*)::int from txonce_river.river_job where state <> 'completed'`) == 0
	})
	s.oneEach(n)
	t.Logf("%d jobs, %d attempts: %d failed, %d lost their job; %d rescues, %d doorbells too many, %d retries, %d leases ended",
		n, s.attempts.Load(), s.failed.Load(), s.stale.Load(), s.rescued.Load(), s.doubled.Load(), s.retried.Load(), s.lapsed.Load())
}

// oneEach checks that each job has succeeded, with one effect, which is that of the attempt that ended it.
func (s *storm) oneEach(n int) {
	s.t.Helper()
	var ended, effects, right int
	if err := s.pool.QueryRow(s.t.Context(), `select (select count(*) from txonce.job where state = 'succeeded')::int, (select count(*) from effect)::int,
		(select count(*) from txonce.job j join effect e on e.label = convert_from(j.args, 'UTF8')::json->>'label' and e.by = j.attempts::text)::int`).Scan(&ended, &effects, &right); err != nil {
		s.t.Fatal(err)
	}
	if ended != n || effects != n || right != n {
		s.t.Errorf("%d jobs have succeeded, with %d effects, %d of them those of their last attempts; want %d of each", ended, effects, right, n)
	}
}
