package txidem

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/toolcall"
)

// Result is the outcome of a call that succeeded, now or earlier.
type Result[T any] struct {
	Value      T
	Raw        json.RawMessage // the answer as it was first given, byte for byte
	ID         toolcall.ID
	Replayed   bool      // an earlier call did the work
	FinishedAt time.Time // by the database's clock
}

// Run calls handler in a transaction and commits what it wrote together with the record of its answer. A call with the
// same identity gets that answer again instead of a second run, until the record expires.
//
// The handler may run more than once in one call, when Postgres asks for it (40001, 40P01): what it does outside tx is
// not protected. It must not keep tx, nor end the transaction; savepoints (tx.Begin) are fine. Its context carries the
// [toolcall.Call]. An error made by [Fail] is recorded and replayed; any other error rolls back and frees the key.
//
// If ctx ends before the handler has returned, the call is rolled back or, once the handler has returned, committed
// and replayable. The errors are those of this package, a [*toolcall.Failure] for a recorded failure (then ID,
// Replayed and FinishedAt of the result are set), or the handler's own.
func Run[T any](ctx context.Context, s *Store, req Request, handler func(ctx context.Context, tx pgx.Tx) (T, error)) (Result[T], error) {
	var value T
	out, err := s.run(ctx, req, func(ctx context.Context, tx pgx.Tx) ([]byte, error) {
		v, err := handler(ctx, tx)
		if err != nil {
			return nil, err
		}
		value = v
		return encodeAnswer(v)
	})
	result := Result[T]{Raw: out.raw, ID: out.id, Replayed: out.replayed, FinishedAt: out.finishedAt}
	if err != nil {
		return result, err
	}
	if out.replayed {
		if err := decodeAnswer(out.raw, &value); err != nil {
			return result, err
		}
	}
	result.Value = value
	return result, nil
}

// handler is what the core knows of the user's function: it answers with bytes.
type handler func(ctx context.Context, tx pgx.Tx) ([]byte, error)

type outcome struct {
	id         toolcall.ID
	raw        []byte
	replayed   bool
	finishedAt time.Time
}

func (s *Store) run(ctx context.Context, req Request, h handler) (outcome, error) {
	start := time.Now()
	event := Event{Decision: DecidedReleased, Scope: req.Scope, Tool: req.Tool, Derived: req.Key == ""}
	defer func() { // also where the handler ended the goroutine
		event.Total = time.Since(start)
		s.observe(ctx, event)
	}()
	out, err := s.accept(ctx, req, h, &event)
	event.ID, event.Err, event.AnswerBytes = out.id, err, len(out.raw)
	if event.Decision != DecidedUnprotected {
		event.Decision = decisionOf(out, err)
	}
	return out, err
}

// observe tells the observer. What goes wrong there is not the call's.
func (s *Store) observe(ctx context.Context, event Event) {
	if s.observer == nil {
		return
	}
	defer func() {
		if v := recover(); v != nil {
			s.log.ErrorContext(ctx, "txidem: the observer panicked", "tool", event.Tool, "call", event.ID, "panic", v)
		}
	}()
	s.observer.Observe(ctx, event)
}

// accept refuses bad requests and lets the others be decided.
func (s *Store) accept(ctx context.Context, req Request, h handler, event *Event) (outcome, error) {
	if outer, ok := toolcall.FromContext(ctx); ok && !outer.Over() {
		return outcome{}, ErrNested
	}
	id, err := s.identify(req)
	if err != nil {
		return outcome{}, err
	}
	id.event = event
	var out outcome
	if id.policy.Disabled {
		event.Decision = DecidedUnprotected
		out, err = s.unprotected(ctx, id, h)
	} else {
		out, err = s.decide(ctx, id, h)
	}
	out.id = id.ID
	return out, err
}

// decide goes round until the call has an answer: replay what is recorded, run what is free, wait for what is running.
func (s *Store) decide(ctx context.Context, id *identity, h handler) (outcome, error) {
	w := &waiter{waits: &s.waits, id: id.ID, until: time.Now().Add(id.policy.Wait)}
	defer w.leave()
	for {
		c, err := s.claim(ctx, id)
		if err != nil {
			return outcome{}, err
		}
		rec := c.record
		switch {
		case c.decided(id.policy):
			if !rec.expired { // others may run over it
				s.waits.settle(id.ID, rec)
			}
		case c.won:
			id.event.Takeover = rec != nil
			out, err := s.execute(ctx, id, c, h)
			if again(err) && id.event.Runs < id.policy.Attempts && ctx.Err() == nil {
				continue
			}
			if errors.Is(err, errLost) {
				err = inProgress(id)
			}
			return out, err
		default:
			if rec, err = w.next(ctx); errors.Is(err, errWaitOver) {
				return outcome{}, inProgress(id)
			} else if err != nil {
				return outcome{}, err
			} else if rec == nil {
				continue
			}
		}
		out, err := s.replay(ctx, id, rec)
		if errors.Is(err, errLost) { // it expired and was swept between two reads
			w.leave() // what is known there is known no more
			continue
		}
		return out, err
	}
}

// again reports whether the call goes round once more: a rival was faster, the connection broke and nothing is left of
// the attempt, or Postgres asks for a new transaction.
func again(err error) bool {
	return errors.Is(err, errLost) || errors.Is(err, errUndone) || hasCode(err, codeSerialization, codeDeadlock)
}

// replay answers from the record, if it may. Its bytes are the first answer's.
func (s *Store) replay(ctx context.Context, id *identity, rec *record) (outcome, error) {
	if err := s.admit(ctx, id, rec); err != nil {
		return outcome{}, err
	}
	if rec.expired {
		return outcome{}, &ExpiredError{ID: id.ID, Tool: id.tool, FinishedAt: rec.finishedAt}
	}
	answer, err := s.answerOf(ctx, id, rec)
	if err != nil {
		return outcome{}, err
	}
	out := outcome{raw: answer, replayed: true, finishedAt: rec.finishedAt}
	if rec.state == stateFailed {
		return out, decodeFailure(answer)
	}
	return out, nil
}

// admit decides whether the record may speak to the caller: that it is the call's, that the caller may have it (R16), who
// must not learn from a mismatch what is in it, and that the arguments are the same.
func (s *Store) admit(ctx context.Context, id *identity, rec *record) error {
	if err := rec.isOf(id); err != nil {
		return err
	}
	if err := s.allow(ctx, id.ID, rec); err != nil {
		return err
	}
	return rec.fits(id)
}

func (s *Store) allow(ctx context.Context, id toolcall.ID, rec *record) (err error) {
	if s.authorize == nil {
		return nil
	}
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%w: Config.Authorize panicked: %v", ErrNotAllowed, v)
		}
	}()
	err = s.authorize(ctx, Recorded{ID: id, Scope: rec.scope, Tool: rec.tool, Failed: rec.state == stateFailed, FinishedAt: rec.finishedAt})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotAllowed, err)
	}
	return nil
}

// answerOf returns the record's answer. A large one did not come with the record (R07). It returns errLost if the
// record is gone.
func (s *Store) answerOf(ctx context.Context, id *identity, rec *record) (answer []byte, err error) {
	if rec.answer != nil {
		return bytes.Clone(rec.answer), nil // others may have the record too
	}
	err = s.pool.QueryRow(ctx, s.sql.answer, uuidOf(id), rec.attempt).Scan(&answer, nil)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, errLost
	case ctx.Err() != nil:
		return nil, contextError(ctx)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return answer, nil
}

// soonestRetry keeps a caller who waits not at all from asking all the time.
const soonestRetry = time.Second

func inProgress(id *identity) error {
	return &InProgressError{ID: id.ID, Tool: id.tool, RetryAfter: max(id.policy.Wait, soonestRetry)}
}
