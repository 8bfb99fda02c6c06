package txidem

import (
	"context"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/txonce/txonce/toolcall"
)

// Statuses says how far the calls have come that the asks name, by id and in their order, without making or delaying any:
// it is what [Store.Status] says to those who know nothing but an id. A call that the asker's scope does not have, and one that
// Config.Authorize does not let them see, looks like one that was never made. Records that have ended cost one round trip for
// all of them; where some are missing, or were cut off, another one looks who is running, before it looks for the records again. A standby,
// which cannot know who is running, gives ErrOutcomeUnknown then, and so does a store whose policy is Disabled: a call may have
// been made that has left no record.
func (s *Store) Statuses(ctx context.Context, asks []toolcall.Ask) ([]toolcall.Status, error) {
	statuses, err := s.statuses(ctx, asks)
	if err == nil && s.policy.Disabled && slices.ContainsFunc(statuses, func(made toolcall.Status) bool { return isCall(made.ID) && made.State == toolcall.StateNone }) {
		return nil, &OutcomeUnknownError{Err: errUnprotected}
	}
	return statuses, err
}

// errUnprotected says that what has no record may have been done all the same.
var errUnprotected = errors.New("txidem: calls leave no record, by Policy.Disabled")

func (s *Store) statuses(ctx context.Context, asks []toolcall.Ask) ([]toolcall.Status, error) {
	if s.memory != nil {
		return s.memory.statuses(ctx, asks)
	}
	a := &inquiry{store: s, asks: asks}
	if err := a.read(ctx); err != nil {
		return nil, s.explain(ctx, err)
	}
	if missing := a.missing(); len(missing) > 0 {
		if err := a.look(ctx, missing); err != nil {
			return nil, s.explain(ctx, err)
		}
	}
	if len(a.records) > 0 && a.synchronous {
		limited, cancel := context.WithTimeout(ctx, s.policy.CommitTimeout)
		defer cancel()
		if err := confirm(limited, s.pool); err != nil {
			return nil, &OutcomeUnknownError{Err: err}
		}
	}
	statuses := make([]toolcall.Status, len(asks))
	for i, ask := range asks {
		var err error
		running := len(a.running) > 0 && a.running[s.lockFor(ask.Scope, ask.ID)]
		if statuses[i], err = s.statusByID(ctx, ask, a.records[ask.ID], running); err != nil {
			return nil, err
		}
	}
	return statuses, nil
}

var _ toolcall.Source = (*Store)(nil)

// Changed returns a channel that is closed when a call ends in this process.
func (s *Store) Changed() <-chan struct{} { return s.changes.Changed() }

// inquiry is what was found about many calls.
type inquiry struct {
	store       *Store
	asks        []toolcall.Ask
	records     map[toolcall.ID]*record
	running     map[int64]bool // by lock key
	synchronous bool
}

// read reads the records of all the calls. A batch of one statement would cost more.
func (a *inquiry) read(ctx context.Context) error {
	sql, args := a.query()
	rows, err := a.store.pool.Query(ctx, sql, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	return a.collect(rows)
}

func (a *inquiry) collect(rows pgx.Rows) error {
	a.records = make(map[toolcall.ID]*record, len(a.asks))
	for rows.Next() {
		id, r := pgtype.UUID{}, &record{}
		if err := r.scanStatus(rows, &id, &a.synchronous); err != nil {
			return err
		}
		a.records[id.Bytes] = r
	}
	return rows.Err()
}

// query returns the statement that reads, and its arguments. What is asked for twice is read once.
func (a *inquiry) query() (sql string, args []any) {
	if len(a.asks) == 1 {
		return a.store.sql.readOne, []any{pgtype.UUID{Bytes: a.asks[0].ID, Valid: true}, maxAnswer, scopeIn(a.asks[0])}
	}
	ids, scopes := make([]string, 0, len(a.asks)), make([]string, 0, len(a.asks))
	seen := make(map[toolcall.Ask]struct{}, len(a.asks))
	for _, ask := range a.asks {
		if _, twice := seen[ask]; !twice {
			seen[ask] = struct{}{}
			ids, scopes = append(ids, ask.ID.String()), append(scopes, scopeIn(ask))
		}
	}
	return a.store.sql.readMany, []any{ids, maxAnswer, scopes}
}

// scopeIn returns the scope as Postgres takes it. No record has the empty one.
func scopeIn(ask toolcall.Ask) string {
	if checkName(ask.Scope) != nil {
		return ""
	}
	return ask.Scope
}

// missing returns the locks of calls that have no record that the asker may know of, or one of an attempt that was cut off as
// far as this server knows: a standby may not have heard of its end. An id of another version is no call's (a job's is one),
// and nobody holds its lock.
func (a *inquiry) missing() (locks []int64) {
	for _, ask := range a.asks {
		rec := a.records[ask.ID]
		if isCall(ask.ID) && (rec == nil || rec.scope != ask.Scope || rec.expired || rec.state == stateRunning && !rec.live) {
			locks = append(locks, a.store.lockFor(ask.Scope, ask.ID))
		}
	}
	return locks
}

// isCall reports whether an id is of the version that calls have.
func isCall(id toolcall.ID) bool { return id[6]>>4 == 8 }

// look reads the locks first and the records second, as Status does: one read of the locks for all.
func (a *inquiry) look(ctx context.Context, locks []int64) error {
	var standby bool
	var held []int64
	b := &pgx.Batch{}
	b.Queue("begin isolation level read committed read only")
	b.Queue(sqlRunningMany, locks).QueryRow(func(row pgx.Row) error { return row.Scan(&standby, &held) })
	sql, args := a.query()
	b.Queue(sql, args...).Query(a.collect)
	b.Queue("commit") // a connection that is given back in a transaction is closed by the pool
	err := a.store.pool.SendBatch(ctx, b).Close()
	a.running = make(map[int64]bool, len(held))
	for _, lock := range held {
		a.running[lock] = true
	}
	if err == nil && standby {
		return &OutcomeUnknownError{Err: errStandby}
	}
	return err
}

// statusByID puts in words what was found about one of them.
func (s *Store) statusByID(ctx context.Context, ask toolcall.Ask, rec *record, running bool) (toolcall.Status, error) {
	id := &identity{ID: ask.ID, scope: ask.Scope, policy: s.policy}
	nothing := toolcall.Status{ID: ask.ID, State: toolcall.StateNone}
	if running {
		nothing.State = toolcall.StateRunning
	}
	if rec == nil || rec.scope != ask.Scope || rec.expired && running {
		return nothing, nil
	}
	if toolcall.NewID(rec.scope, rec.tool, rec.key) != ask.ID { // somebody edited the table
		return toolcall.Status{}, errForeign(ask.ID)
	}
	id.tool, id.key = rec.tool, rec.key
	if err := s.allow(ctx, ask.ID, rec); errors.Is(err, ErrNotAllowed) {
		return nothing, nil
	}
	return s.tell(ctx, id, rec)
}
