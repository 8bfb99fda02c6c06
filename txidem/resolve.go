package txidem

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// errUndone says that the attempt is known to have been rolled back: the call may go round once more.
var errUndone = errors.New("txidem: the attempt was rolled back")

// errStandby says that the server that was asked cannot know.
var errStandby = errors.New("txidem: the server is a standby")

// resolve finds out what became of a COMMIT whose answer was lost. It takes the call's lock on a connection of its own:
// holding it proves that the old transaction has ended. Then the record tells. It returns the record if the attempt
// committed, errUndone if it did not, and lost where that cannot be known: no database, a standby (which grants the
// lock at once and knows nothing of a commit on its way), or a transaction that does not end in time.
//
// The caller's context does not end it: a wrong or missing verdict is what it is there to prevent.
func (s *Store) resolve(ctx context.Context, id *identity, c *claim, lost *OutcomeUnknownError) (*record, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), id.policy.CommitTimeout)
	defer cancel()
	var rec *record
	err := s.reserve.With(ctx, func(conn *pgx.Conn) (err error) {
		rec, err = s.settled(ctx, conn, id)
		if err != nil || rec == nil || rec.attempt != c.token {
			return err
		}
		return confirm(ctx, conn)
	})
	switch {
	case err != nil:
		s.log.ErrorContext(ctx, "txidem: the outcome of a commit stays unknown", "tool", id.tool, "call", id.ID, "lost", lost.Err, "error", err)
		return nil, lost
	case rec == nil && time.Since(c.sent) >= id.keep: // it may have been there, expired and been swept
		return nil, lost
	case rec == nil && c.idle >= id.policy.IdleInTx: // Postgres ended the idle transaction, and said so to nobody
		return nil, idleTooLong(lost.Err)
	case rec == nil || rec.attempt != c.token: // a rival's record would not be there, had ours committed
		return nil, fmt.Errorf("%w: %w: %w", errUndone, ErrUnavailable, lost.Err)
	}
	id.event.Resolved = true
	return rec, nil
}

// settled returns the call's record, or nil, once no transaction of the call is open any more.
func (s *Store) settled(ctx context.Context, conn *pgx.Conn, id *identity) (rec *record, err error) {
	var standby bool
	b := &pgx.Batch{}
	b.Queue("begin isolation level read committed")
	b.Queue(sqlBeforeLock, strconv.FormatInt(id.policy.CommitTimeout.Milliseconds(), 10)).QueryRow(func(row pgx.Row) error {
		return row.Scan(&standby, nil)
	})
	b.Queue(sqlLock, s.lockKey(id)).Exec(func(pgconn.CommandTag) error { return nil })
	b.Queue(s.sql.read, uuidOf(id), maxAnswer).Query(func(rows pgx.Rows) error { // behind the lock: a statement of its own
		rec, err = readRecord(rows)
		return err
	})
	b.Queue("commit")
	if err := conn.SendBatch(ctx, b).Close(); err != nil {
		return nil, err
	}
	if standby {
		return nil, errStandby
	}
	return rec, nil
}

type execer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// confirm makes sure that the record that can be seen is as durable as an acknowledged commit: under synchronous
// replication, one whose wait was broken off is visible though no standby has it. A WAL record of our own, committed in
// the same way, can only be acknowledged after it.
func confirm(ctx context.Context, conn execer) error {
	_, err := conn.Exec(ctx, sqlConfirm)
	if err == nil && ctx.Err() != nil { // pgx may have asked the server to break the wait off, and Postgres then says yes
		err = errUnconfirmed
	}
	return err
}

var errUnconfirmed = errors.New("txidem: no standby has confirmed the record")
