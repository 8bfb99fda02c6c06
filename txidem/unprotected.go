package txidem

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// unprotected runs the handler in a plain transaction (Policy.Disabled): no lock, no record, no replay.
func (s *Store) unprotected(ctx context.Context, id *identity, h handler) (outcome, error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return outcome{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	c := newClaim(conn)
	defer c.giveBack(ctx)
	if c.tx, err = conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: id.policy.Isolation, AccessMode: pgx.ReadWrite}); err != nil {
		return outcome{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	queued := &pgx.Batch{}
	answer, err := handle(ctx, id, c, queued, h)
	if err = c.check(err, id.policy); errors.Is(err, errEscaped) {
		err = ErrHandlerEndedTx
	}
	if err != nil {
		return outcome{}, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), id.policy.CommitTimeout)
	defer cancel()
	v := &verdict{}
	v.watch(queued)
	v.queueCommit(queued)
	err = conn.SendBatch(ctx, queued).Close()
	switch {
	case v.escaped:
		return outcome{}, ErrHandlerEndedTx
	case !v.committed():
		return outcome{}, c.refused(id, v, err)
	}
	return outcome{raw: answer}, nil
}
