package txidem

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/internal/handlertx"
	"github.com/txonce/txonce/toolcall"
)

// execute runs the handler in the claim's transaction and ends that, in one way or another. When it returns, the
// connection has been given back, whatever the handler did (runtime.Goexit included).
func (s *Store) execute(ctx context.Context, id *identity, c *claim, h handler) (outcome, error) {
	defer s.waits.release(id.ID)
	defer c.giveBack(ctx)

	queued := &pgx.Batch{}
	answer, err := handle(ctx, id, c, queued, h)
	var rec *record
	if err = c.check(err, id.policy); err == nil {
		var stored []byte
		if stored, err = s.encode(ctx, id, false, answer); err == nil {
			rec, err = s.finish(ctx, id, c, queued, stored)
			rec, err = s.resolved(ctx, id, c, rec, err)
		}
	}
	if err != nil {
		return s.settleError(ctx, id, c, err)
	}
	s.waits.settle(id.ID, rec)
	return outcome{raw: answer, finishedAt: rec.finishedAt}, nil
}

// resolved finds out what became of a last round trip whose answer was lost. Others it leaves as they are.
func (s *Store) resolved(ctx context.Context, id *identity, c *claim, rec *record, err error) (*record, error) {
	if err == nil {
		return rec, nil
	}
	var lost *OutcomeUnknownError
	if !errors.As(err, &lost) {
		return rec, err
	}
	return s.resolve(ctx, id, c, lost)
}

// handle runs the handler and puts on queued what it left for the end of the call. A panic becomes an error.
func handle(ctx context.Context, id *identity, c *claim, queued *pgx.Batch, h handler) (answer []byte, err error) {
	call := newCall(ctx, id)
	tx, watch := handlertx.New(call, c.db, c.tx, c.sent)
	start := time.Now()
	id.event.Runs++
	defer func() {
		call.Finish(nil)
		id.held = call.Held()
		watch.End()
		c.ended, c.idle = watch.Ended(), watch.Idle()
		id.event.Handler += time.Since(start)
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	answer, err = h(toolcall.NewContext(ctx, call), tx)
	if err != nil {
		return nil, err
	}
	if len(answer) > id.policy.MaxAnswer {
		return nil, tooLarge("it", len(answer), id.policy)
	}
	call.Finish(queued)
	return answer, nil
}

// newCall is what the handler finds in its context.
func newCall(ctx context.Context, id *identity) *toolcall.Call {
	outer, inside := toolcall.FromContext(ctx)
	if inside && outer.Over() { // the context outlived its call
		outer = nil
	}
	call := &toolcall.Call{ID: id.ID, Scope: id.scope, Tool: id.tool, Key: id.key, Outer: outer}
	if !id.policy.Disabled { // else there is no record
		call.Keep = id.keep
	}
	return call
}

// check looks at what the handler left behind: err is what it returned, and the state of the transaction is what it
// did.
func (c *claim) check(err error, policy Policy) error {
	status := c.status()
	switch {
	case c.ended || status == txNone: // COMMIT or ROLLBACK by raw SQL, whatever came behind it
		return errEscaped
	case status == txLost:
		return c.broken(err, policy)
	case status == txAborted && err == nil:
		return ErrTxAborted
	}
	return err
}

// broken says what a connection that was lost while the handler ran makes of its error. Nothing was committed.
func (c *claim) broken(err error, policy Policy) error {
	_, failed := failureIn(err)
	switch {
	case err == nil:
		err = fmt.Errorf("%w: the connection was lost while the handler ran", ErrUnavailable)
	case failed, errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err // it was the handler's context that closed the connection, or the handler does not mind
	}
	if hasCode(err, codeIdleInTxTimeout) || c.idle >= policy.IdleInTx {
		return idleTooLong(err)
	}
	if errors.Is(err, ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: the connection was lost while the handler ran: %w", ErrUnavailable, err)
}

func idleTooLong(err error) error {
	return fmt.Errorf("%w; do slow work before the call or in a job: %w", ErrIdleTooLong, err)
}
