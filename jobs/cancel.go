package jobs

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river/rivertype"

	"github.com/txonce/txonce/toolcall"
)

// Cancel cancels a job of the scope. One that waits ends at once. One that runs is told by its context, at once where River
// can notify its worker and within a quarter of a lease everywhere, and ends when its attempt does; it never commits after
// that. It returns the status behind the request: StateCancelled, or StateRunning with CancelRequested set. The errors are
// ErrNotFound, ErrFinished for a job that has ended, with its status, ErrBusy, and those of the database.
func (r *Runner) Cancel(ctx context.Context, scope string, id toolcall.ID) (toolcall.Status, error) {
	client := r.client.Load()
	if client == nil {
		return toolcall.Status{}, ErrNoClient
	}
	var finished bool
	err := pgx.BeginFunc(ctx, r.pool, func(tx pgx.Tx) error {
		var state, kind string
		var hung *int64
		var live bool
		if _, err := tx.Exec(ctx, `select set_config('lock_timeout', '5000', true)`); err != nil {
			return err
		}
		err := tx.QueryRow(ctx, r.sql.cancelLook, uuidOf(id), scope).Scan(&state, &kind, &hung, &live)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return ErrNotFound
		case hasCode(err, codeLockTimeout):
			return ErrBusy
		case err != nil:
			return err
		}
		b := &pgx.Batch{}
		switch toolcall.State(state) {
		case toolcall.StateQueued:
			b.Queue(r.sql.cancelEnd, uuidOf(id))
			b.Queue(r.sql.let, uuidOf(id))
		case toolcall.StateRunning:
			if live {
				b.Queue(r.sql.cancelAsk, uuidOf(id))
				break
			}
			b.Queue(r.sql.cancelEnd, uuidOf(id))
			b.Queue(r.sql.let, uuidOf(id))
		default:
			finished = true
			return nil
		}
		if err := tx.SendBatch(ctx, b).Close(); err != nil {
			return err
		}
		if hung == nil {
			return nil
		}
		if _, err := client.JobCancelTx(ctx, tx, *hung); err != nil && !errors.Is(err, rivertype.ErrNotFound) {
			return err
		}
		return nil
	})
	if err != nil {
		if errors.Is(err, ErrNotFound) || errors.Is(err, ErrBusy) {
			return toolcall.Status{}, err
		}
		return toolcall.Status{}, explain(ctx, err)
	}
	status, err := r.Status(ctx, scope, id)
	if err == nil && finished {
		err = ErrFinished
	}
	return status, err
}
