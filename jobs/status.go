package jobs

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/txonce/txonce/toolcall"
)

// Status says how far a job of the scope has come. It delays nobody. A job whose doorbell was cancelled in the queue, whose
// deadline has passed, or whose worker died in the last attempt, is ended by whoever asks first. The errors are ErrNotFound
// and those of the database.
func (r *Runner) Status(ctx context.Context, scope string, id toolcall.ID) (toolcall.Status, error) {
	statuses, err := r.Statuses(ctx, []toolcall.Ask{{Scope: scope, ID: id}})
	switch {
	case err != nil:
		return toolcall.Status{}, err
	case statuses[0].State == toolcall.StateNone:
		return toolcall.Status{}, ErrNotFound
	}
	return statuses[0], nil
}

// Statuses is Status for many jobs at once, in the order of the asks: one round trip for all that have ended or have a worker,
// two for those that wait. What a scope does not have is StateNone; on a standby, which may not have heard of a job yet, that is
// ErrUnavailable. It makes the runner a [toolcall.Source].
func (r *Runner) Statuses(ctx context.Context, asks []toolcall.Ask) ([]toolcall.Status, error) {
	found, err := r.read(ctx, asks)
	if err != nil {
		return nil, err
	}
	over, err := r.overUnseen(ctx, found)
	if err != nil {
		return nil, err
	}
	if len(over) > 0 {
		for _, id := range over {
			if err := r.inTx(ctx, func(tx pgx.Tx) error { return r.lookAt(ctx, tx, id) }); err != nil {
				return nil, explain(ctx, err)
			}
		}
		if found, err = r.read(ctx, asks); err != nil {
			return nil, err
		}
	}
	if err := r.confirm(ctx, found); err != nil {
		return nil, err
	}
	statuses := make([]toolcall.Status, len(asks))
	for i, ask := range asks {
		if read := found[ask]; read != nil {
			statuses[i] = read.status
		} else {
			statuses[i] = toolcall.Status{ID: ask.ID, State: toolcall.StateNone}
		}
	}
	return statuses, nil
}

// Changed returns a channel that is closed when an attempt begins, reports or ends in this process, or a job is cancelled.
func (r *Runner) Changed() <-chan struct{} { return r.changes.Changed() }

// reading is a job's row.
type reading struct {
	status                     toolcall.Status
	bell                       int64
	live, overdue, synchronous bool
}

func (r *reading) unfinished() bool {
	return r.status.State == toolcall.StateQueued || r.status.State == toolcall.StateRunning
}

func (r *Runner) read(ctx context.Context, asks []toolcall.Ask) (map[toolcall.Ask]*reading, error) {
	ids, scopes := make([]string, 0, len(asks)), make([]string, 0, len(asks))
	seen := make(map[toolcall.Ask]struct{}, len(asks))
	for _, ask := range asks {
		if _, twice := seen[ask]; !twice && isJob(ask.ID) && validScope(ask.Scope) {
			seen[ask] = struct{}{}
			ids, scopes = append(ids, ask.ID.String()), append(scopes, ask.Scope)
		}
	}
	found := make(map[toolcall.Ask]*reading, len(ids))
	if len(ids) == 0 {
		return found, nil
	}
	var broken error
	var standby bool
	b := &pgx.Batch{}
	b.Queue(r.sql.status, ids, scopes).Query(func(rows pgx.Rows) error {
		for rows.Next() && broken == nil {
			var ask toolcall.Ask
			var read *reading
			if ask, read, broken = readRow(rows); broken == nil {
				found[ask] = read
			}
		}
		return rows.Err()
	})
	b.Queue(sqlStandby).QueryRow(func(row pgx.Row) error { return row.Scan(&standby) })
	switch err := r.pool.SendBatch(ctx, b).Close(); {
	case err != nil:
		return nil, explain(ctx, err)
	case broken != nil:
		return nil, broken
	case standby && !all(found, asks):
		return nil, errStandby
	}
	return found, nil
}

// all reports whether each job that may be there was found.
func all(found map[toolcall.Ask]*reading, asks []toolcall.Ask) bool {
	return !slices.ContainsFunc(asks, func(ask toolcall.Ask) bool { return isJob(ask.ID) && validScope(ask.Scope) && found[ask] == nil })
}

// errStandby says that the server that was asked cannot know.
var errStandby = fmt.Errorf("%w: the server is a standby, which may not have the job yet; ask the primary", ErrUnavailable)

func readRow(rows pgx.Rows) (toolcall.Ask, *reading, error) {
	var (
		ask                                                     toolcall.Ask
		id                                                      pgtype.UUID
		job                                                     toolcall.JobStatus
		out                                                     = &reading{status: toolcall.Status{Job: &job}}
		answer                                                  []byte
		finished, created, started, runAt, deadline, progressAt int64
		fraction                                                *float32
		message                                                 string
	)
	s := &out.status
	err := rows.Scan(&id, &ask.Scope, &s.Tool, &s.State, &answer, &finished, &created, &started, &runAt, &deadline,
		&job.Attempts, &job.MaxAttempts, &job.CancelRequested, &fraction, &message, &progressAt, &out.bell, &out.live, &out.overdue, &out.synchronous, nil)
	if err != nil {
		return ask, nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	ask.ID, s.ID = id.Bytes, id.Bytes
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
			return ask, nil, fmt.Errorf("jobs: the failure of job %s cannot be read: %w", s.ID, err)
		}
	}
	return ask, out, nil
}

// overUnseen returns the jobs that are over without our code, and of which nobody has taken notice yet. The sweeper would.
func (r *Runner) overUnseen(ctx context.Context, found map[toolcall.Ask]*reading) (over []toolcall.ID, err error) {
	client := r.client.Load()
	if client == nil {
		return nil, nil
	}
	var bells []int64
	byBell := make(map[int64]toolcall.ID)
	for ask, read := range found {
		job := read.status.Job
		switch {
		case !read.unfinished() || read.live:
		case read.overdue, job.CancelRequested, read.status.State == toolcall.StateRunning && job.Attempts >= job.MaxAttempts:
			over = append(over, ask.ID)
		default:
			bells = append(bells, read.bell)
			byBell[read.bell] = ask.ID
		}
	}
	if len(bells) == 0 {
		return over, nil
	}
	states := []rivertype.JobState{rivertype.JobStateCancelled, rivertype.JobStateRunning}
	list, err := client.JobList(ctx, river.NewJobListParams().IDs(bells...).States(states...).First(min(len(bells), mostListed)))
	if err != nil {
		return nil, explain(ctx, err)
	}
	for _, row := range list.Jobs {
		if cancelledThere(row) {
			over = append(over, byBell[row.ID])
		}
	}
	return over, nil
}

// mostListed is how many rows River lists at a time.
const mostListed = 10_000

// confirm sees to it that what has ended is told only when the standbys that commits wait for have it as well.
func (r *Runner) confirm(ctx context.Context, found map[toolcall.Ask]*reading) error {
	for _, read := range found {
		if read.unfinished() || !read.synchronous {
			continue
		}
		if _, err := r.pool.Exec(ctx, sqlConfirm); err != nil || ctx.Err() != nil { // one is enough for all
			return fmt.Errorf("%w: no standby has confirmed the end of the job", explain(ctx, errors.Join(err, ctx.Err())))
		}
		return nil
	}
	return nil
}
