package txidem

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/toolcall"
)

// RunLeased calls do for an effect outside the database, such as a payment, that must be answered synchronously. No
// transaction is open meanwhile: the claim is committed first, with a lease that is renewed while do runs, and the answer
// is recorded behind it. Where an outbox or a job will do, they are better: an effect elsewhere and a commit here cannot
// be one, and an attempt that is cut off in between leaves open whether it had its effect.
//
// What can be done about that is to give the other system a key to recognise the effect by, and to ask it. The call in do's
// context has one, [toolcall.Call.DownstreamKey], which stays the same for each attempt of the intent. When an attempt was cut
// off, the next call
//
//   - calls ask, if it is not nil: it finds out by the downstream key whether the effect happened. Its answer is recorded; if
//     it found none, do runs again. An error of ask changes nothing, and the next call asks again;
//   - else, under Policy.OnLeaseLost = Block, the default, gets [ErrBlocked], until a call with an ask finds the
//     effect or Store.Forget frees the call; ErrBlocked says which of the two;
//   - or, under RerunLost, runs do again, with the same downstream key.
//
// An answer and a failure made by [Fail] are recorded and replayed. An error marked by [NotDone] says that nothing happened:
// the claim goes and the next call runs. After any other error, a panic, and a cancelled context, it is open what happened, as
// if the attempt had been cut off; the error says so with [ErrBlocked], or [ErrOutcomeUnknown] where a repeated call finds out.
// So it is after NotDone of an attempt that came after one that was cut off, for which it cannot speak.
//
// A lease that cannot be renewed is lost: do's context is cancelled before it ends, with the cause [ErrLeaseLost]. What an attempt
// that has lost its lease says later changes nothing. Statements that do queues by Call.AtFinish commit with the answer;
// they are those that [Batch.Queue] takes.
//
// A duplicate of a running call gets [ErrInProgress] at once, and one with other arguments [ErrKeyReused], since the claim can be
// seen; Policy.Wait plays no part. An identity that was run by Run, RunTx or RunBatch is refused with [ErrOtherWay], and the other
// way round. The role needs update on the table, and hears ErrPermission before the effect where it lacks it.
func RunLeased[T any](ctx context.Context, s *Store, req Request, do func(ctx context.Context) (T, error), ask func(ctx context.Context) (answer T, found bool, err error)) (Result[T], error) {
	if do == nil { // found out behind the claim, it would block the call
		return Result[T]{}, errors.New("txidem: RunLeased needs a function that has the effect")
	}
	var value T
	h := leasedHandler{do: func(ctx context.Context) ([]byte, error) {
		v, err := do(ctx)
		if err != nil {
			return nil, err
		}
		value = v
		return encodeAnswer(v)
	}}
	if ask != nil {
		h.ask = func(ctx context.Context) ([]byte, bool, error) {
			v, found, err := ask(ctx)
			if err != nil || !found {
				return nil, false, err
			}
			value = v
			raw, err := encodeAnswer(v)
			return raw, true, err
		}
	}
	out, err := s.run(ctx, req, way{
		name:      WayLeased,
		protected: func(ctx context.Context, id *identity) (outcome, error) { return s.decideLeased(ctx, id, h) },
		bare: func(ctx context.Context, id *identity) (outcome, error) {
			raw, err := s.unprotectedLeased(ctx, id, h)
			return outcome{raw: raw}, err
		},
		work: func(id *identity) work {
			return func(ctx context.Context) ([]byte, error) {
				id.event.Runs++
				return perform(ctx, id, &lease{}, h.do)
			}
		},
	})
	return resultOf(out, value, err)
}

// leasedHandler is what the core knows of the user's two functions.
type leasedHandler struct {
	do  func(ctx context.Context) ([]byte, error)
	ask func(ctx context.Context) (answer []byte, found bool, err error) // may be nil
}

// roundsLeased bounds how often a call looks again after a rival was faster.
const roundsLeased = 3

// decideLeased replays what is recorded, leaves what is running, and runs what is free or was cut off.
func (s *Store) decideLeased(ctx context.Context, id *identity, h leasedHandler) (outcome, error) {
	var expired *record // seen in the round before, to be replaced
	for range roundsLeased {
		l, rec, err := s.claimLease(ctx, id, expired)
		switch {
		case err != nil:
			return outcome{}, err
		case l != nil:
			id.event.Takeover = expired != nil
			return s.runLease(ctx, id, l, h, false)
		case rec == nil:
			return outcome{}, inProgress(id) // another way to run holds the lock, or a rival is claiming
		case rec.expired && id.policy.OnExpired == Rerun:
			expired = rec
		case rec.state != stateRunning:
			out, err := s.replay(ctx, id, rec, s.pool)
			if !errors.Is(err, errLost) {
				return out, err
			}
		default:
			if l, err = s.takeOver(ctx, id, rec, h.ask != nil); err != nil {
				return outcome{}, err
			}
			if l != nil {
				id.event.Takeover = true
				return s.runLease(ctx, id, l, h, true)
			}
		}
	}
	return outcome{}, inProgress(id)
}

// takeOver takes the lease of a running record if it has run out and may be taken over. It returns nil if a rival did.
func (s *Store) takeOver(ctx context.Context, id *identity, rec *record, canAsk bool) (*lease, error) {
	if err := s.admit(ctx, id, rec); err != nil {
		return nil, err
	}
	if err := rec.ranAlike(id); err != nil {
		return nil, err
	}
	switch {
	case rec.live:
		return nil, inProgress(id)
	case !canAsk && id.policy.OnLeaseLost == Block:
		return nil, fmt.Errorf("%w: %s %s", ErrBlocked, id.tool, id.ID)
	}
	return s.takeLease(ctx, id, rec)
}

// runLease runs the handler under the lease and ends that.
func (s *Store) runLease(ctx context.Context, id *identity, l *lease, h leasedHandler, cutOff bool) (out outcome, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	l.cancel, l.taken = cancel, cutOff
	s.leases.hold(l)
	defer s.leases.drop(l)
	if ctx.Err() != nil {
		return outcome{}, s.notBegun(ctx, id, l, cutOff)
	}
	ended := false
	defer func() {
		if !ended { // the handler ended the goroutine
			s.leaveOpen(ctx, id, l)
		}
	}()
	answer, found, err := []byte(nil), false, error(nil)
	if cutOff && h.ask != nil {
		if answer, found, err = h.askFor(ctx, id, l); err != nil {
			ended = true
			s.leaveOpen(ctx, id, l)
			return outcome{}, s.openEnd(ctx, id, err, true)
		}
	}
	if !found {
		id.event.Runs++
		answer, err = perform(ctx, id, l, h.do)
	}
	out, err = s.settleLease(ctx, id, l, answer, err, h.ask != nil)
	ended = true
	return out, err
}

// notBegun gives up a lease under which nothing was done: the caller left, or the claim took longer than the lease lasts.
func (s *Store) notBegun(ctx context.Context, id *identity, l *lease, cutOff bool) error {
	if cutOff { // an earlier attempt may have done something
		s.leaveOpen(ctx, id, l)
	} else {
		s.free(ctx, id, l)
	}
	if cause := context.Cause(ctx); errors.Is(cause, ErrLeaseLost) {
		return fmt.Errorf("%w: the claim took longer than the lease lasts: %w", ErrUnavailable, cause)
	}
	return contextError(ctx)
}

// askFor asks the other system what an earlier attempt did.
func (h leasedHandler) askFor(ctx context.Context, id *identity, l *lease) (answer []byte, found bool, err error) {
	answer, err = perform(ctx, id, l, func(ctx context.Context) (raw []byte, err error) {
		raw, found, err = h.ask(ctx)
		return raw, err
	})
	if failure, failed := failureIn(err); failed { // it is not recorded, so nobody is to take it for the call's
		err = fmt.Errorf("txidem: asking what an earlier attempt did failed: %v", failure)
	}
	return answer, found, err
}

// perform calls one of the user's functions, and keeps what it left for the end of the call. A panic becomes an error.
func perform(ctx context.Context, id *identity, l *lease, do func(context.Context) ([]byte, error)) (answer []byte, err error) {
	call := newCall(ctx, id)
	call.Epoch = l.epoch
	start := time.Now()
	defer func() {
		id.event.Handler += time.Since(start)
		if v := recover(); v != nil {
			answer, err = nil, &PanicError{Value: v, Stack: debug.Stack()}
		}
		call.Finish(nil)
		id.held = call.Held()
	}()
	answer, err = do(toolcall.NewContext(ctx, call))
	if err == nil && len(answer) > id.policy.MaxAnswer {
		err = tooLarge("it", len(answer), id.policy)
	}
	if err == nil {
		l.queued = &pgx.Batch{}
		call.Finish(l.queued) // runs code of the user's, which may panic too
		err = refuse(l.queued)
	}
	return answer, err
}

// settleLease ends the call as the handler did. canAsk says that a repeated call can find out what happened.
func (s *Store) settleLease(ctx context.Context, id *identity, l *lease, answer []byte, err error, canAsk bool) (outcome, error) {
	var notDone *notDoneError
	if errors.As(err, &notDone) && !l.taken {
		s.free(ctx, id, l)
		return outcome{}, err
	}
	cause, state := err, stateSucceeded
	var stored []byte
	if failure, failed := failureIn(err); failed {
		state = stateFailed
		answer, stored, err = s.failureAnswer(ctx, id, failure)
	} else if err == nil {
		stored, err = s.encode(ctx, id, false, answer)
	}
	var rec *record
	if err == nil {
		rec, err = s.finishLease(ctx, id, l, state, stored)
	}
	if err != nil {
		s.leaveOpen(ctx, id, l)
		return outcome{}, s.openEnd(ctx, id, err, canAsk)
	}
	s.waits.settle(id.ID, rec)
	return outcome{raw: answer, finishedAt: rec.finishedAt}, cause
}

// openEnd is what the caller hears where it is open what the attempt did.
func (s *Store) openEnd(ctx context.Context, id *identity, err error, canAsk bool) error {
	if lost := context.Cause(ctx); errors.Is(lost, ErrLeaseLost) && !errors.Is(err, ErrLeaseLost) {
		err = fmt.Errorf("%w: %w", ErrLeaseLost, err)
	}
	if !canAsk && id.policy.OnLeaseLost == Block {
		return fmt.Errorf("%w: %s %s: %w", ErrBlocked, id.tool, id.ID, err)
	}
	return &OutcomeUnknownError{ID: id.ID, Tool: id.tool, Err: err}
}

// unprotectedLeased runs the handler and what it queued, and records nothing (Policy.Disabled).
func (s *Store) unprotectedLeased(ctx context.Context, id *identity, h leasedHandler) ([]byte, error) {
	l := &lease{queued: &pgx.Batch{}}
	id.event.Runs++
	answer, err := perform(ctx, id, l, h.do)
	if err == nil && l.queued.Len() > 0 {
		if err := s.pool.SendBatch(ctx, l.queued).Close(); err != nil { // one transaction, as pgx sends it
			return nil, s.explain(ctx, err)
		}
	}
	return answer, err
}
