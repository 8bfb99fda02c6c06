package txidem

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txonce/txonce/internal/handlertx"
)

// errLost says that a rival has the call: its record is there, or its claim.
var errLost = errors.New("txidem: lost the race")

// finish is turn 3: what the handler queued, the record, COMMIT. The caller's context does not end it: a handler that
// has returned is committed, and a caller who left finds the answer on the next try (R09).
func (s *Store) finish(ctx context.Context, id *identity, c *claim, b *pgx.Batch, answer []byte) (*record, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), id.policy.CommitTimeout)
	defer cancel()
	defer id.event.commit(time.Now())

	rec := newRecord(id, c.token, stateSucceeded, answer)
	v := &verdict{}
	v.watch(b)
	s.queueForget(b, id, c)
	s.queueRecord(b, id, rec).QueryRow(v.readTime(rec))
	v.queueCommit(b)
	err := c.conn.SendBatch(ctx, b).Close()
	s.logCallback(ctx, id, v)
	switch {
	case v.committed() && c.synchronous && ctx.Err() != nil: // the wait for the standby may have been broken off
		return nil, &OutcomeUnknownError{ID: id.ID, Tool: id.tool, Err: ctx.Err()}
	case v.committed():
		return rec, nil
	case v.escaped:
		return nil, errEscaped
	case v.queued == nil && s.isRival(v.ours):
		return nil, errLost
	case v.queued == nil && isEscape(v.ours):
		return nil, errEscaped
	case v.queued == nil && (hasCode(v.ours, codePrivilege) || isFull(v.ours)):
		return nil, s.explain(ctx, v.ours)
	}
	return nil, c.refused(id, v, err)
}

// queueRecord queues the insert of the record of a call that has succeeded.
func (s *Store) queueRecord(b *pgx.Batch, id *identity, rec *record) *pgx.QueuedQuery {
	return b.Queue(s.sql.record, uuidOf(id), rec.scope, rec.tool, rec.key, rec.fingerprint, rec.canon, rec.fields,
		rec.answer, id.keepSeconds(), id.policy.OnExpired == Refuse)
}

// logCallback tells of what a handler's own code made of a result: by then, COMMIT has been sent.
func (s *Store) logCallback(ctx context.Context, id *identity, v *verdict) {
	if v.callback != nil {
		s.log.ErrorContext(ctx, "txidem: a result callback of AtFinish failed; it cannot fail the call", "tool", id.tool, "call", id.ID, "error", v.callback)
	}
}

// verdict is what was read of a last round trip. COMMIT is on its way before anything comes back, so only its own answer
// says whether it happened; what goes wrong on this side while reading says nothing.
type verdict struct {
	queued   error // of a statement that the handler queued, from the server
	callback error // of a result callback of the handler's
	escaped  bool  // such a statement committed
	ours     error // of our own statement, from the server
	commit   pgconn.CommandTag
}

func (v *verdict) committed() bool { return v.commit.String() == "COMMIT" }

// watch reads the results of what the handler queued in its place, so that a callback that fails or panics does not keep
// the answer of COMMIT from being read.
func (v *verdict) watch(b *pgx.Batch) {
	for _, q := range b.QueuedQueries {
		read := q.Fn
		if read == nil {
			read = func(results pgx.BatchResults) error {
				tag, err := results.Exec()
				v.escaped = v.escaped || handlertx.EndsTx(tag)
				return err
			}
		}
		q.Fn = func(results pgx.BatchResults) error {
			v.note(read, results)
			return nil
		}
	}
}

func (v *verdict) note(read func(pgx.BatchResults) error, results pgx.BatchResults) {
	defer func() {
		if p := recover(); p != nil {
			v.callback = fmt.Errorf("panic: %v", p)
		}
	}()
	err := read(results)
	var fromServer *pgconn.PgError
	switch {
	case errors.As(err, &fromServer) && v.queued == nil:
		v.queued = err
	case err != nil && v.queued == nil:
		v.callback = err
	}
}

// readTime reads when the record was written, or why not.
func (v *verdict) readTime(rec *record) func(pgx.Row) error {
	return func(row pgx.Row) error {
		var finished int64
		v.ours = row.Scan(&finished)
		rec.finishedAt = time.UnixMicro(finished)
		return nil
	}
}

func (v *verdict) queueCommit(b *pgx.Batch) {
	b.Queue("commit").Exec(func(tag pgconn.CommandTag) error {
		v.commit = tag
		return nil
	})
}

// refused says why the last round trip did not commit, or that this is not known: err is what reading it gave.
func (c *claim) refused(id *identity, v *verdict, err error) error {
	switch {
	case c.status() == txLost:
		return c.lost(id, err)
	case v.commit.String() == "ROLLBACK":
		return ErrTxAborted
	case err == nil: // nothing wrong, and no answer of COMMIT
		return &OutcomeUnknownError{ID: id.ID, Tool: id.tool, Err: errors.New("the answer of COMMIT was not read")}
	case c.status() == txNone && !errors.As(err, new(*pgconn.PgError)): // it has ended, and the server did not say no
		return &OutcomeUnknownError{ID: id.ID, Tool: id.tool, Err: err}
	}
	return rowCount(err) // the server said no to a statement in front of COMMIT, or to COMMIT
}

// lost says what is known when the connection broke in the last round trip: nothing, but where Postgres had ended an idle
// transaction before it read any of it. pgx's SafeToRetry does not help: in the text modes it calls an answer that was
// lost a statement that was not sent.
func (c *claim) lost(id *identity, err error) error {
	if hasCode(err, codeIdleInTxTimeout) {
		return idleTooLong(err)
	}
	return &OutcomeUnknownError{ID: id.ID, Tool: id.tool, Err: err}
}

// queueForget makes room for the new record where the claim saw an expired one.
func (s *Store) queueForget(b *pgx.Batch, id *identity, c *claim) {
	if c.record != nil {
		b.Queue(s.sql.forget, uuidOf(id), c.record.attempt)
	}
}

// isRival reports whether err is a violation of our own primary key, and not of a constraint of the user's.
func (s *Store) isRival(err error) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && pgErr.Code == codeUniqueViolation &&
		pgErr.SchemaName == s.sql.schema && pgErr.TableName == "call"
}
