package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/txonce/txonce/toolcall"
)

// dueJob is a job that has not ended and whose time to be looked at has come.
type dueJob struct {
	id                       toolcall.ID
	kind, queue              string
	priority                 int
	attempts, maxAttempts    int
	bell                     int64
	cancelled, live, overdue bool
	waitUS, lateUS, leaseUS  int64 // until the next attempt is due, since then, until the lease ends
	nowUS                    int64 // by the clock of the database
}

const (
	// sweepBatch is how many jobs one sweep looks at, of those that run and of those that wait.
	sweepBatch = 500
	// longestCheck is the longest time between two looks at a job that waits in a long queue.
	longestCheck = 5 * time.Minute
	// leaderless is how long River may take to find a new leader and to move on what is due.
	leaderless = 30 * time.Second
	// tidyEvery is how many sweeps there are from one removal of what has expired to the next.
	tidyEvery = 15
)

// sweepAlways sweeps at intervals until ctx ends. Behind a sweep that failed it leaves a lease's time: when the database
// comes back, workers renew their leases before anyone takes them for dead.
func (r *Runner) sweepAlways(ctx context.Context) {
	for n := 0; ; n++ {
		err := r.sweep(ctx)
		if err == nil && n%tidyEvery == 0 {
			err = r.tidy(ctx)
		}
		pause := r.cfg.Sweep*3/4 + rand.N(r.cfg.Sweep/2+1) // so that processes do not sweep in step
		if err != nil && ctx.Err() == nil {
			r.log.WarnContext(ctx, "jobs: a sweep failed; it is tried again", "error", err)
			pause = max(pause, r.cfg.Lease)
		}
		if !sleep(ctx, pause) {
			return
		}
	}
}

// sweep looks at jobs whose worker may have died and at those whose doorbell may be gone. Any number of processes may do so at
// the same time.
func (r *Runner) sweep(ctx context.Context) error {
	for _, state := range [...]toolcall.State{toolcall.StateRunning, toolcall.StateQueued} {
		if err := r.inTx(ctx, func(tx pgx.Tx) error { return r.lookAfter(ctx, tx, state) }); err != nil {
			return explain(ctx, err)
		}
	}
	return nil
}

// inTx calls fn in a transaction in which to wait for a row is no error, whatever the default isolation is.
func (r *Runner) inTx(ctx context.Context, fn func(tx pgx.Tx) error) error {
	return pgx.BeginTxFunc(ctx, r.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, fn)
}

func (r *Runner) lookAfter(ctx context.Context, tx pgx.Tx, state toolcall.State) error {
	return r.seeTo(ctx, tx, r.sql.due, string(state), r.names, sweepBatch)
}

// lookAt looks at one job, whether its time has come or not.
func (r *Runner) lookAt(ctx context.Context, tx pgx.Tx, id toolcall.ID) error {
	return r.seeTo(ctx, tx, r.sql.dueOne, uuidOf(id), r.names)
}

// seeTo looks at the jobs that the query gives and holds.
func (r *Runner) seeTo(ctx context.Context, tx pgx.Tx, sql string, args ...any) error {
	due, err := r.due(ctx, tx, sql, args...)
	if err != nil || len(due) == 0 {
		return err
	}
	bells, err := r.bells(ctx, tx, due)
	if err != nil {
		return err
	}
	b, silent := &pgx.Batch{}, []*dueJob(nil)
	for _, j := range due {
		if !r.settle(ctx, b, j, bells[j.bell]) {
			silent = append(silent, j)
		}
	}
	if len(silent) > 0 {
		ids, err := r.hang(ctx, tx, silent)
		if err != nil {
			return err
		}
		for i, j := range silent {
			r.log.InfoContext(ctx, "jobs: a job is rung again: its worker or its doorbell is gone", "kind", j.kind, "job", j.id, "attempts", j.attempts)
			b.Queue(r.sql.ring, uuidOf(j.id), ids[i], r.cfg.Lease.Seconds())
		}
	}
	return tx.SendBatch(ctx, b).Close()
}

func (r *Runner) due(ctx context.Context, tx pgx.Tx, sql string, args ...any) ([]*dueJob, error) {
	rows, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (*dueJob, error) {
		j := &dueJob{}
		var id [16]byte
		err := row.Scan(&id, &j.kind, &j.queue, &j.priority, &j.attempts, &j.maxAttempts, &j.bell, &j.cancelled, &j.live, &j.overdue,
			&j.waitUS, &j.lateUS, &j.leaseUS, &j.nowUS, nil)
		j.id = id
		return j, err
	})
}

// bells reads River's rows of the jobs. Those that are gone are missing.
func (r *Runner) bells(ctx context.Context, tx pgx.Tx, due []*dueJob) (map[int64]*rivertype.JobRow, error) {
	var ids []int64
	for _, j := range due {
		if !j.live {
			ids = append(ids, j.bell)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	list, err := r.client.Load().JobListTx(ctx, tx, river.NewJobListParams().IDs(ids...).First(len(ids)))
	if err != nil {
		return nil, err
	}
	bells := make(map[int64]*rivertype.JobRow, len(list.Jobs))
	for _, row := range list.Jobs {
		bells[row.ID] = row
	}
	return bells, nil
}

// settle queues what becomes of a job, whose row is held: it has ended without our code, or it is well and looked at later.
// It returns false where somebody must be told of it again.
func (r *Runner) settle(ctx context.Context, b *pgx.Batch, j *dueJob, hung *rivertype.JobRow) bool {
	end := func(state toolcall.State, failure *toolcall.Failure, why string) {
		r.log.InfoContext(ctx, "jobs: a job is over without an attempt of its own: "+why, "kind", j.kind, "job", j.id, "attempts", j.attempts)
		answer, _ := encodeFailure(failure) // two strings
		b.Queue(r.sql.endDue, uuidOf(j.id), string(state), answer, "jobs: "+why)
		b.Queue(r.sql.let, uuidOf(j.id))
	}
	later := func(after time.Duration, untilDeadline bool) {
		b.Queue(r.sql.check, uuidOf(j.id), after.Seconds(), untilDeadline)
	}
	late := time.Duration(j.lateUS) * time.Microsecond
	switch {
	case j.live: // its worker sees to deadlines
		later(time.Duration(j.leaseUS)*time.Microsecond, false)
	case j.cancelled:
		end(toolcall.StateCancelled, nil, "it was cancelled, and its worker is gone")
	case hung != nil && cancelledThere(hung):
		end(toolcall.StateCancelled, nil, "its doorbell was cancelled in the queue")
	case j.overdue:
		end(toolcall.StateFailed, overdue(), "its deadline has passed")
	case j.attempts >= j.maxAttempts:
		end(toolcall.StateFailed, exhausted(j.attempts), "the worker of its last attempt is gone")
	case j.waitUS > 0:
		later(time.Duration(j.waitUS)*time.Microsecond+r.cfg.Lease, true)
	default:
		again := r.hangs(hung, late, timeOf(j.nowUS))
		if again == 0 {
			return false
		}
		later(again, true)
	}
	return true
}

// cancelledThere reports whether the doorbell was cancelled. Of one that is being answered that is a wish, and where the
// worker is gone nobody is left to grant it.
func cancelledThere(hung *rivertype.JobRow) bool {
	if hung.State != rivertype.JobStateRunning {
		return hung.State == rivertype.JobStateCancelled
	}
	var wish struct {
		At string `json:"cancel_attempted_at"`
	}
	return json.Unmarshal(hung.Metadata, &wish) == nil && wish.At != ""
}

// hangs says when to look again at a job of which somebody will still hear by this doorbell, soon: 0 where nobody will. What
// River notes by its clients' clocks may be off; a doorbell too many does no harm.
func (r *Runner) hangs(hung *rivertype.JobRow, late time.Duration, now time.Time) time.Duration {
	again := min(max(late/2, r.cfg.Lease), longestCheck)
	switch {
	case hung == nil:
		return 0
	case hung.State == rivertype.JobStateAvailable, hung.State == rivertype.JobStatePending:
		if !hung.ScheduledAt.After(now.Add(r.cfg.Lease)) { // else it is for a client whose clock is ahead, and River waits
			return again
		}
	case hung.State == rivertype.JobStateScheduled, hung.State == rivertype.JobStateRetryable:
		soon := hung.ScheduledAt.Before(now.Add(r.cfg.Lease)) && hung.ScheduledAt.After(now.Add(-leaderless)) // unless nobody leads the queue
		if soon {
			return again
		}
	case hung.State == rivertype.JobStateRunning && hung.AttemptedAt != nil: // the worker is about to begin, or gone
		return max(hung.AttemptedAt.Add(r.cfg.Lease).Sub(now), 0) // by the clock of the database
	}
	return 0
}

// tidy removes jobs whose retention is over, and lets records go that wait for jobs that are gone.
func (r *Runner) tidy(ctx context.Context) error {
	for _, sql := range [...]string{r.sql.expire, r.sql.orphans} {
		for {
			tag, err := r.pool.Exec(ctx, sql, sweepBatch)
			if err != nil {
				return fmt.Errorf("%w (while removing what has expired)", explain(ctx, err))
			}
			if tag.RowsAffected() < sweepBatch {
				break
			}
		}
	}
	return nil
}
