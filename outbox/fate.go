package outbox

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/txonce/txonce/toolcall"
)

// Fate is all that is known about a message, for operators and for Destination.OnOutcome. All times are by the database's clock.
type Fate struct {
	ID          toolcall.ID
	Scope       string      // whose call published it
	Call        toolcall.ID // that call or job; zero if there was none
	Tool        string
	Destination string
	Effect      string
	Key         string
	OrderingKey string
	Address     string
	Type        string
	PublishedAt time.Time

	State         toolcall.MessageState
	Attempts      int       // that have begun
	Status        int       // of the last answer
	ProviderID    string    // of the last answer
	Reason        string    // why the last attempt was not taken
	Response      []byte    // what the publisher kept of the last answer
	NextAttemptAt time.Time // while it is pending
	EndedAt       time.Time // when it has ended
	Blocking      bool      // it has failed, and the messages behind it wait
}

// Fate looks up a message. It is for operators: callers are told less, and only of what is theirs ([Outbox.Messages]). The errors are
// ErrNotFound and those of the database.
func (o *Outbox) Fate(ctx context.Context, id toolcall.ID) (Fate, error) {
	found, f := false, Fate{}
	err := o.read(ctx, func(rows pgx.Rows) error {
		for rows.Next() {
			found = true
			if err := f.scan(rows, nil); err != nil {
				return err
			}
		}
		return rows.Err()
	}, o.sql.fate, uuidOf(id))
	if err == nil && !found {
		return Fate{}, ErrNotFound
	}
	return f, explain(ctx, err)
}

func (o *Outbox) fateIn(ctx context.Context, tx pgx.Tx, id toolcall.ID) (Fate, error) {
	var f Fate
	err := f.scan(tx.QueryRow(ctx, o.sql.fate, uuidOf(id)), nil)
	if errors.Is(err, pgx.ErrNoRows) {
		err = ErrNotFound
	}
	return f, err
}

// scan reads the columns of fateColumns, between others.
func (f *Fate) scan(row pgx.Row, before []any, behind ...any) error {
	var id, call pgtype.UUID
	var published, next, ended int64
	var hex string
	to := append(before, &id, &f.Scope, &call, &f.Tool, &f.Destination, &f.Effect, &f.Key, &f.OrderingKey, &f.Address, &f.Type, &published,
		&f.State, &f.Attempts, &f.Status, &f.ProviderID, &f.Reason, &f.Response, &next, &ended, &f.Blocking, &hex)
	if err := row.Scan(append(to, behind...)...); err != nil {
		return err
	}
	f.ID, f.Call = id.Bytes, call.Bytes
	f.PublishedAt, f.NextAttemptAt, f.EndedAt = timeOf(published), timeOf(next), timeOf(ended)
	return nil
}

// mostOfCall bounds how many messages of one call are told of.
const mostOfCall = 50

var _ toolcall.MessageSource = (*Outbox)(nil)

// Messages tells callers what became of the messages that their calls and jobs have sent: the first 50 of each. It makes the outbox a
// [toolcall.MessageSource] for the status tool.
func (o *Outbox) Messages(ctx context.Context, asks []toolcall.Ask) ([][]toolcall.MessageStatus, error) {
	ids, scopes := make([]string, len(asks)), make([]string, len(asks))
	for i, ask := range asks {
		ids[i] = ask.ID.String()
		if validText(ask.Scope) {
			scopes[i] = ask.Scope
		}
	}
	found := make([][]toolcall.MessageStatus, len(asks))
	err := o.read(ctx, func(rows pgx.Rows) error {
		for rows.Next() {
			var place int
			var f Fate
			if err := f.scan(rows, []any{&place}); err != nil {
				return err
			}
			if asks[place-1].Scope != "" { // what was published outside a call is nobody's
				found[place-1] = append(found[place-1], f.status())
			}
		}
		return rows.Err()
	}, o.sql.ofCalls, ids, scopes, mostOfCall)
	if err != nil {
		return nil, explain(ctx, err)
	}
	return found, nil
}

// status is what the caller is told.
func (f *Fate) status() toolcall.MessageStatus {
	return toolcall.MessageStatus{
		ID: f.ID, Destination: f.Destination, Effect: f.Effect, State: f.State, Attempts: f.Attempts, Status: f.Status,
		ProviderID: f.ProviderID, NextAttemptAt: f.NextAttemptAt, EndedAt: f.EndedAt,
	}
}
