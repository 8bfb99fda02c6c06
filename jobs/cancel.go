package jobs

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/txonce/txonce/toolcall"
)

// Cancel cancels a job of the scope. One that waits ends at once. One that runs is told by its context, at once where River
// can notify its worker and within a quarter of a lease everywhere, and ends when its attempt does; it never commits after
// that. It returns the status behind the request: StateCancelled, or StateRunning with CancelRequested set. The errors are
// ErrNotFound, ErrFinished for a job that has ended, with its status, ErrBusy, and those of the database.
func (r *Runner) Cancel(ctx context.Context, scope string, id toolcall.ID) (toolcall.Status, error) {
	client := r.client.Load()
	switch {
	case client == nil:
		return toolcall.Status{}, ErrNoClient
	case !isJob(id) || !validScope(scope):
		return toolcall.Status{}, ErrNotFound
	}
	err := r.inTx(ctx, func(tx pgx.Tx) error { return r.cancelTx(ctx, tx, client, scope, id) })
	switch {
	case errors.Is(err, ErrNotFound), errors.Is(err, ErrBusy):
		return toolcall.Status{}, err
	case err != nil && !errors.Is(err, ErrFinished):
		return toolcall.Status{}, explain(ctx, err)
	}
	r.changes.Notify()
	status, lost := r.Status(ctx, scope, id)
	if lost != nil {
		return status, lost
	}
	return status, err
}

func (r *Runner) cancelTx(ctx context.Context, tx pgx.Tx, client *river.Client[pgx.Tx], scope string, id toolcall.ID) error {
	var state toolcall.State
	var hung int64
	var live bool
	b := &pgx.Batch{}
	b.Queue(`select set_config('lock_timeout', '5000', true)`)
	b.Queue(r.sql.cancelLook, uuidOf(id), scope).QueryRow(func(row pgx.Row) error { return row.Scan(&state, &hung, &live) })
	switch err := tx.SendBatch(ctx, b).Close(); {
	case errors.Is(err, pgx.ErrNoRows):
		return ErrNotFound
	case hasCode(err, codeLockTimeout):
		return ErrBusy
	case err != nil:
		return err
	}
	b = &pgx.Batch{}
	switch {
	case state == toolcall.StateRunning && live:
		b.Queue(r.sql.cancelAsk, uuidOf(id))
	case state == toolcall.StateRunning, state == toolcall.StateQueued:
		b.Queue(r.sql.cancelEnd, uuidOf(id))
		b.Queue(r.sql.let, uuidOf(id))
	default:
		return ErrFinished
	}
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return err
	}
	// River tells the worker at once. Should it not know the doorbell any more, the row says it all.
	if _, err := client.JobCancelTx(ctx, tx, hung); err != nil && !errors.Is(err, rivertype.ErrNotFound) {
		return err
	}
	return nil
}
