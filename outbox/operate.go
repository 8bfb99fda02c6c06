package outbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/toolcall"
)

// Cancel ends a message that is not being delivered: it is cancelled, or unknown where an earlier attempt got no answer. Those
// that waited behind it go on. The errors are ErrNotFound, ErrEnded, ErrDelivering and those of the database.
func (o *Outbox) Cancel(ctx context.Context, id toolcall.ID) error {
	err := pgx.BeginTxFunc(ctx, o.pool, readCommitted, func(tx pgx.Tx) error {
		var delivering, doubtful, dead bool
		switch err := tx.QueryRow(ctx, o.sql.lock, uuidOf(id)).Scan(&delivering, &doubtful, &dead); {
		case errors.Is(err, pgx.ErrNoRows), err == nil && dead:
			if _, err := o.fateIn(ctx, tx, id); err != nil {
				return err
			}
			return ErrEnded
		case err != nil:
			return err
		case delivering:
			return ErrDelivering
		}
		fate, err := o.fateIn(ctx, tx, id)
		if err != nil {
			return err
		}
		state, reason := toolcall.MessageCancelled, "an operator cancelled it"
		if doubtful {
			state, reason = toolcall.MessageUnknown, "an operator cancelled it; an earlier attempt got no answer"
		}
		d := o.destinations[fate.Destination]
		if d == nil {
			return fmt.Errorf("%w: %.80q", ErrUnknownDestination, fate.Destination)
		}
		_, err = tx.Exec(ctx, o.sql.cancel, uuidOf(id), string(state), reason, d.keep(state).Seconds(), d.OnOutcome != nil)
		return err
	})
	return o.explainOne(ctx, err)
}

// Redrive has a message sent again that failed, is unknown or has expired, with all its attempts, the same id and the same
// key. With an ordering key it goes before those that are still waiting, and beside the one that is being delivered. For a
// message that is unknown this is a decision: the receiver may do it twice, if it has forgotten the key. Of two who do so at
// once, one gets ErrNotDead. The errors are ErrNotFound, ErrNotDead and those of the database.
func (o *Outbox) Redrive(ctx context.Context, id toolcall.ID) error {
	return o.change(ctx, id, o.sql.redrive)
}

// Skip lets the messages go on that wait behind one that failed or is unknown ([BlockKey]). The errors are ErrNotFound,
// ErrNotDead, where it does not keep any waiting, and those of the database.
func (o *Outbox) Skip(ctx context.Context, id toolcall.ID) error {
	return o.change(ctx, id, o.sql.skip)
}

// change runs a statement on a dead message.
func (o *Outbox) change(ctx context.Context, id toolcall.ID, sql string) error {
	tag, err := o.exec(ctx, sql, uuidOf(id))
	if err != nil {
		return explain(ctx, err)
	}
	if tag.RowsAffected() > 0 {
		o.wake()
		return nil
	}
	if _, err := o.Fate(ctx, id); err != nil {
		return err
	}
	return ErrNotDead
}

// RedriveAll is Redrive for up to limit messages of a destination that are in one of the states (failed and unknown where none is
// named), the oldest first. It returns how many are sent again.
func (o *Outbox) RedriveAll(ctx context.Context, destination string, limit int, states ...toolcall.MessageState) (int, error) {
	if states == nil {
		states = []toolcall.MessageState{toolcall.MessageFailed, toolcall.MessageUnknown}
	}
	names := make([]string, len(states))
	for i, state := range states {
		names[i] = string(state)
	}
	var ids [][16]byte
	err := o.read(ctx, func(rows pgx.Rows) (err error) {
		ids, err = pgx.CollectRows(rows, pgx.RowTo[[16]byte])
		return err
	}, o.sql.redriveDead, destination, names, max(limit, 0))
	if err != nil {
		return 0, explain(ctx, err)
	}
	n := 0
	for _, id := range ids {
		switch err := o.Redrive(ctx, id); {
		case err == nil:
			n++
		case !errors.Is(err, ErrNotDead) && !errors.Is(err, ErrNotFound): // somebody else was faster
			return n, err
		}
	}
	return n, nil
}

// Pause keeps all relays from beginning attempts at a destination, until Resume. What is under way goes on. why is for people.
func (o *Outbox) Pause(ctx context.Context, destination, why string) error {
	if !validName(destination) {
		return fmt.Errorf("%w: %.80q", ErrUnknownDestination, destination)
	}
	_, err := o.exec(ctx, o.sql.pause, destination, cut(why, mostReason))
	return explain(ctx, err)
}

// Resume ends what Pause began, and what a receiver began that is gone or wants to be left alone for a while.
func (o *Outbox) Resume(ctx context.Context, destination string) error {
	_, err := o.exec(ctx, o.sql.resume, destination)
	o.wake()
	return explain(ctx, err)
}

// explainOne is explain for errors of which some are our own.
func (o *Outbox) explainOne(ctx context.Context, err error) error {
	for _, own := range []error{ErrNotFound, ErrEnded, ErrDelivering, ErrUnknownDestination} {
		if errors.Is(err, own) {
			return err
		}
	}
	return explain(ctx, err)
}
