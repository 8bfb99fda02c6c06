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
	Value      T               // the zero value with an error
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
	h := answering(&value, handler)
	out, err := s.run(ctx, req, way{
		name:      WayRun,
		protected: func(ctx context.Context, id *identity) (outcome, error) { return s.decide(ctx, id, h) },
		bare:      func(ctx context.Context, id *identity) (outcome, error) { return s.unprotected(ctx, id, h) },
		work:      func(id *identity) work { return s.memory.inTx(id, h) },
	})
	return resultOf(out, value, err)
}

// handler is what the core knows of the user's function: it answers with bytes.
type handler func(ctx context.Context, tx pgx.Tx) ([]byte, error)

// answering makes a handler of the user's function. The value is what it returned last.
func answering[T any](value *T, handler func(ctx context.Context, tx pgx.Tx) (T, error)) handler {
	return func(ctx context.Context, tx pgx.Tx) ([]byte, error) {
		v, err := handler(ctx, tx)
		if err != nil {
			return nil, err
		}
		*value = v
		return encodeAnswer(v)
	}
}

type outcome struct {
	id         toolcall.ID
	raw        []byte
	replayed   bool
	finishedAt time.Time
}

// resultOf is what the caller gets. value is the handler's, if it ran.
func resultOf[T any](out outcome, value T, err error) (Result[T], error) {
	result := Result[T]{Raw: out.raw, ID: out.id, Replayed: out.replayed, FinishedAt: out.finishedAt}
	if err != nil {
		return result, err
	}
	if out.replayed {
		var recorded T
		if err := decodeAnswer(out.raw, &recorded); err != nil {
			return result, err
		}
		value = recorded
	}
	result.Value = value
	return result, nil
}

// way is one of the ways to run a call: as it is meant to be, under Policy.Disabled, and what is left of it without Postgres.
type way struct {
	name            Way
	protected, bare func(context.Context, *identity) (outcome, error)
	work            func(*identity) work
}

func (s *Store) run(ctx context.Context, req Request, w way) (outcome, error) {
	start := time.Now()
	event := Event{Decision: DecidedReleased, Way: w.name, Scope: req.Scope, Tool: req.Tool, Derived: req.Key == ""}
	defer func() { // also where the handler ended the goroutine
		s.changes.Notify()
		event.Total = time.Since(start)
		s.observe(ctx, event)
	}()
	out, err := s.accept(ctx, req, w, &event)
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

// accept refuses bad requests and lets the others run.
func (s *Store) accept(ctx context.Context, req Request, w way, event *Event) (outcome, error) {
	outer, inside := toolcall.FromContext(ctx)
	inside = inside && !outer.Over()
	if inside && w.name != WayTx {
		return outcome{}, ErrNested
	}
	id, err := s.identify(req)
	if err != nil {
		return outcome{}, err
	}
	if inside && outer.Within(id.ID) {
		return outcome{id: id.ID}, ErrNested
	}
	id.event, id.leased = event, w.name == WayLeased
	var out outcome
	if id.policy.Disabled {
		event.Decision = DecidedUnprotected
		s.log.WarnContext(ctx, "txidem: a call runs without protection, by Policy.Disabled", "tool", id.tool, "call", id.ID, "unprotected", true)
	}
	switch {
	case s.memory != nil:
		out, err = s.decideHere(ctx, id, w)
	case id.policy.Disabled:
		out, err = w.bare(ctx, id)
	default:
		if w.name != WayTx { // which must not read in front of its savepoint
			if err = s.withinQuota(ctx, id, s.pool); err != nil {
				err = s.explain(ctx, err)
			}
		}
		if err == nil {
			out, err = w.protected(ctx, id)
		}
		if err == nil && !out.replayed {
			s.quotas.add(id)
		}
	}
	out.id = id.ID
	return out, err
}

// decideHere is what takes the place of w.protected and w.bare where there is no Postgres.
func (s *Store) decideHere(ctx context.Context, id *identity, w way) (outcome, error) {
	wait := id.policy.Wait
	switch {
	case id.policy.Disabled:
		raw, err := w.work(id)(ctx)
		return outcome{raw: raw}, err
	case w.name == WayTx, w.name == WayLeased:
		wait = NoWait
	}
	return s.memory.decide(ctx, id, wait, w.work(id))
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
		out, err := s.replay(ctx, id, rec, s.pool)
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
func (s *Store) replay(ctx context.Context, id *identity, rec *record, from querier) (outcome, error) {
	if err := s.admit(ctx, id, rec); err != nil {
		return outcome{}, err
	}
	if err := rec.ranAlike(id); err != nil {
		return outcome{}, err
	}
	if rec.expired {
		return outcome{}, &ExpiredError{ID: id.ID, Tool: id.tool, FinishedAt: rec.finishedAt}
	}
	answer, err := s.answerOf(ctx, id, rec, from)
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
	err = s.authorize(ctx, rec.recorded(id))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotAllowed, err)
	}
	return nil
}

// answerOf returns the record's answer. A large one did not come with the record (R07). It returns errLost if the
// record is gone.
func (s *Store) answerOf(ctx context.Context, id *identity, rec *record, from querier) (answer []byte, err error) {
	if rec.answer != nil {
		return s.decode(ctx, id, rec, bytes.Clone(rec.answer)) // others may have the record too
	}
	err = from.QueryRow(ctx, s.sql.answer, uuidOf(id), rec.attempt).Scan(&answer, nil)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, errLost
	case ctx.Err() != nil:
		return nil, contextError(ctx)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return s.decode(ctx, id, rec, answer)
}

// querier is a pool, or a transaction that must see what it has written.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// soonestRetry keeps a caller who waits not at all from asking all the time.
const soonestRetry = time.Second

func inProgress(id *identity) error {
	return &InProgressError{ID: id.ID, Tool: id.tool, RetryAfter: max(id.policy.Wait, soonestRetry)}
}
