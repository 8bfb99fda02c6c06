package txidem

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txonce/txonce/internal/sqltext"
	"github.com/txonce/txonce/toolcall"
)

// RunTx is [Run] in a transaction of the caller's, which the caller commits: for writes that must commit together with
// others. What it returns is final only when that commit has returned; if the answer of the commit is lost,
// [Store.Resolve] finds out what became of the call. Repeating the transaction with the same key finds out as well.
//
// Where Replayed is set in the result, an earlier transaction has committed the call together with what else was in it: leave
// that out this time, or it happens twice.
//
// The handler runs behind a savepoint. What it wrote is undone when it fails, and the caller's transaction stays usable: after
// each error but for a lost connection, ErrHandlerEndedTx, ErrNotMigrated, and SQLSTATE 40001, after which the transaction
// is only good for rolling back. A failure made by [Fail] is recorded with the caller's commit, and lost with its rollback.
//
// A duplicate of a running call gets ErrInProgress at once, whatever Policy.Wait says: waiting would hold the caller's
// connection and locks. Roll back, and repeat the transaction later. The handler is not run again for 40001 and 40P01
// either; the caller repeats the transaction.
//
// Above READ COMMITTED the transaction may be too old to see what others have done: then RunTx returns ErrStaleSnapshot
// or Postgres says 40001, and the caller rolls back and repeats. The isolation level is the transaction's; Policy.Isolation
// plays no part. Under SERIALIZABLE a call takes one round trip more, and the role needs update on the table.
//
// Until the transaction ends, the call's lock and Policy.IdleInTx stay with it: Postgres ends it when it is idle for
// longer. RunTx may be used inside the handler of [Run], with that handler's tx.
func RunTx[T any](ctx context.Context, tx pgx.Tx, s *Store, req Request, handler func(ctx context.Context, tx pgx.Tx) (T, error)) (Result[T], error) {
	var value T
	h := answering(&value, handler)
	out, err := s.run(ctx, req, way{
		name:      WayTx,
		protected: func(ctx context.Context, id *identity) (outcome, error) { return s.decideTx(ctx, tx, id, h) },
		bare:      func(ctx context.Context, id *identity) (outcome, error) { return s.unprotectedTx(ctx, tx, id, h) },
		work:      func(id *identity) work { return s.memory.with(id, tx, h) },
	})
	return resultOf(out, value, err)
}

// txClaim is a claim inside a caller's transaction. It lies behind a savepoint.
type txClaim struct {
	*claim
	id     *identity
	outer  string // the token that was there before, of a call around this one
	level  string // isolation level, as Postgres spells it
	place  string // of the row that reserves the key; SERIALIZABLE only
	behind bool   // the savepoint is there
}

// roundsTx bounds how often a call in a caller's transaction looks again after a rival was faster.
const roundsTx = 3

func (s *Store) decideTx(ctx context.Context, tx pgx.Tx, id *identity, h handler) (outcome, error) {
	var expired *record // seen in the round before
	for range roundsTx {
		c, err := s.claimTx(ctx, tx, id, expired)
		if err != nil {
			return outcome{}, err
		}
		switch rec := c.record; {
		case c.decided(id.policy):
			return s.replayTx(ctx, c)
		case !c.won:
			return outcome{}, inProgress(id)
		case rec != nil && c.serializable() && expired == nil:
			expired = rec
			continue
		}
		id.event.Takeover = c.record != nil || expired != nil
		out, err := s.executeTx(ctx, c, h)
		if !errors.Is(err, errLost) {
			return out, err
		}
		if !readsFreshSnapshots(pgx.TxIsoLevel(c.level)) {
			return outcome{}, ErrStaleSnapshot
		}
	}
	return outcome{}, inProgress(id)
}

func (c *txClaim) serializable() bool { return c.level == "serializable" }

// claimTx is turn 1 behind a savepoint. If the call is not to run, the savepoint is gone again when it returns.
func (s *Store) claimTx(ctx context.Context, tx pgx.Tx, id *identity, expired *record) (*txClaim, error) {
	c, err := newTxClaim(tx, id)
	if err != nil {
		return nil, err
	}
	b := &pgx.Batch{}
	b.Queue(sqlSavepoint).Exec(func(pgconn.CommandTag) error { c.behind = true; return nil })
	s.queueClaim(b, s.sql.claimsTx, id, c.claim, &c.outer, &c.level)
	b.Queue(s.sql.readTx, uuidOf(id), id.policy.InlineAnswer).Query(c.readRecord)
	err = tx.SendBatch(ctx, b).Close()
	if err == nil && c.won && !c.decided(id.policy) {
		err = s.withinQuota(ctx, id, tx) // a second connection could starve a small pool
		if err == nil && c.serializable() {
			err = s.reserveTx(ctx, c, expired)
		}
	}
	if err != nil {
		_ = c.undo(ctx)
		return nil, s.explainTx(ctx, err)
	}
	if !c.won || c.decided(id.policy) {
		_ = c.undo(ctx)
	}
	return c, nil
}

func newTxClaim(tx pgx.Tx, id *identity) (*txClaim, error) {
	if tx == nil || tx.Conn() == nil {
		return nil, fmt.Errorf("%w: it is nil, or has no connection to Postgres", ErrTxNotOpen)
	}
	return &txClaim{claim: &claim{db: tx.Conn(), tx: tx, token: newToken(), sent: time.Now()}, id: id}, nil
}

func (c *txClaim) readRecord(rows pgx.Rows) (err error) {
	c.record, err = readRecord(rows)
	return err
}

// reserveTx inserts the record in front of the handler, under SERIALIZABLE. Where there is one already, it goes back to the
// savepoint and reads it: that is no absent key.
func (s *Store) reserveTx(ctx context.Context, c *txClaim, expired *record) error {
	_, escape, err := s.failureAnswer(ctx, c.id, escapeFailure())
	if err != nil {
		return err
	}
	rec := newRecord(c.id, c.token, stateFailed, escape)
	var ours error
	b := &pgx.Batch{}
	if expired != nil {
		b.Queue(s.sql.forget, uuidOf(c.id), expired.attempt)
	}
	b.Queue(s.sql.reserveTx, uuidOf(c.id), rec.scope, rec.tool, rec.key, rec.fingerprint, rec.canon, rec.fields, c.token,
		rec.answer, c.id.keep.Seconds(), c.id.policy.OnExpired == Refuse, s.lockKey(c.id)).QueryRow(func(row pgx.Row) error {
		ours = row.Scan(&c.place)
		return ours
	})
	err = c.tx.SendBatch(ctx, b).Close()
	if !s.isRival(ours) {
		c.record = expired // it is back after a roll-back: then the failure must replace it
		return err
	}
	_ = c.undo(ctx)
	if c.won = false; c.behind {
		return err
	}
	b = &pgx.Batch{}
	b.Queue(s.sql.read, uuidOf(c.id), c.id.policy.InlineAnswer).Query(c.readRecord)
	if err := c.tx.SendBatch(ctx, b).Close(); err != nil {
		return err
	}
	if c.record == nil {
		return ErrStaleSnapshot
	}
	c.won = true // to run over it, if it has expired
	return nil
}

// replayTx answers from the record. Where standbys are synchronous it makes the caller's commit wait for what the record's
// own commit may still be waiting for.
func (s *Store) replayTx(ctx context.Context, c *txClaim) (outcome, error) {
	if c.synchronous {
		if _, err := c.tx.Exec(ctx, sqlConfirm); err != nil {
			return outcome{}, s.explainTx(ctx, err)
		}
	}
	out, err := s.replay(ctx, c.id, c.record, c.tx)
	if errors.Is(err, errLost) { // it was swept between two reads
		err = inProgress(c.id)
	}
	return out, err
}

// executeTx runs the handler and writes the record. When it returns, the savepoint is gone, with or without what the handler
// wrote (also where the handler ended the goroutine).
func (s *Store) executeTx(ctx context.Context, c *txClaim, h handler) (outcome, error) {
	defer func() { _ = c.undo(ctx) }()
	queued := &pgx.Batch{}
	answer, err := handle(ctx, c.id, c.claim, queued, h)
	if err = c.check(err, c.id.policy); err == nil {
		var stored []byte
		if stored, err = s.encode(ctx, c.id, false, answer); err == nil {
			var rec *record
			if rec, err = s.finishTx(ctx, c, queued, stored); err == nil {
				return outcome{raw: answer, finishedAt: rec.finishedAt}, nil
			}
		}
	}
	if failure, failed := failureIn(err); failed {
		var out outcome
		if out, err = s.failTx(ctx, c, failure, err); !errors.Is(err, errEscaped) {
			return out, err
		}
	} else if c.gone(ctx, s) {
		err = errEscaped
	}
	if errors.Is(err, errEscaped) { // the caller's transaction is over, and with it the lock
		return s.recordEscape(ctx, c.id, c.claim)
	}
	return outcome{}, err
}

// gone reports whether the transaction that is open is no longer the claim's. One that is aborted can only tell that by its
// savepoint, to which it goes back.
func (c *txClaim) gone(ctx context.Context, s *Store) bool {
	switch c.status() {
	case txOpen:
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
		defer cancel()
		_, err := c.tx.Exec(ctx, s.sql.guard)
		return isEscape(err)
	case txAborted:
		return hasCode(c.undo(ctx), codeNoSavepoint)
	}
	return false
}

// finishTx is the last turn: what the handler queued, the record, and the end of the savepoint.
func (s *Store) finishTx(ctx context.Context, c *txClaim, b *pgx.Batch, answer []byte) (*record, error) {
	defer c.id.event.commit(time.Now())
	for _, q := range b.QueuedQueries { // in the simple protocol, the results of ours would be read in the wrong places
		if n := len(sqltext.Statements(q.SQL)); n != 1 {
			return nil, fmt.Errorf("%w: queue one statement at a time, not %d: %.100q", ErrBatchSQL, n, q.SQL)
		}
	}
	rec := newRecord(c.id, c.token, stateSucceeded, answer)
	v := &verdict{}
	v.watch(b)
	if c.place != "" {
		b.Queue(s.sql.recordTx, c.place, c.token, rec.answer, c.id.keepSeconds()).QueryRow(v.readTime(rec))
	} else {
		s.queueForget(b, c.id, c.claim)
		s.queueRecord(b, c.id, rec).QueryRow(v.readTime(rec))
	}
	released := false
	b.Queue(sqlRestore, c.outer)
	b.Queue(sqlRelease).Exec(func(pgconn.CommandTag) error { released = true; return nil })
	err := c.tx.SendBatch(ctx, b).Close()
	s.logCallback(ctx, c.id, v)
	switch {
	case released && err == nil && v.ours == nil: // all three: a result can be read in another's place, and a reserved row be gone
		c.behind = false
		return rec, nil
	case v.escaped, v.queued == nil && (isEscape(v.ours) || errors.Is(v.ours, pgx.ErrNoRows)): // no rows: the reserved one is gone
		return nil, errEscaped
	case v.queued == nil && s.isRival(v.ours):
		return nil, errLost
	case v.queued == nil && v.ours == nil && hasCode(err, codeNoSavepoint): // the record was written, so the transaction is ours
		c.behind = false
		return nil, fmt.Errorf("txidem: the handler released the savepoint of its call; roll the transaction back: %w", err)
	case c.status() == txLost:
		return nil, fmt.Errorf("%w: the connection was lost: %w", ErrUnavailable, err)
	case v.queued == nil && (hasCode(v.ours, codePrivilege) || isFull(v.ours)):
		return nil, s.explain(ctx, v.ours)
	}
	return nil, err
}

// failTx undoes what the handler did and records the failure in its place, unless a rival took the call in between.
func (s *Store) failTx(ctx context.Context, c *txClaim, failure *toolcall.Failure, cause error) (outcome, error) {
	raw, stored, err := s.failureAnswer(ctx, c.id, failure)
	if err != nil {
		return outcome{}, err
	}
	guarded, kept := true, false
	b := &pgx.Batch{}
	if c.status() == txOpen {
		guarded = false
		b.Queue(s.sql.guard).Exec(func(pgconn.CommandTag) error { guarded = true; return nil })
		b.Queue(sqlRollbackTo)
	} else if _, err := c.tx.Exec(ctx, sqlRollbackTo); hasCode(err, codeNoSavepoint) {
		return outcome{}, errEscaped
	} else if err != nil {
		return outcome{}, s.explainTx(ctx, err)
	}
	rec := newRecord(c.id, c.token, stateFailed, stored)
	s.queueLock(b, c.id, c.claim) // what the claim set went with the savepoint, and a client that vanishes must be noticed still (R20)
	s.queueForget(b, c.id, c.claim)
	s.queueFailure(b, c.id, rec).Query(func(rows pgx.Rows) (err error) {
		kept, err = rec.readStored(rows)
		return err
	})
	b.Queue(sqlRestore, c.outer)
	b.Queue(sqlRelease).Exec(func(pgconn.CommandTag) error { c.behind = false; return nil })
	err = c.tx.SendBatch(ctx, b).Close()
	switch {
	case !guarded && isEscape(err):
		return outcome{}, errEscaped
	case err != nil:
		return outcome{}, s.explainTx(ctx, err)
	case !kept:
		return outcome{}, errLost
	}
	return outcome{raw: raw, finishedAt: rec.finishedAt}, cause
}

// undo goes back to the savepoint, if it is there, and removes it. It leaves behind set where it could not: then the
// transaction is of no more use.
func (c *txClaim) undo(ctx context.Context) error {
	if !c.behind {
		return nil
	}
	if status := c.status(); status != txOpen && status != txAborted {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	for _, sql := range [...]string{sqlRollbackTo, sqlRelease} { // nothing but a ROLLBACK can be prepared where the transaction is aborted
		if _, err := c.tx.Exec(ctx, sql); err != nil {
			return err
		}
	}
	c.behind = false
	return nil
}

// unprotectedTx runs the handler behind a savepoint and nothing else (Policy.Disabled).
func (s *Store) unprotectedTx(ctx context.Context, tx pgx.Tx, id *identity, h handler) (outcome, error) {
	c, err := newTxClaim(tx, id)
	if err != nil {
		return outcome{}, err
	}
	if _, err := tx.Exec(ctx, sqlSavepoint); err != nil {
		return outcome{}, s.explainTx(ctx, err)
	}
	c.behind = true
	defer func() { _ = c.undo(ctx) }()
	queued := &pgx.Batch{}
	answer, err := handle(ctx, id, c.claim, queued, h)
	if err = c.check(err, id.policy); errors.Is(err, errEscaped) {
		err = ErrHandlerEndedTx
	}
	if err != nil {
		return outcome{}, err
	}
	v := &verdict{}
	v.watch(queued)
	queued.Queue(sqlRelease).Exec(func(pgconn.CommandTag) error { c.behind = false; return nil })
	if err := tx.SendBatch(ctx, queued).Close(); err != nil {
		return outcome{}, err
	}
	return outcome{raw: answer}, nil
}

// explainTx is explain for errors of a caller's transaction.
func (s *Store) explainTx(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, pgx.ErrTxClosed), errors.Is(err, ErrTxOver), hasCode(err, codeNoTx, codeTxAborted):
		return fmt.Errorf("%w: %w", ErrTxNotOpen, err)
	case errors.Is(err, ErrStaleSnapshot), errors.Is(err, ErrCodec), hasCode(err, codeSerialization, codeDeadlock):
		return err
	}
	return s.explain(ctx, err)
}
