package txidem

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/toolcall"
)

// Status says how far the call has come that req identifies, without making or delaying it. The request's policy plays
// no part. A server that is a standby cannot know and gives ErrOutcomeUnknown.
func (s *Store) Status(ctx context.Context, req Request) (toolcall.Status, error) {
	req.Policy = nil
	id, err := s.identify(req)
	if err != nil {
		return toolcall.Status{}, err
	}
	if s.memory != nil {
		return s.memory.status(ctx, id)
	}
	var running, standby, synchronous bool
	var rec *record
	// Locks first, record second: a call that commits in between is seen by the second statement. The other way round,
	// and in one statement, thousands of calls that had committed looked as if they had never been made. A
	// transaction of its own, since the session's default might be one snapshot for both.
	b := &pgx.Batch{}
	b.Queue("begin isolation level read committed read only")
	b.Queue(sqlRunning, s.lockKey(id)).QueryRow(func(row pgx.Row) error { return row.Scan(&running, &standby, &synchronous) })
	b.Queue(s.sql.read, uuidOf(id), maxAnswer).Query(func(rows pgx.Rows) (err error) {
		rec, err = readRecord(rows)
		return err
	})
	b.Queue("commit")
	switch err := s.pool.SendBatch(ctx, b).Close(); {
	case err != nil:
		return toolcall.Status{}, s.explain(ctx, err)
	case standby:
		return toolcall.Status{}, &OutcomeUnknownError{ID: id.ID, Tool: id.tool, Err: errStandby}
	}
	if rec != nil && synchronous {
		limited, cancel := context.WithTimeout(ctx, id.policy.CommitTimeout)
		defer cancel()
		if err := confirm(limited, s.pool); err != nil {
			return toolcall.Status{}, &OutcomeUnknownError{ID: id.ID, Tool: id.tool, Err: err}
		}
	}
	return s.statusOf(ctx, id, rec, running)
}

// Resolve waits until no transaction of the call is open any more and says how it ended: StateNone means that it
// left nothing behind and can be repeated. It is for those who lost the answer of a commit of their own (RunTx): end that
// transaction first, or it is waited for. StateSucceeded and StateFailed speak of the call, whoever made it: beside a rival
// that makes it in another transaction, what else was in the caller's may not be there. It waits for
// at most Policy.CommitTimeout; what cannot be known by then is ErrOutcomeUnknown.
func (s *Store) Resolve(ctx context.Context, req Request) (toolcall.Status, error) {
	id, err := s.identify(req)
	if err != nil {
		return toolcall.Status{}, err
	}
	if s.memory != nil {
		return s.memory.status(ctx, id)
	}
	limited, cancel := context.WithTimeout(ctx, id.policy.CommitTimeout)
	defer cancel()
	var rec *record
	err = s.resolvers.With(limited, func(conn *pgx.Conn) (err error) {
		if rec, err = s.settled(limited, conn, id); err != nil || rec == nil {
			return err
		}
		return confirm(limited, conn)
	})
	if gaveUp := contextError(ctx); gaveUp != nil {
		return toolcall.Status{}, gaveUp
	}
	if err != nil {
		return toolcall.Status{}, &OutcomeUnknownError{ID: id.ID, Tool: id.tool, Err: err}
	}
	return s.statusOf(ctx, id, rec, false)
}

// statusOf puts in words what was read. Like a replay, it checks that the record is this call's and may be shown.
func (s *Store) statusOf(ctx context.Context, id *identity, rec *record, running bool) (toolcall.Status, error) {
	status := toolcall.Status{ID: id.ID, Tool: id.tool, State: toolcall.StateNone}
	if running {
		status.State = toolcall.StateRunning
	}
	if rec == nil || rec.expired && running { // a new run over an expired record
		return status, nil
	}
	if err := s.admit(ctx, id, rec); err != nil {
		return toolcall.Status{}, err
	}
	return s.tell(ctx, id, rec)
}

// tell puts in words a record that may be told of.
func (s *Store) tell(ctx context.Context, id *identity, rec *record) (toolcall.Status, error) {
	status := toolcall.Status{ID: id.ID, Tool: id.tool}
	switch {
	case rec.state == stateRunning && rec.live:
		status.State = toolcall.StateRunning
		return status, nil
	case rec.state == stateRunning:
		status.State = toolcall.StateUnknown
		return status, nil
	case rec.expired:
		status.State, status.FinishedAt = toolcall.StateExpired, rec.finishedAt
		return status, nil
	}
	status.FinishedAt = rec.finishedAt
	answer, err := s.decode(ctx, id, rec, rec.answer)
	if err != nil {
		return toolcall.Status{}, err
	}
	if rec.state == stateFailed {
		status.State = toolcall.StateFailed
		if err := decodeFailure(answer); !errors.As(err, &status.Failure) {
			return toolcall.Status{}, err
		}
		return status, nil
	}
	status.State, status.Answer = toolcall.StateSucceeded, answer
	return status, nil
}

// explain says what an error of the database means for the caller.
func (s *Store) explain(ctx context.Context, err error) error {
	if gaveUp := contextError(ctx); gaveUp != nil {
		return gaveUp
	}
	switch {
	case errors.Is(err, ErrServerTooOld), errors.Is(err, ErrOutcomeUnknown), errors.Is(err, ErrQuota), errors.Is(err, ErrPolicy):
		return err
	case hasCode(err, codePrivilege):
		return fmt.Errorf("%w (schema %q): %w", ErrPermission, s.sql.schema, err)
	case hasCode(err, codeUndefinedTable, codeUndefinedColumn, codeUndefinedFunc):
		return fmt.Errorf("%w (schema %q): %w", ErrNotMigrated, s.sql.schema, err)
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}
