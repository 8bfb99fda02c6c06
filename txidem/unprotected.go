package txidem

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// unprotected runs the handler in a plain transaction (Policy.Disabled): no lock, no record, no replay.
func (s *Store) unprotected(ctx context.Context, id *identity, h handler) (outcome, error) {
	s.log.WarnContext(ctx, "txidem: a call runs without protection, by Policy.Disabled", "tool", id.tool, "call", id.ID, "unprotected", true)
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return outcome{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	c := &claim{conn: conn, token: newToken(), sent: time.Now()}
	defer c.giveBack(ctx)
	if c.tx, err = conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: id.policy.Isolation, AccessMode: pgx.ReadWrite}); err != nil {
		return outcome{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	queued := &pgx.Batch{}
	answer, err := handle(ctx, id, c, queued, h)
	if err = c.check(err, id.policy); err != nil {
		return outcome{}, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), id.policy.CommitTimeout)
	defer cancel()
	var commit pgconn.CommandTag
	queueCommit(queued, &commit)
	if err := conn.SendBatch(ctx, queued).Close(); err != nil {
		if c.status() == txLost {
			err = c.lost(id, err)
		}
		return outcome{}, err
	}
	return outcome{raw: answer}, nil
}
