package jobs

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/txonce/txonce/toolcall"
)

// attempt is one try at a job: what the job's row says, and the token that makes this attempt the only one that can end it.
type attempt struct {
	id          toolcall.ID
	token       pgtype.UUID
	def         *definition
	scope       string
	args        []byte
	number, max int
	submittedAt time.Time
	held        bool          // a call's record waits for the job
	left        time.Duration // until the deadline; 0 for none

	cancel context.CancelCauseFunc
	wake   chan<- struct{} // tells that there is something to write

	mu        sync.Mutex
	said      *toolcall.Progress // what the work reported last
	unsaid    bool               // and that it has not been written
	under     context.Context    // of the user's function that is called
	deafSince time.Time          // when that was seen to have ended
}

// duplicate is how long a doorbell is put off that rang for a job that another attempt has. Should that one die, the sweeper
// hangs a new one.
const duplicate = time.Minute

// answer is what happens when a doorbell rings. What it returns is what becomes of the doorbell: nil takes it down, which is
// for jobs that have ended and no others.
func (r *Runner) answer(ctx context.Context, def *definition, id toolcall.ID) error {
	a, err := r.begin(ctx, def, id)
	if err != nil || a == nil {
		return err
	}
	attemptCtx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { cancel(causeOf(ctx)) })()
	if ctx.Err() != nil { // at once, and not when a goroutine comes to it
		cancel(causeOf(ctx))
	}
	a.cancel = cancel
	r.beats.hold(a)
	defer r.beats.drop(a)
	r.changes.Notify()
	defer r.changes.Notify()
	return r.conclude(attemptCtx, a, r.perform(attemptCtx, a))
}

// causeOf says why River ended the context.
func causeOf(ctx context.Context) error {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, rivertype.ErrJobCancelledRemotely):
		return ErrCancelled
	case errors.Is(cause, context.DeadlineExceeded):
		return ErrTimeout
	}
	return ErrStopping
}

// found is the row of a job whose doorbell rang.
type found struct {
	kind, scope, state               string
	cancelled, live, overdue, ofCall bool
	attempts, max                    int
	waitUS, leftUS, createdUS        int64
	args                             []byte
}

func (f *found) scan(row pgx.Row) error {
	return row.Scan(&f.kind, &f.scope, &f.state, &f.attempts, &f.max, &f.cancelled, &f.live, &f.overdue, &f.waitUS, &f.leftUS, &f.createdUS, &f.ofCall, &f.args, nil)
}

// begin begins an attempt, or says by its error what becomes of the doorbell. Both are nil when the job has ended.
func (r *Runner) begin(ctx context.Context, def *definition, id toolcall.ID) (*attempt, error) {
	a, f, begun := &attempt{id: id, token: newToken(), def: def}, &found{}, false
	b := &pgx.Batch{}
	b.Queue("begin isolation level read committed")
	b.Queue(sqlQuick)
	b.Queue(r.sql.begin, uuidOf(id), a.token, r.cfg.Lease.Seconds(), def.kind).QueryRow(func(row pgx.Row) error {
		err := f.scan(row)
		if begun = err == nil; errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		return err
	})
	b.Queue("commit")
	conn, err := r.pool.Acquire(ctx)
	if err != nil {
		return nil, explain(ctx, err)
	}
	// From here on a runner that stops waits for the answer: an attempt that has begun unseen would count, and keep its job.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	defer release(ctx, conn)
	switch err := conn.SendBatch(ctx, b).Close(); {
	case hasCode(err, codeLockTimeout): // somebody is committing it
		return nil, river.JobSnooze(r.cfg.Lease)
	case err != nil:
		return nil, explain(ctx, err)
	case !begun:
		return nil, r.turnAway(ctx, conn, a)
	}
	a.scope, a.args, a.number, a.max, a.submittedAt = f.scope, f.args, f.attempts, f.max, timeOf(f.createdUS)
	a.held, a.left = f.ofCall, time.Duration(f.leftUS)*time.Microsecond
	return a, nil
}

// turnAway says what becomes of a doorbell that rang for nothing. What a dead worker left is the sweeper's to settle.
func (r *Runner) turnAway(ctx context.Context, conn *pgxpool.Conn, a *attempt) error {
	f := &found{}
	switch err := f.scan(conn.QueryRow(ctx, r.sql.look, uuidOf(a.id))); {
	case errors.Is(err, pgx.ErrNoRows): // a cancelled doorbell would cancel the job, should it be in the schema of another runner
		r.log.WarnContext(ctx, "jobs: a doorbell rang for a job that is not in this schema; one River schema serves one Config.Schema only", "kind", a.def.kind, "job", a.id)
		return nil
	case err != nil:
		return explain(ctx, err)
	}
	switch toolcall.State(f.state) {
	case toolcall.StateSucceeded, toolcall.StateFailed, toolcall.StateCancelled:
		return nil
	}
	switch {
	case f.kind != a.def.kind:
		return river.JobCancel(fmt.Errorf("%w: job %s is a %q, its doorbell rang for a %q", ErrNotFound, a.id, f.kind, a.def.kind))
	case f.live:
		return river.JobSnooze(duplicate)
	case f.cancelled || f.overdue || f.attempts >= f.max:
		r.log.DebugContext(ctx, "jobs: a job is left to the sweeper to end", "kind", f.kind, "job", a.id)
		return river.JobSnooze(duplicate)
	}
	return river.JobSnooze(max(time.Duration(f.waitUS)*time.Microsecond, time.Second/10)) // its time has not come
}

// perform does the work and commits what it came to.
func (r *Runner) perform(ctx context.Context, a *attempt) error {
	ctx, cancel := context.WithTimeoutCause(ctx, a.def.opts.Timeout, ErrTimeout)
	defer cancel()
	if a.left > 0 {
		ctx, cancel = context.WithTimeoutCause(ctx, a.left, ErrDeadline)
		defer cancel()
	}
	commit, err := a.compute(ctx)
	switch cause := context.Cause(ctx); {
	case cause == nil, errors.Is(cause, ErrStopping) && err == nil: // when the work is done, it is committed
	case err == nil:
		return cause
	case !errors.Is(err, cause):
		return fmt.Errorf("%w: %w", cause, err)
	}
	if err != nil {
		return err
	}
	return r.commit(ctx, a, commit)
}

// compute does the first half, in a goroutine of its own: one that ends (runtime.Goexit) must not take River's with it.
func (a *attempt) compute(ctx context.Context) (c commit, err error) {
	call := a.call()
	call.Finish(nil) // there is no transaction yet that statements could travel in
	defer a.heeds(ctx)()
	err = apart(func() (err error) {
		c, err = a.def.run(toolcall.NewContext(ctx, call), a)
		return err
	})
	return c, err
}

// call is what the work finds in its context. Its downstream keys are the same for each attempt.
func (a *attempt) call() *toolcall.Call {
	return &toolcall.Call{ID: a.id, Scope: a.scope, Tool: a.def.kind, Key: "x:" + a.id.String(), Epoch: "job"}
}

// apart calls one of the user's functions. A panic and the end of the goroutine become errors.
func apart(call func() error) error {
	done := make(chan error, 1)
	go func() {
		returned := false
		defer func() {
			if returned {
				return
			}
			if v := recover(); v != nil {
				done <- fmt.Errorf("%w: %v\n%s", ErrPanicked, v, debug.Stack())
			} else {
				done <- fmt.Errorf("%w: it ended its goroutine", ErrPanicked)
			}
		}()
		err := call()
		if err != nil {
			_ = err.Error() // one that panics, such as a nil pointer in an error, does so here
		}
		returned = true
		done <- err
	}()
	return <-done
}
