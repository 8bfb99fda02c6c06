package main

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/toolcall"
	"github.com/txonce/txonce/txidem"
)

// inTx makes the call in a transaction of the worker's, and repeats that when Postgres asks for it, as callers of RunTx
// must. Some first find out how the call ended, as those must who lost the answer of their COMMIT.
func (h *handler) inTx(ctx context.Context) (result, error) {
	if h.call.Resolve {
		status, err := h.worker.store.Resolve(ctx, h.request())
		if err != nil || status.State == toolcall.StateSucceeded {
			return result{Raw: status.Answer, ID: status.ID, Replayed: true}, err
		}
	}
	for n := 1; ; n++ {
		out, err := h.once(ctx)
		if n == attempts || classOf(err) != conflict {
			return out, err
		}
	}
}

// once is one transaction of the worker's.
func (h *handler) once(ctx context.Context) (result, error) {
	tx, err := h.worker.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: h.call.Isolation})
	if err != nil {
		return result{}, err
	}
	defer func() { _ = tx.Rollback(ctx) }() // after a commit it does nothing
	out, answered := txidem.RunTx(ctx, tx, h.worker.store, h.request(), h.run)
	var failure *toolcall.Failure
	if answered != nil && !errors.As(answered, &failure) {
		return out, answered
	}
	if answered == nil && !out.Replayed {
		if _, err := tx.Exec(ctx, sqlCountOuter, h.call.Bucket); err != nil {
			return out, err
		}
	}
	if err := h.commit(ctx, tx); err != nil {
		return result{ID: out.ID}, err
	}
	return out, answered
}

// commit ends the transaction, behind a statement that outlives the worker if that is to die there.
func (h *handler) commit(ctx context.Context, tx pgx.Tx) error {
	if !h.worker.reaper.wants(commitSlow) {
		return tx.Commit(ctx)
	}
	b := &pgx.Batch{}
	b.Queue(sqlSlow)
	b.Queue("commit")
	return tx.SendBatch(ctx, b).Close()
}
