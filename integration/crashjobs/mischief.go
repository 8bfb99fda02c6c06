package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"

	"github.com/txonce/txonce/integration/internal/lives"
	"github.com/txonce/txonce/jobs"
	"github.com/txonce/txonce/toolcall"
)

// trick is what is done behind the back of the library while it works.
type trick string

const (
	retries    trick = "retried"    // another try is asked for at a doorbell, as in River's UI: also of a job that has ended
	deletes    trick = "deleted"    // a doorbell is deleted
	rings      trick = "rung"       // another doorbell is hung
	rescues    trick = "rescued"    // a doorbell that a worker has is given to others, as River's rescuer does
	cancelsRow trick = "cancelled"  // a doorbell is cancelled in the queue, of a job that may be
	cancelsJob trick = "revoked"    // a job that may be is cancelled by Runner.Cancel
	terminates trick = "terminated" // a session of a process is ended by the server
)

// tricks returns those that are played, some more than once: that often. Plain River workers lose what is cancelled or deleted.
func (p plant) tricks() []trick {
	all := []trick{retries, retries, rings, rings, rescues, rescues, rescues, terminates}
	if p == completeTx {
		return append(all, rescues, rescues, rescues, rescues)
	}
	return append(all, deletes, cancelsRow, cancelsJob)
}

// everySoOften is the pause between two tricks.
const everySoOften = 40 * time.Millisecond

// mischief plays tricks.
type mischief struct {
	*torturer
	rng    *rand.Rand
	client *river.Client[pgx.Tx]
	runner *jobs.Runner
}

func newMischief(t *torturer) (*mischief, error) {
	client, err := river.NewClient(riverpgxv5.New(t.pool), &river.Config{Schema: riverSchema, Logger: logger()})
	if err != nil {
		return nil, err
	}
	runner, err := jobs.New(t.pool, runnerConfig(), define(nil))
	return &mischief{torturer: t, rng: rand.New(rand.NewPCG(t.o.seed, 1)), client: client, runner: runner}, err
}

// play plays tricks until ctx ends.
func (t *torturer) play(ctx context.Context) error {
	m, err := newMischief(t)
	if err != nil {
		return err
	}
	all := t.o.plant.tricks()
	for lives.Pause(ctx, everySoOften) == nil {
		which := all[m.rng.IntN(len(all))]
		done, err := m.play(ctx, which)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("mischief, %s: %w", which, err)
		case done:
			t.mu.Lock()
			t.history.tricks[which]++
			t.mu.Unlock()
		}
	}
	return nil
}

// The rows that tricks are played on.
const (
	sqlAnyBell      = `select id from txonce_river.river_job where kind = $1 and state <> 'running' order by random() limit 1`
	sqlBellOfUndone = `
select b.id from txonce_river.river_job b
  join txonce.job j on j.id = (b.args->>'job')::uuid
 where b.state <> 'running' and j.finished_at is null and j.kind = $1 order by random() limit 1`
	sqlBellToCancel = `
select b.id from txonce_river.river_job b
  join txonce.job j on j.id = (b.args->>'job')::uuid
 where j.finished_at is null and j.kind = $1 and convert_from(j.args, 'UTF8')::json->>'kind' = 'cancels' order by random() limit 1`
	sqlAnyJob      = `select id from txonce.job where kind = $1 order by random() limit 1`
	sqlJobToCancel = `
select id from txonce.job
 where finished_at is null and kind = $1 and convert_from(args, 'UTF8')::json->>'kind' = 'cancels' order by random() limit 1`
	sqlTerminate = `
select pg_terminate_backend(pid)
  from (select pid from pg_stat_activity
         where datname = current_database() and application_name = $1 order by random() limit 1) one`

	// sqlRescue does what the rescuer and the scheduler behind it do, without their pauses.
	sqlRescue = `
update txonce_river.river_job
   set state = 'available', scheduled_at = now(),
       errors = array_append(errors, jsonb_build_object('at', now(), 'attempt', attempt, 'error', 'rescued', 'trace', ''))
 where id = (select id from txonce_river.river_job where state = 'running' and kind = $1 order by random() limit 1) and state = 'running'`
)

// play plays one trick, and reports whether there was something to play it on.
func (m *mischief) play(ctx context.Context, which trick) (bool, error) {
	switch which {
	case retries:
		return m.bell(ctx, sqlAnyBell, m.client.JobRetry)
	case deletes:
		return m.bell(ctx, sqlBellOfUndone, m.client.JobDelete)
	case cancelsRow:
		return m.bell(ctx, sqlBellToCancel, m.client.JobCancel)
	case rings:
		id, ok, err := one[[16]byte](ctx, m, sqlAnyJob, jobKind)
		if ok {
			_, err = m.client.Insert(ctx, doorbell{Job: id}, nil)
		}
		return ok, err
	case cancelsJob:
		return m.cancel(ctx)
	case rescues:
		tag, err := m.pool.Exec(ctx, sqlRescue, jobKind)
		return tag.RowsAffected() > 0, err
	}
	_, ok, err := one[bool](ctx, m, sqlTerminate, applicationName)
	return ok, err
}

// bell does something to a doorbell, unless that is gone or has just been given to a worker.
func (m *mischief) bell(ctx context.Context, sql string, do func(context.Context, int64) (*rivertype.JobRow, error)) (bool, error) {
	id, ok, err := one[int64](ctx, m, sql, jobKind)
	if !ok {
		return false, err
	}
	_, err = do(ctx, id)
	if errors.Is(err, rivertype.ErrNotFound) || errors.Is(err, rivertype.ErrJobRunning) {
		return false, nil
	}
	return true, err
}

// cancel cancels a job. What is said then must be true in the end.
func (m *mischief) cancel(ctx context.Context) (bool, error) {
	id, ok, err := one[[16]byte](ctx, m, sqlJobToCancel, jobKind)
	if !ok {
		return false, err
	}
	status, err := m.runner.Cancel(ctx, jobScope, id)
	if err == nil && status.State == toolcall.StateCancelled {
		m.mu.Lock()
		m.history.cancelled[toolcall.ID(id).String()] = true
		m.mu.Unlock()
	}
	if errors.Is(err, jobs.ErrFinished) || errors.Is(err, jobs.ErrBusy) {
		return false, nil
	}
	return true, err
}

// one reads one value, if there is one.
func one[T any](ctx context.Context, m *mischief, sql string, args ...any) (v T, ok bool, err error) {
	err = m.pool.QueryRow(ctx, sql, args...).Scan(&v)
	if errors.Is(err, pgx.ErrNoRows) {
		return v, false, nil
	}
	return v, err == nil, err
}

const (
	sqlRingAll = `
update txonce_river.river_job set state = 'available', scheduled_at = now(), finalized_at = null, max_attempts = max_attempts + 1
 where kind = $1 and state <> 'available'`
	sqlAllJobs = `select id from txonce.job where kind = $1`
	sqlRinging = `select count(*) from txonce_river.river_job where kind = $1 and state not in ('completed', 'cancelled', 'discarded')`
)

// ringAll has every doorbell ring once more, and a new one for each job, and waits until they have been heard.
func (t *torturer) ringAll(ctx context.Context) error {
	m, err := newMischief(t)
	if err != nil {
		return err
	}
	if _, err := t.pool.Exec(ctx, sqlRingAll, jobKind); err != nil {
		return err
	}
	rows, _ := t.pool.Query(ctx, sqlAllJobs, jobKind)
	ids, err := pgx.CollectRows(rows, pgx.RowTo[[16]byte])
	if err != nil {
		return err
	}
	for _, id := range ids {
		if _, err := m.client.Insert(ctx, doorbell{Job: id}, nil); err != nil {
			return err
		}
	}
	for end := time.Now().Add(t.o.stuck); ; {
		ringing, _, err := one[int](ctx, m, sqlRinging, jobKind)
		if err != nil || ringing == 0 {
			return err
		}
		if time.Now().After(end) {
			t.complain("%v after all jobs had ended, %d doorbells ring on", t.o.stuck, ringing)
			return nil
		}
		if err := lives.Pause(ctx, everySoOften); err != nil {
			return err
		}
	}
}
