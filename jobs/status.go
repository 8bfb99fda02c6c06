package jobs

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river/rivertype"

	"github.com/txonce/txonce/toolcall"
)

// Status says how far a job of the scope has come. It delays nobody. A job whose doorbell was cancelled in the queue, whose
// deadline has passed, or whose worker died in the last attempt, is ended by whoever asks first. The errors are ErrNotFound
// and those of the database.
func (r *Runner) Status(ctx context.Context, scope string, id toolcall.ID) (toolcall.Status, error) {
	read, err := r.read(ctx, scope, id)
	if err != nil {
		return toolcall.Status{}, err
	}
	if read.unfinished() && !read.live && r.client.Load() != nil {
		if settled, err := r.settleOne(ctx, read); err != nil {
			return toolcall.Status{}, err
		} else if settled {
			if read, err = r.read(ctx, scope, id); err != nil {
				return toolcall.Status{}, err
			}
		}
	}
	if read.synchronous && !read.unfinished() { // what can be seen may not have reached its standby
		if _, err := r.pool.Exec(ctx, sqlConfirm); err != nil || ctx.Err() != nil {
			return toolcall.Status{}, fmt.Errorf("%w: no standby has confirmed the end of the job", explain(ctx, errors.Join(err, ctx.Err())))
		}
	}
	return read.status, nil
}

// reading is a job's row.
type reading struct {
	status                     toolcall.Status
	bell                       int64
	live, overdue, synchronous bool
}

func (r *reading) unfinished() bool {
	return r.status.State == toolcall.StateQueued || r.status.State == toolcall.StateRunning
}

func (r *Runner) read(ctx context.Context, scope string, id toolcall.ID) (*reading, error) {
	var (
		job                                                     toolcall.JobStatus
		out                                                     = &reading{status: toolcall.Status{ID: id, Job: &job}}
		answer                                                  []byte
		finished, created, started, runAt, deadline, progressAt int64
		fraction                                                *float32
		message                                                 string
		hung                                                    *int64
	)
	s := &out.status
	err := r.pool.QueryRow(ctx, r.sql.status, uuidOf(id), scope).Scan(&s.Tool, &s.State, &answer, &finished, &created, &started, &runAt, &deadline,
		&job.Attempts, &job.MaxAttempts, &job.CancelRequested, &fraction, &message, &progressAt, &hung, &out.live, &out.overdue, &out.synchronous, nil)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, ErrNotFound
	case err != nil:
		return nil, explain(ctx, err)
	}
	if hung != nil {
		out.bell = *hung
	}
	s.FinishedAt, job.SubmittedAt, job.StartedAt, job.Deadline = timeOf(finished), timeOf(created), timeOf(started), timeOf(deadline)
	switch s.State {
	case toolcall.StateQueued:
		job.NextAttemptAt = timeOf(runAt)
	case toolcall.StateRunning:
		if fraction != nil {
			job.Progress = &toolcall.Progress{Fraction: float64(*fraction), Message: message, At: timeOf(progressAt)}
		}
	case toolcall.StateSucceeded:
		s.Answer = answer
	case toolcall.StateFailed:
		if s.Failure, err = decodeFailure(answer); err != nil {
			return nil, fmt.Errorf("jobs: the failure of job %s cannot be read: %w", id, err)
		}
	}
	return out, nil
}

// settleOne ends a job that is over without our code, as the sweeper would later. It reports whether anything may have changed.
func (r *Runner) settleOne(ctx context.Context, read *reading) (bool, error) {
	over := read.overdue || read.status.Job.CancelRequested
	if !over && read.status.State == toolcall.StateRunning {
		over = read.status.Job.Attempts >= read.status.Job.MaxAttempts
	}
	if !over {
		row, err := r.client.Load().JobGet(ctx, read.bell)
		if err != nil && !errors.Is(err, rivertype.ErrNotFound) {
			return false, explain(ctx, err)
		}
		over = err == nil && cancelledThere(row)
	}
	if !over {
		return false, nil
	}
	err := pgx.BeginFunc(ctx, r.pool, func(tx pgx.Tx) error { return r.lookAt(ctx, tx, read.status.ID) })
	if err != nil {
		return false, explain(ctx, err)
	}
	return true, nil
}
