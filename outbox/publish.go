package outbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/internal/handlertx"
	"github.com/txonce/txonce/toolcall"
)

// PublishTx publishes a message in tx: it is delivered if and only if tx commits. In the handler of a protected call, and in the
// commit half of a job, with the tx that it was given, it travels with the record in the call's last round trip and costs
// none of its own; an error of the database then fails the call. In any other transaction, a savepoint of the handler's among
// them, it is written at once.
//
// The errors are ErrMessage, ErrUnknownDestination and ErrSameEffect, what a publisher that is a [Checker] says, and, where it
// is written at once, those of the database: then roll tx back.
//
// Messages with an ordering key are delivered in the order of their commits, so transactions that publish under the same one
// to the same destination wait for each other: those of calls for a round trip, others from here to their end. Publish last
// there, and under several keys in the same order everywhere, or Postgres may find a deadlock (40P01).
func (o *Outbox) PublishTx(ctx context.Context, tx pgx.Tx, m Message) (toolcall.ID, error) {
	if tx == nil {
		return toolcall.ID{}, errors.New("outbox: PublishTx needs a transaction; pass on the handler's tx")
	}
	if call, ok := handlertx.CallOf(tx); ok {
		return o.atFinish(call, m)
	}
	call, _ := toolcall.FromContext(ctx)
	if call != nil && call.Over() { // the context outlived its call
		call = nil
	}
	r, err := o.rowOf(call, m)
	if err != nil {
		return toolcall.ID{}, err
	}
	b := &pgx.Batch{}
	o.queueRows(b, []*row{r})
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return toolcall.ID{}, explain(ctx, err)
	}
	o.wake()
	return r.id, nil
}

// Publish is PublishTx for handlers that have no transaction, those of RunBatch and RunLeased: the message commits with the
// record of the call that runs in ctx. Outside one it returns ErrNoCall.
func (o *Outbox) Publish(ctx context.Context, m Message) (toolcall.ID, error) {
	call, ok := toolcall.FromContext(ctx)
	if !ok || call.Over() {
		return toolcall.ID{}, ErrNoCall
	}
	return o.atFinish(call, m)
}

// atFinish leaves the message for the last round trip of the call, together with the others of the call.
func (o *Outbox) atFinish(call *toolcall.Call, m Message) (toolcall.ID, error) {
	r, err := o.rowOf(call, m)
	if err != nil {
		return toolcall.ID{}, err
	}
	q := call.Value(queuedKey{o}, func() any { return &queued{} }).(*queued)
	err = q.add(call, r, func() error {
		return call.AtFinish(func(b *pgx.Batch) {
			o.queueRows(b, q.all())
			o.wake()
		})
	})
	if err != nil {
		return toolcall.ID{}, fmt.Errorf("outbox: publish before the handler returns: %w", err)
	}
	return r.id, nil
}

// wake has the relay of this process look for a message that is about to be committed.
func (o *Outbox) wake() {
	select {
	case o.woken <- struct{}{}:
	default:
	}
}
