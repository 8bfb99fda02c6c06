package txidem

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// errLost says that a rival has the call: its record is there, or its claim.
var errLost = errors.New("txidem: lost the race")

// finish is turn 3: what the handler queued, the record, COMMIT. The caller's context does not end it: a handler that
// has returned is committed, and a caller who left finds the answer on the next try (R09).
func (s *Store) finish(ctx context.Context, id *identity, c *claim, b *pgx.Batch, answer []byte) (*record, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), id.policy.CommitTimeout)
	defer cancel()
	defer id.event.commit(time.Now())

	rec := newRecord(id, c, stateSucceeded, answer)
	var ours error // what became of our own statement, apart from those of the handler
	var commit pgconn.CommandTag
	s.queueForget(b, id, c)
	b.Queue(s.sql.record, uuidOf(id), rec.scope, rec.tool, rec.key, rec.fingerprint, rec.canon, rec.fields,
		rec.answer, id.keep.seconds(), id.policy.OnExpired == Refuse).QueryRow(func(row pgx.Row) error {
		ours = row.Scan(&rec.finishedAt)
		return ours
	})
	queueCommit(b, &commit)
	err := c.conn.SendBatch(ctx, b).Close()

	switch {
	case err == nil && commit.String() == "COMMIT":
		return rec, nil
	case s.isRival(ours):
		return nil, errLost
	case isEscape(ours):
		return nil, errEscaped
	case hasCode(ours, codePrivilege):
		return nil, s.explain(ctx, err)
	case err == nil: // COMMIT was answered with ROLLBACK
		return nil, ErrTxAborted
	case c.status() == txLost:
		return nil, c.lost(id, err)
	}
	return nil, err // the server said no, so nothing is committed
}

// lost says what is known when the connection broke in the last round trip.
func (c *claim) lost(id *identity, err error) error {
	switch sent := !pgconn.SafeToRetry(err); {
	case hasCode(err, codeIdleInTxTimeout), !sent && c.idle >= id.policy.IdleInTx:
		return idleTooLong(err) // the server had ended the transaction before it read any of this
	case !sent:
		return fmt.Errorf("%w: %w: the connection was lost before COMMIT was sent: %w", errUndone, ErrUnavailable, err)
	}
	return &OutcomeUnknownError{ID: id.ID, Tool: id.tool, Err: err}
}

// queueForget makes room for the new record where the claim saw an expired one.
func (s *Store) queueForget(b *pgx.Batch, id *identity, c *claim) {
	if c.record != nil {
		b.Queue(s.sql.forget, uuidOf(id), c.record.attempt)
	}
}

func queueCommit(b *pgx.Batch, tag *pgconn.CommandTag) {
	b.Queue("commit").Exec(func(ct pgconn.CommandTag) error {
		*tag = ct
		return nil
	})
}

// isRival reports whether err is a violation of our own primary key, and not of a constraint of the user's.
func (s *Store) isRival(err error) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && pgErr.Code == codeUniqueViolation &&
		pgErr.SchemaName == s.sql.schema && pgErr.TableName == "call"
}
