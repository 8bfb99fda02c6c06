package txidem

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txonce/txonce/toolcall"
)

// CodeHandlerEndedTx is the code of the failure that is recorded for a call whose handler ended its transaction by raw
// SQL. What it committed stays.
const CodeHandlerEndedTx = "handler_ended_tx"

// escapedMessage is what a retry hears of a call whose handler committed by itself.
const escapedMessage = "the tool ended its own transaction, so it is not known what it did; " +
	"do not repeat the call, ask the people who run this tool"

// settleError ends a call that did not succeed: failures are recorded, everything else is undone and leaves nothing
// behind, unless the handler committed by itself. Then a failure is recorded in its place.
func (s *Store) settleError(ctx context.Context, id *identity, c *claim, err error) (outcome, error) {
	if failure, failed := failureIn(err); failed {
		var out outcome
		if out, err = s.settleFailure(ctx, id, c, failure, err); !errors.Is(err, errEscaped) {
			return out, err
		}
	} else {
		err = s.undo(ctx, c, err)
	}
	if errors.Is(err, errEscaped) {
		return s.settleEscape(ctx, id, c)
	}
	return outcome{}, err
}

// settleFailure records the failure; only then is it the answer.
func (s *Store) settleFailure(ctx context.Context, id *identity, c *claim, failure *toolcall.Failure, cause error) (outcome, error) {
	raw, stored, err := s.failureAnswer(ctx, id, failure)
	if err != nil {
		return outcome{}, err
	}
	rec, err := s.fail(ctx, id, c, stored)
	if rec, err = s.resolved(ctx, id, c, rec, err); err != nil {
		return outcome{}, err
	}
	s.waits.settle(id.ID, rec)
	return outcome{raw: raw, finishedAt: rec.finishedAt}, cause
}

// failureAnswer makes of a failure what the caller gets and what is stored.
func (s *Store) failureAnswer(ctx context.Context, id *identity, failure *toolcall.Failure) (raw, stored []byte, err error) {
	if raw, err = encodeFailure(failure); err != nil {
		return nil, nil, err
	}
	if failure.Code == CodeHandlerEndedTx { // ours, and small: where it could not be stored, a retry would repeat the effect (R10)
		roomy := *id
		roomy.policy.MaxAnswer = maxAnswer
		id = &roomy
	}
	if len(raw) > id.policy.MaxAnswer {
		return nil, nil, tooLarge("the failure", len(raw), id.policy)
	}
	stored, err = s.encode(ctx, id, true, raw)
	return raw, stored, err
}

// settleEscape records that the handler committed by itself, so that a retry does not repeat what it did. Whatever
// becomes of the record, this call must not run the handler again: the error is never one that goes round.
func (s *Store) settleEscape(ctx context.Context, id *identity, c *claim) (outcome, error) {
	failure := escapeFailure()
	out, err := s.settleFailure(ctx, id, c, failure, fmt.Errorf("%w: %w", ErrHandlerEndedTx, failure))
	if !errors.Is(err, ErrHandlerEndedTx) { // the connection broke here of all places: once more over another one
		return s.recordEscape(ctx, id, c)
	}
	return out, err
}

func escapeFailure() *toolcall.Failure {
	return &toolcall.Failure{Code: CodeHandlerEndedTx, Message: escapedMessage}
}

// recordEscape is settleEscape over a connection of its own.
func (s *Store) recordEscape(ctx context.Context, id *identity, c *claim) (outcome, error) {
	failure := escapeFailure()
	out, err := s.failAgain(ctx, id, c, failure, fmt.Errorf("%w: %w", ErrHandlerEndedTx, failure))
	if !errors.Is(err, ErrHandlerEndedTx) {
		s.log.ErrorContext(ctx, "txidem: a handler ended its own transaction and that could not be recorded: a retry will run it again",
			"tool", id.tool, "call", id.ID, "error", err)
		return outcome{}, ErrHandlerEndedTx
	}
	return out, err
}

// undo rolls back, and returns err or, if the transaction was no longer the claim's, errEscaped.
func (s *Store) undo(ctx context.Context, c *claim, err error) error {
	if c.status() != txOpen {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	b := &pgx.Batch{}
	b.Queue(s.sql.guard)
	b.Queue("rollback")
	if isEscape(c.conn.SendBatch(ctx, b).Close()) {
		return errEscaped
	}
	return err
}

// errEscaped says that the transaction at the end of the handler is not the claim's: the handler ended that by itself.
// It never leaves the package, so no handler can return it.
var errEscaped = errors.New("txidem: the transaction is another one")

// isEscape reports whether a statement did not find the attempt's token: the transaction is another one.
func isEscape(err error) bool { return hasCode(err, codeInvalidText, codeUndefinedObject) }

// fail rolls back what the handler did and records its failure, in a transaction of its own. Between the two a rival
// may take the call; then the rival's answer counts and this one is lost (R06).
func (s *Store) fail(ctx context.Context, id *identity, c *claim, answer []byte) (*record, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), id.policy.CommitTimeout)
	defer cancel()
	defer id.event.commit(time.Now())

	b, guarded := &pgx.Batch{}, true
	switch c.status() {
	case txAborted: // nothing but a ROLLBACK can be prepared here
		if err := c.tx.Rollback(ctx); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
	case txOpen:
		guarded = false
		b.Queue(s.sql.guard).Exec(func(pgconn.CommandTag) error { guarded = true; return nil })
		b.Queue("rollback")
	}
	rec, err := s.sendFailure(ctx, c.conn, b, id, c, answer)
	switch {
	case err == nil || errors.Is(err, errLost) || errors.Is(err, ErrOutcomeUnknown):
		return rec, err
	case !guarded && isEscape(err):
		return nil, errEscaped
	case c.status() == txLost:
		return nil, c.lost(id, err)
	}
	return nil, fmt.Errorf("%w: the failure could not be recorded: %w", ErrUnavailable, err)
}

// failAgain records the failure over a reserved connection.
func (s *Store) failAgain(ctx context.Context, id *identity, c *claim, failure *toolcall.Failure, cause error) (outcome, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), id.policy.CommitTimeout)
	defer cancel()
	raw, stored, err := s.failureAnswer(ctx, id, failure)
	if err != nil {
		return outcome{}, err
	}
	var rec *record
	err = s.reserve.With(ctx, func(conn *pgx.Conn) (err error) {
		if rec, err = s.settled(ctx, conn, id); err != nil || rec != nil && rec.attempt == c.token {
			return err
		}
		rec, err = s.sendFailure(ctx, conn, &pgx.Batch{}, id, c, stored)
		return err
	})
	if err != nil {
		return outcome{}, err
	}
	s.waits.settle(id.ID, rec)
	return outcome{raw: raw, finishedAt: rec.finishedAt}, cause
}

// sender is a connection, or what stands for it.
type sender interface {
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// queueFailure queues the insert of a failure, which writes nothing where somebody else has the call.
func (s *Store) queueFailure(b *pgx.Batch, id *identity, rec *record) *pgx.QueuedQuery {
	return b.Queue(s.sql.fail, uuidOf(id), rec.scope, rec.tool, rec.key, rec.fingerprint, rec.canon, rec.fields, rec.attempt,
		rec.answer, id.keep.Seconds(), id.policy.OnExpired == Refuse, s.lockKey(id))
}

// sendFailure sends what is on b and, behind it, the transaction that records the failure.
func (s *Store) sendFailure(ctx context.Context, conn sender, b *pgx.Batch, id *identity, c *claim, answer []byte) (*record, error) {
	rec := newRecord(id, c.token, stateFailed, answer)
	stored, v := false, &verdict{}
	b.Queue("begin isolation level read committed read write")
	s.queueForget(b, id, c)
	s.queueFailure(b, id, rec).Query(func(rows pgx.Rows) (err error) {
		stored, err = rec.readStored(rows)
		return err
	})
	v.queueCommit(b)
	err := conn.SendBatch(ctx, b).Close()
	switch {
	case v.committed() && c.synchronous && ctx.Err() != nil: // as in finish
		return nil, &OutcomeUnknownError{ID: id.ID, Tool: id.tool, Err: ctx.Err()}
	case v.committed() && stored:
		return rec, nil
	case err == nil:
		return nil, errLost
	}
	return nil, err
}
