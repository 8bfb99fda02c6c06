package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/riverqueue/river"

	"github.com/txonce/txonce/toolcall"
)

// conclude writes down how an attempt ended, and says what becomes of its doorbell. Should that not be possible, the lease
// runs out, and the sweeper finds the job.
func (r *Runner) conclude(ctx context.Context, a *attempt, err error) error {
	if err == nil {
		return nil
	}
	stopping := errors.Is(context.Cause(ctx), ErrStopping)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	log := r.log.With("kind", a.def.kind, "job", a.id, "attempt", a.number)
	failure, failed := failureIn(err)
	switch {
	case errors.Is(err, ErrLeaseLost): // whatever it says now is of no account
		log.WarnContext(ctx, "jobs: another attempt has taken the job over; this one ends without effect", "error", err)
		return river.JobSnooze(duplicate)
	case errors.Is(err, ErrOutcomeUnknown):
		log.ErrorContext(ctx, "jobs: the outcome of a commit stays unknown; the next attempt finds out", "error", err)
		return a.told(err)
	case failed:
		log.InfoContext(ctx, "jobs: a job failed", "code", failure.Code, "error", err)
		return r.end(ctx, a, toolcall.StateFailed, failure, err, river.JobCancel(a.told(err)))
	case errors.Is(err, ErrCancelled):
		log.InfoContext(ctx, "jobs: a job was cancelled")
		return r.end(ctx, a, toolcall.StateCancelled, nil, err, river.JobCancel(ErrCancelled))
	case errors.Is(err, ErrDeadline):
		log.InfoContext(ctx, "jobs: the deadline of a job has passed", "error", err)
		return r.end(ctx, a, toolcall.StateFailed, overdue(), err, river.JobCancel(a.told(err)))
	case stopping && errors.Is(err, ErrStopping): // and not because the work says so
		log.InfoContext(ctx, "jobs: a job is handed back, since the runner stops")
		return r.retry(ctx, a, 1, 0, err, fmt.Errorf("%w: %w", ErrStopping, context.Canceled))
	case a.number >= a.max:
		log.ErrorContext(ctx, "jobs: the last attempt at a job did not succeed", "error", err)
		return r.end(ctx, a, toolcall.StateFailed, exhausted(a.number), err, a.told(err))
	}
	pause := a.def.pause(a.number)
	log.WarnContext(ctx, "jobs: an attempt did not succeed", "error", err, "again_in", pause)
	return r.retry(ctx, a, 0, pause, err, a.told(err))
}

// quiet is an error as River is told of it. River keeps the text in its own row, where nothing of the work belongs, and cannot
// keep one with a zero byte: it would lose the ends of other jobs with it. River's ErrorHandler finds the error inside.
type quiet struct {
	text string
	err  error
}

func (q *quiet) Error() string { return q.text }
func (q *quiet) Unwrap() error { return q.err }

// told is what River is told of an attempt that did not succeed. What looks like an instruction to River is none: this package
// decides.
func (a *attempt) told(err error) error {
	q := &quiet{text: fmt.Sprintf("jobs: attempt %d of %d did not succeed; the job's last_error says why", a.number, a.max)}
	if !errors.As(err, new(*river.JobCancelError)) && !errors.As(err, new(*river.JobSnoozeError)) {
		q.err = err
	}
	return q
}

const settleTimeout = 10 * time.Second

// exhausted and overdue are what callers are told. What went wrong inside is for operators, in last_error and the log.
func exhausted(attempts int) *toolcall.Failure {
	times := "1 attempt"
	if attempts != 1 {
		times = fmt.Sprintf("%d attempts", attempts)
	}
	return &toolcall.Failure{Code: CodeAttemptsExhausted, Message: fmt.Sprintf("The job did not succeed in %s and was given up. Nothing was changed.", times)}
}

func overdue() *toolcall.Failure {
	return &toolcall.Failure{Code: CodeDeadline, Message: "The job was not done before its deadline and was given up. Nothing was changed."}
}

// retry ends an attempt behind which there will be another one. then is what River is told.
func (r *Runner) retry(ctx context.Context, a *attempt, uncounted int, pause time.Duration, why, then error) error {
	var ended int64
	err := r.write(ctx, func(b *pgx.Batch) {
		b.Queue(r.sql.retry, uuidOf(a.id), a.token, uncounted, brief(why), pause.Seconds(), r.cfg.Lease.Seconds()).Exec(rowsInto(&ended))
	})
	switch {
	case err != nil:
		r.log.WarnContext(ctx, "jobs: the end of an attempt could not be written down; the job runs again when its lease is over", "job", a.id, "error", err)
		return errors.Join(then, explain(ctx, err))
	case ended == 0:
		return river.JobSnooze(duplicate) // it is another attempt's by now
	}
	return &laterError{then, pause}
}

// end ends the job without a result. then is what River is told.
func (r *Runner) end(ctx context.Context, a *attempt, state toolcall.State, failure *toolcall.Failure, why, then error) error {
	answer, err := encodeFailure(failure)
	if err != nil {
		return err
	}
	var ended int64
	err = r.write(ctx, func(b *pgx.Batch) {
		b.Queue(r.sql.end, uuidOf(a.id), a.token, string(state), answer, brief(why)).Exec(rowsInto(&ended))
		if a.held {
			b.Queue(r.sql.let, uuidOf(a.id))
		}
	})
	switch {
	case err != nil:
		r.log.WarnContext(ctx, "jobs: the end of a job could not be written down; it runs again when its lease is over", "job", a.id, "error", err)
		return explain(ctx, err)
	case ended == 0:
		return river.JobSnooze(duplicate) // it is another attempt's by now
	}
	return then
}

// write commits what queue queues, in one round trip.
func (r *Runner) write(ctx context.Context, queue func(b *pgx.Batch)) error {
	b := &pgx.Batch{}
	b.Queue("begin isolation level read committed")
	queue(b)
	b.Queue("commit")
	conn, err := r.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer release(ctx, conn)
	return conn.SendBatch(ctx, b).Close()
}

func rowsInto(n *int64) func(pgconn.CommandTag) error {
	return func(tag pgconn.CommandTag) error {
		*n = tag.RowsAffected()
		return nil
	}
}

func encodeFailure(failure *toolcall.Failure) ([]byte, error) {
	if failure == nil {
		return []byte{}, nil
	}
	return encode(failure)
}

func decodeFailure(raw []byte) (*toolcall.Failure, error) {
	failure := &toolcall.Failure{}
	return failure, json.Unmarshal(raw, failure)
}

// longestError keeps a stack trace in a row, and not a dump.
const longestError = 8 << 10

// brief is the error as Postgres can keep it.
func brief(err error) string { return clip(err.Error(), longestError) }
