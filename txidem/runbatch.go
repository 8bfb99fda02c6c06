package txidem

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/toolcall"
)

// RunBatch is [Run] for handlers that need no answer from the database, in one round trip: they queue their statements and
// return their answer, and claim, effects and record commit together. Over a network that is a fraction of the time of a
// bare transaction. It suits writes whose ids are made by the caller.
//
// The handler runs before anything is sent, and also for calls that turn out to be replays: it should do nothing but
// queue. What it returns is as in Run: an answer, [Fail], or another error. Its context carries the [toolcall.Call], whose
// AtFinish queues behind the batch, and takes the same statements.
//
// Where the call is running or recorded already, or Postgres asks for a repeat, RunBatch goes on as Run does, with the
// statements that are queued: it waits, replays, or runs them again. After that, calls of the tool go the way of Run for a
// moment, since an error in a batch makes pgx prepare its statements anew.
//
// Policy.CommitTimeout bounds the whole round trip, which does not end with ctx.
func RunBatch[T any](ctx context.Context, s *Store, req Request, handler func(ctx context.Context, b *Batch) (T, error)) (Result[T], error) {
	var value T
	queue := func(ctx context.Context, b *Batch) ([]byte, error) {
		v, err := handler(ctx, b)
		if err != nil {
			return nil, err
		}
		value = v
		return encodeAnswer(v)
	}
	out, err := s.run(ctx, req, way{
		name: WayBatch,
		protected: func(ctx context.Context, id *identity) (outcome, error) {
			b := &Batch{store: s}
			answer, err := b.fill(ctx, id, queue)
			return s.decideBatch(ctx, id, b, answer, err)
		},
		bare: func(ctx context.Context, id *identity) (outcome, error) {
			b := &Batch{store: s}
			return s.unprotected(ctx, id, b.handler(b.fill(ctx, id, queue)))
		},
		work: func(id *identity) work {
			return func(ctx context.Context) ([]byte, error) { return (&Batch{store: s}).fill(ctx, id, queue) }
		},
	})
	return resultOf(out, value, err)
}

// fill calls the handler. A panic becomes an error.
func (b *Batch) fill(ctx context.Context, id *identity, queue func(context.Context, *Batch) ([]byte, error)) (answer []byte, err error) {
	call := newCall(ctx, id)
	start := time.Now()
	defer func() {
		if v := recover(); v != nil {
			answer, err = nil, &PanicError{Value: v, Stack: debug.Stack()}
		}
		call.Finish(nil)
		b.held = call.Held()
		id.held = b.held
		id.event.Handler += time.Since(start)
	}()
	answer, err = queue(toolcall.NewContext(ctx, call), b)
	b.over = true
	switch {
	case err != nil:
		return nil, err
	case b.err != nil:
		return nil, b.err
	case len(answer) > id.policy.MaxAnswer:
		return nil, tooLarge("it", len(answer), id.policy)
	}
	if err := b.finish(call); err != nil {
		return nil, err
	}
	return answer, b.err
}

// decideBatch sends everything at once where that may do. Where it does not, nothing has happened yet, and the call goes
// the way of Run.
func (s *Store) decideBatch(ctx context.Context, id *identity, b *Batch, answer []byte, err error) (outcome, error) {
	if errors.Is(err, ErrBatchSQL) {
		return outcome{}, err
	}
	if err == nil && s.slow.free(id.tool) {
		out, err := s.sendBatch(ctx, id, b, answer)
		if !errors.Is(err, errNotBatch) {
			return out, err
		}
		id.event.Runs = 0
		s.slow.block(id.tool)
	}
	return s.decide(ctx, id, b.handler(answer, err))
}

// errNotBatch says that a batch had no effect and that its call needs a dialogue.
var errNotBatch = errors.New("txidem: the batch was not taken")

// sendBatch is the one round trip: BEGIN, the lock, the record, what the handler queued, COMMIT. The record comes first: the
// effects of a call that is recorded already are not even tried, and an error behind it is the user's.
func (s *Store) sendBatch(ctx context.Context, id *identity, queue *Batch, answer []byte) (outcome, error) {
	stored, err := s.encode(ctx, id, false, answer)
	if err != nil {
		return outcome{}, errNotBatch // a replay needs none
	}
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return outcome{}, s.explain(ctx, err)
	}
	c := newClaim(conn)
	defer s.waits.release(id.ID)
	defer c.giveBack(ctx)
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), id.policy.CommitTimeout)
	defer cancel()
	defer id.event.commit(time.Now())

	rec := newRecord(id, c.token, stateSucceeded, stored)
	b, v := &pgx.Batch{}, &verdict{ours: errNotBatch} // until the record's answer is read
	b.BeginTx(pgx.TxOptions{IsoLevel: id.policy.Isolation, AccessMode: pgx.ReadWrite})
	s.queueClaim(b, s.sql.claimsBatch, id, c)
	s.queueRecord(b, id, rec).QueryRow(v.readTime(rec))
	effects := &pgx.Batch{}
	queue.queueOn(effects)
	v.watch(effects)
	b.QueuedQueries = append(b.QueuedQueries, effects.QueuedQueries...)
	v.queueCommit(b)
	id.event.Runs++
	results := conn.SendBatch(limited, b)
	c.tx = results.Tx()
	err = results.Close()
	s.logCallback(ctx, id, v)

	switch {
	case v.committed() && c.synchronous && limited.Err() != nil: // as in finish
		err = &OutcomeUnknownError{ID: id.ID, Tool: id.tool, Err: limited.Err()}
	case v.committed():
		s.waits.settle(id.ID, rec)
		return outcome{raw: answer, finishedAt: rec.finishedAt}, nil
	case c.status() == txLost:
		err = c.lost(id, err)
	case err == nil && v.commit.String() != "ROLLBACK":
		err = c.refused(id, v, nil)
	default:
		return outcome{}, rowCount(v.batchError(err))
	}
	return s.resolvedBatch(ctx, id, c, answer, err)
}

// batchError says what the server's "no" means: nothing was committed.
func (v *verdict) batchError(err error) error {
	switch {
	case v.ours != nil, isStale(err), hasCode(err, codeSerialization, codeDeadlock):
		return errNotBatch // our own statements failed, or a repeat may help: Run knows what to make of it
	case v.commit.String() == "ROLLBACK":
		return ErrTxAborted
	}
	return err
}

// rowCount gives an error of MustAffect its name.
func rowCount(err error) error {
	if hasCode(err, codeRowCount) {
		return fmt.Errorf("%w: %w", ErrRowCount, err)
	}
	return err
}

// resolvedBatch finds out what became of a batch whose answer was lost. The lock comes with the batch: where the resolver is
// faster than a server that has yet to read it, "undone" means no more than that Run may ask for the call. Its lock and its
// record then refuse the batch that comes late.
func (s *Store) resolvedBatch(ctx context.Context, id *identity, c *claim, answer []byte, err error) (outcome, error) {
	rec, err := s.resolved(ctx, id, c, nil, err)
	switch {
	case errors.Is(err, errUndone):
		return outcome{}, errNotBatch
	case err != nil:
		return outcome{}, err
	}
	s.waits.settle(id.ID, rec)
	return outcome{raw: answer, finishedAt: rec.finishedAt}, nil
}

// slowTools are the tools whose calls do not try one round trip for now.
type slowTools struct {
	mu    sync.Mutex
	until map[string]time.Time
}

const (
	slowFor  = time.Second // long enough for a burst of duplicates to be over
	slowMost = 1024        // tools
)

func (t *slowTools) free(tool string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	until, ok := t.until[tool]
	if ok && time.Now().After(until) {
		delete(t.until, tool)
		ok = false
	}
	return !ok
}

func (t *slowTools) block(tool string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.until == nil || len(t.until) >= slowMost {
		t.until = make(map[string]time.Time)
	}
	t.until[tool] = time.Now().Add(slowFor)
}
