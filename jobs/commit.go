package jobs

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/internal/handlertx"
	"github.com/txonce/txonce/toolcall"
)

// commit commits what the work came to, together with the job's end. The work may have taken hours, so what nothing is left
// of is tried again, until Options.CommitTimeout: a connection that broke, a repeat that Postgres asks for.
func (r *Runner) commit(ctx context.Context, a *attempt, half commit) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.def.opts.CommitTimeout)
	defer cancel()
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := r.commitOnce(ctx, a, half)
		var undone *undoneError
		if !errors.As(err, &undone) || !sleep(ctx, pause) {
			return err
		}
	}
}

const (
	firstPause   = 20 * time.Millisecond
	longestPause = time.Second
)

// undoneError says that nothing is left of a try to commit, and that the next one may fare better.
type undoneError struct{ err error }

func (e *undoneError) Error() string { return e.err.Error() }
func (e *undoneError) Unwrap() error { return e.err }

// commitOnce runs the commit half in a transaction: as many round trips as a bare one has.
func (r *Runner) commitOnce(ctx context.Context, a *attempt, half commit) error {
	conn, err := r.pool.Acquire(ctx)
	if err != nil {
		return &undoneError{explain(ctx, err)}
	}
	defer release(ctx, conn)
	sent := time.Now()
	tx, err := r.open(ctx, conn, a)
	if err != nil {
		return err
	}
	call, queued := a.call(), &pgx.Batch{}
	guarded, watch := handlertx.New(call, conn.Conn(), tx, sent)
	var answer []byte
	returned := a.heeds(ctx)
	err = apart(func() (err error) {
		defer func() {
			call.Finish(nil)
			watch.End()
		}()
		if answer, err = half(toolcall.NewContext(ctx, call), guarded); err == nil {
			call.Finish(queued)
		}
		return err
	})
	returned()
	if err := left(ctx, conn, watch, err); err != nil {
		return err
	}
	if len(answer) > a.def.opts.MaxAnswer {
		return left(ctx, conn, watch, tooLarge(len(answer), a.def.opts.MaxAnswer))
	}
	return r.finish(ctx, conn, a, queued, answer)
}

// open begins the transaction and takes the job's row in it, if the job is still the attempt's.
func (r *Runner) open(ctx context.Context, conn *pgxpool.Conn, a *attempt) (pgx.Tx, error) {
	timeout := a.def.opts.CommitTimeout
	ms, probe := handlertx.SettingArgs(timeout)
	var mine, cancelled, overdue bool
	b := &pgx.Batch{}
	b.BeginTx(pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite})
	b.Queue(r.sql.open, a.token.String(), strconv.FormatInt(timeout.Milliseconds(), 10), ms, probe)
	b.Queue(r.sql.lock, uuidOf(a.id), a.token).QueryRow(func(row pgx.Row) error { return row.Scan(&mine, &cancelled, &overdue) })
	b.Queue(r.sql.restore)
	results := conn.SendBatch(ctx, b)
	tx := results.Tx()
	switch err := results.Close(); {
	case errors.Is(err, pgx.ErrNoRows): // it was removed
		return nil, ErrLeaseLost
	case err != nil:
		return nil, &undoneError{explain(ctx, err)}
	case !mine:
		return nil, ErrLeaseLost
	case cancelled:
		return nil, ErrCancelled
	case overdue:
		return nil, ErrDeadline
	}
	return tx, nil
}

// left looks at what the commit half left behind: err is what it returned, and the state of the transaction what it did.
func left(ctx context.Context, conn *pgxpool.Conn, watch *handlertx.Watch, err error) error {
	lost := conn.Conn().IsClosed()
	switch {
	case watch.Ended(), !lost && conn.Conn().PgConn().TxStatus() == 'I', err != nil && another(ctx, conn):
		return fmt.Errorf("%w (%w)", endedTx(), ErrEndedTx)
	case hasCode(err, codeSerialization, codeDeadlock):
		return &undoneError{err}
	case lost && ctx.Err() == nil:
		if _, failed := failureIn(err); !failed {
			return &undoneError{fmt.Errorf("%w: the connection was lost in the commit function: %w", ErrUnavailable, errors.Join(err))}
		}
	case err == nil && !lost && conn.Conn().PgConn().TxStatus() == 'E':
		return ErrTxAborted
	}
	if err == nil && lost {
		return fmt.Errorf("%w: Options.CommitTimeout is over: %w", ErrUnavailable, context.Cause(ctx))
	}
	return err
}

// another reports whether a commit function that returned an error had ended its transaction and begun another: what it
// committed stays. Behind one that returned none, sqlDone finds out. One that is aborted cannot be asked.
func another(ctx context.Context, conn *pgxpool.Conn) bool {
	if conn.Conn().IsClosed() || conn.Conn().PgConn().TxStatus() != 'T' {
		return false
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	_, err := conn.Exec(ctx, sqlGuard)
	return hasCode(err, codeNoSetting, codeBadText)
}

func endedTx() error {
	return Fail(CodeEndedTx, "The worker broke a rule; what the job has done has to be found out by hand.")
}

func tooLarge(size, limit int) error {
	return fmt.Errorf("%w (%w: %d bytes, the limit is %d)", Fail(CodeResultTooLarge, "The result of the job is too large to be kept. Nothing was changed; submit a job that asks for less."), ErrAnswerTooLarge, size, limit)
}

// finish is the last round trip: what the commit function queued, the end of the job, the call's record, COMMIT.
func (r *Runner) finish(ctx context.Context, conn *pgxpool.Conn, a *attempt, b *pgx.Batch, answer []byte) error {
	var committed, escaped bool
	var ours error // of our own statement, from the server
	for _, q := range b.QueuedQueries {
		q.Fn = r.quietly(a, q.Fn, &escaped)
	}
	b.Queue(r.sql.done, uuidOf(a.id), answer).QueryRow(func(row pgx.Row) error {
		ours = row.Scan(nil)
		return ours
	})
	if a.held {
		b.Queue(r.sql.let, uuidOf(a.id))
	}
	b.Queue("commit").Exec(func(tag pgconn.CommandTag) error {
		committed = tag.String() == "COMMIT"
		return nil
	})
	err := conn.SendBatch(ctx, b).Close()
	switch {
	case committed:
		return nil
	case escaped, hasCode(ours, codeNoSetting, codeBadText):
		return fmt.Errorf("%w (%w): %w", endedTx(), ErrEndedTx, errors.Join(err))
	case hasCode(ours, codeNotOurs):
		return ErrLeaseLost
	case hasCode(ours, codeOverdue):
		return ErrDeadline
	case conn.Conn().IsClosed() || err == nil || conn.Conn().PgConn().TxStatus() == 'I' && !errors.As(err, new(*pgconn.PgError)):
		return r.resolve(ctx, a, errors.Join(err)) // in the last case it has ended, and the server did not say no
	case hasCode(err, codeSerialization, codeDeadlock):
		return &undoneError{err}
	}
	return err
}

// quietly reads the result of what the commit function queued, in its place, so that a callback that fails or panics does not
// keep the answer of COMMIT from being read.
func (r *Runner) quietly(a *attempt, read func(pgx.BatchResults) error, escaped *bool) func(pgx.BatchResults) error {
	if read == nil {
		read = func(results pgx.BatchResults) error {
			tag, err := results.Exec()
			*escaped = *escaped || handlertx.EndsTx(tag)
			return err
		}
	}
	return func(results pgx.BatchResults) (err error) {
		defer func() {
			if v := recover(); v != nil {
				err = fmt.Errorf("panic: %v", v)
			}
			if err != nil && !errors.As(err, new(*pgconn.PgError)) {
				r.log.Error("jobs: a result callback of AtFinish failed; it cannot fail the job", "kind", a.def.kind, "job", a.id, "error", err)
				err = nil
			}
		}()
		return read(results)
	}
}

// resolve finds out what became of a COMMIT whose answer was lost. The row is free when the old transaction has ended.
func (r *Runner) resolve(ctx context.Context, a *attempt, lost error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.def.opts.CommitTimeout)
	defer cancel()
	var state string
	var token pgtype.UUID
	err := r.side.With(ctx, func(conn *pgx.Conn) error {
		b := &pgx.Batch{}
		b.Queue("begin isolation level read committed")
		b.Queue(`select set_config('lock_timeout', $1::text, true)`, strconv.FormatInt(a.def.opts.CommitTimeout.Milliseconds(), 10))
		b.Queue(r.sql.settled, uuidOf(a.id)).QueryRow(func(row pgx.Row) error { return row.Scan(&state, &token) })
		b.Queue(sqlConfirm)
		b.Queue("commit")
		return conn.SendBatch(ctx, b).Close()
	})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return ErrLeaseLost
	case err != nil:
		return fmt.Errorf("%w: %w: %w", ErrOutcomeUnknown, lost, err)
	case token != a.token:
		return ErrLeaseLost
	case state == string(toolcall.StateSucceeded):
		return nil
	case state == string(toolcall.StateRunning):
		return &undoneError{fmt.Errorf("%w: the connection was lost in COMMIT, nothing was committed: %w", ErrUnavailable, lost)}
	}
	return ErrLeaseLost
}

// undoTimeout bounds what is done for a connection that is given back.
const undoTimeout = 5 * time.Second

// release rolls back what is open and gives the connection back.
func release(ctx context.Context, conn *pgxpool.Conn) {
	if !conn.Conn().IsClosed() && conn.Conn().PgConn().TxStatus() != 'I' {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
		defer cancel()
		if _, err := conn.Exec(ctx, "rollback"); err != nil {
			_ = conn.Conn().Close(ctx) // never give this one out again
		}
	}
	conn.Release()
}

// sleep waits, and reports whether ctx lasted.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
