package txidem

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txonce/txonce/internal/handlertx"
	"github.com/txonce/txonce/toolcall"
)

// MemoryConfig is what a store of [NewMemory] can be told.
type MemoryConfig struct {
	// Begin makes the transaction that a handler of Run gets: a stub of the test's. It is committed when the handler returns
	// nil and rolled back else. RunTx uses the one that it is given. Defaults to one whose every method fails and says so.
	Begin func(ctx context.Context) (pgx.Tx, error)

	// Now is the clock by which records expire. Defaults to time.Now.
	Now func() time.Time
}

// NewMemory makes a store that keeps its records in this process and needs no Postgres: for unit tests of handlers and of what
// calls them. Keys, arguments, replays, failures, expiry, duplicates and errors are those of a real store; what a real
// transaction would do is not: nothing is atomic, statements that are queued (RunBatch, Call.AtFinish) are dropped, after an error
// that is not recorded the key is free, also in RunLeased, and a record that is held (Call.Hold) stays until it is forgotten, for
// nobody can give it an expiry. What must hold in production is for package txidemtest to prove, on Postgres.
//
// Of cfg, Schema plays no part. Either argument may be nil.
func NewMemory(cfg *Config, memory *MemoryConfig) (*Store, error) {
	if cfg == nil {
		cfg = &Config{}
	}
	s, err := newStore(cfg)
	if err != nil {
		return nil, err
	}
	m := &memoryStore{store: s, begin: noBegin, now: time.Now, of: make(map[toolcall.ID]*memoryCall)}
	if memory != nil && memory.Begin != nil {
		m.begin = memory.Begin
	}
	if memory != nil && memory.Now != nil {
		m.now = memory.Now
	}
	s.memory = m
	return s, nil
}

// memoryStore stands in for the table and its locks.
type memoryStore struct {
	store *Store
	begin func(context.Context) (pgx.Tx, error)
	now   func() time.Time

	mu sync.Mutex
	of map[toolcall.ID]*memoryCall
}

// memoryCall is a call that runs, or has ended with a record.
type memoryCall struct {
	ended     chan struct{} // closed when it does not run any more
	scope     string        // whose it is
	record    *record       // nil while it runs
	expiresAt time.Time     // zero where it is held
	tombstone bool          // it stays when it has expired
}

// work is what a call does once it is known that it may.
type work func(ctx context.Context) (answer []byte, err error)

// decide replays what is recorded, runs what is free, and waits for what is running.
func (m *memoryStore) decide(ctx context.Context, id *identity, wait time.Duration, do work) (outcome, error) {
	timer := time.NewTimer(max(0, wait))
	defer timer.Stop()
	for {
		mine, other := m.claim(id)
		switch {
		case mine == nil && other == nil:
			return outcome{}, overQuota(id)
		case mine != nil:
			return m.run(ctx, id, mine, do)
		case other.record != nil:
			return m.store.replay(ctx, id, other.record, nil)
		}
		select {
		case <-other.ended:
		case <-timer.C:
			return outcome{}, inProgress(id)
		case <-ctx.Done():
			return outcome{}, contextError(ctx)
		}
	}
}

// claim takes the call, or returns who has it, or neither where its scope has too many live records.
func (m *memoryStore) claim(id *identity) (mine, other *memoryCall) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if other = m.look(id.ID); other != nil && (other.record == nil || !other.record.expired || id.policy.OnExpired == Refuse) {
		return nil, other
	}
	if id.policy.Quota > 0 && m.live(id.scope) >= id.policy.Quota {
		return nil, nil
	}
	mine = &memoryCall{ended: make(chan struct{}), scope: id.scope}
	m.of[id.ID] = mine
	return mine, nil
}

// live counts the records of a scope that have not expired. It is called with mu held.
func (m *memoryStore) live(scope string) (n int) {
	for _, call := range m.of {
		if call.record != nil && call.record.scope == scope && !m.expired(call) {
			n++
		}
	}
	return n
}

// expired reports whether the call's record counts no more.
func (m *memoryStore) expired(call *memoryCall) bool {
	return !call.expiresAt.IsZero() && !m.now().Before(call.expiresAt)
}

// look returns the call, with a record that is its caller's own. It is called with mu held.
func (m *memoryStore) look(id toolcall.ID) *memoryCall {
	call, ok := m.of[id]
	if !ok {
		return nil
	}
	seen := *call
	if call.record != nil {
		rec := *call.record
		rec.answer = bytes.Clone(rec.answer)
		rec.expired = m.expired(call)
		seen.record = &rec
	}
	return &seen
}

// run does the work and keeps its answer or its failure.
func (m *memoryStore) run(ctx context.Context, id *identity, mine *memoryCall, do work) (out outcome, err error) {
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if mine.record == nil && m.of[id.ID] == mine {
			delete(m.of, id.ID)
		}
		close(mine.ended)
	}()
	answer, err := do(ctx)
	state, cause := stateSucceeded, err
	stored := answer
	if failure, failed := failureIn(err); failed {
		state = stateFailed
		answer, stored, err = m.store.failureAnswer(ctx, id, failure)
	} else if err == nil {
		stored, err = m.store.encode(ctx, id, false, answer)
	}
	if err != nil {
		return outcome{}, err
	}
	rec := newRecord(id, newToken(), state, bytes.Clone(stored)) // the answer is its caller's, to do with as it likes
	rec.finishedAt = m.now().UTC().Round(0)                      // like a real store's, it has no monotonic part: two of them may be compared
	m.mu.Lock()
	mine.record, mine.tombstone = rec, id.policy.OnExpired == Refuse
	if state == stateFailed || !id.held {
		mine.expiresAt = rec.finishedAt.Add(id.keep)
	}
	m.mu.Unlock()
	return outcome{raw: answer, finishedAt: rec.finishedAt}, cause
}

// inTx is the work of a handler with a transaction of the test's.
func (m *memoryStore) inTx(id *identity, h handler) work {
	return func(ctx context.Context) (answer []byte, err error) {
		tx, err := m.begin(ctx)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		committed := false
		defer func() {
			if !committed {
				_ = tx.Rollback(context.WithoutCancel(ctx))
			}
		}()
		if answer, err = m.with(id, tx, h)(ctx); err != nil {
			return nil, err
		}
		committed = true
		return answer, tx.Commit(context.WithoutCancel(ctx))
	}
}

// with is the work of a handler with the given transaction, which it does not end.
func (m *memoryStore) with(id *identity, tx pgx.Tx, h handler) work {
	return func(ctx context.Context) (answer []byte, err error) {
		call := newCall(ctx, id)
		start := time.Now()
		id.event.Runs++
		defer func() {
			call.Finish(nil)
			id.held = call.Held()
			id.event.Handler += time.Since(start)
			if v := recover(); v != nil {
				answer, err = nil, &PanicError{Value: v, Stack: debug.Stack()}
			}
		}()
		answer, err = h(toolcall.NewContext(ctx, call), &handlertx.StandIn{Tx: tx, Call: call})
		if err == nil && len(answer) > id.policy.MaxAnswer {
			err = tooLarge("it", len(answer), id.policy)
		}
		return answer, err
	}
}

// status is what Status and Resolve say.
func (m *memoryStore) status(ctx context.Context, id *identity) (toolcall.Status, error) {
	m.mu.Lock()
	call := m.look(id.ID)
	m.mu.Unlock()
	if call == nil {
		return m.store.statusOf(ctx, id, nil, false)
	}
	return m.store.statusOf(ctx, id, call.record, call.record == nil)
}

// statuses is what Statuses says.
func (m *memoryStore) statuses(ctx context.Context, asks []toolcall.Ask) ([]toolcall.Status, error) {
	statuses := make([]toolcall.Status, len(asks))
	for i, ask := range asks {
		m.mu.Lock()
		call := m.look(ask.ID)
		var rec *record
		running := call != nil && call.record == nil && call.scope == ask.Scope
		if call != nil {
			rec = call.record
		}
		m.mu.Unlock()
		var err error
		if statuses[i], err = m.store.statusByID(ctx, ask, rec, running); err != nil {
			return nil, err
		}
	}
	return statuses, nil
}

// remove forgets the records for which which is true.
func (m *memoryStore) remove(which func(toolcall.ID, *memoryCall) bool) (removed int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id := range m.of {
		if call := m.look(id); call.record != nil && which(id, call) {
			delete(m.of, id)
			removed++
		}
	}
	return removed
}

func (m *memoryStore) sweep() int64 {
	return m.remove(func(_ toolcall.ID, call *memoryCall) bool { return call.record.expired && !call.tombstone })
}

func (m *memoryStore) forget(scope string, id toolcall.ID) bool {
	return m.remove(func(other toolcall.ID, call *memoryCall) bool { return other == id && call.record.scope == scope }) > 0
}

func (m *memoryStore) forgetScope(scope string) int64 {
	return m.remove(func(_ toolcall.ID, call *memoryCall) bool { return call.record.scope == scope })
}

// errNoTx is what a handler hears from a store in memory that was given no Begin.
var errNoTx = errors.New("txidem: this store has no database; give MemoryConfig a Begin that returns a stub")

func noBegin(context.Context) (pgx.Tx, error) { return noTx{}, nil }

// noTx answers everything with errNoTx, but for its own end.
type noTx struct{}

func (noTx) Begin(context.Context) (pgx.Tx, error) { return nil, errNoTx }
func (noTx) Commit(context.Context) error          { return nil }
func (noTx) Rollback(context.Context) error        { return nil }
func (noTx) Conn() *pgx.Conn                       { return nil }
func (noTx) LargeObjects() pgx.LargeObjects        { return pgx.LargeObjects{} }

func (noTx) CopyFrom(context.Context, pgx.Identifier, []string, pgx.CopyFromSource) (int64, error) {
	return 0, errNoTx
}

func (noTx) SendBatch(_ context.Context, b *pgx.Batch) pgx.BatchResults {
	return pgx.FailedBatchResults(b, errNoTx)
}

func (noTx) Prepare(context.Context, string, string) (*pgconn.StatementDescription, error) {
	return nil, errNoTx
}

func (noTx) Exec(context.Context, string, ...any) (pgconn.CommandTag, error) {
	return pgconn.CommandTag{}, errNoTx
}
func (noTx) Query(context.Context, string, ...any) (pgx.Rows, error) { return noRows{}, errNoTx }
func (noTx) QueryRow(context.Context, string, ...any) pgx.Row        { return noRows{} }

// noRows is the row of a noTx.
type noRows struct{ pgx.Rows }

func (noRows) Scan(...any) error { return errNoTx }
func (noRows) Err() error        { return errNoTx }
func (noRows) Close()            {}
func (noRows) Next() bool        { return false }
