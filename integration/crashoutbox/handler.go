package main

import (
	"bytes"
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/integration/internal/lives"
	"github.com/txonce/txonce/outbox"
	"github.com/txonce/txonce/toolcall"
	"github.com/txonce/txonce/txidem"
)

// handler is one run of the tool's handler: it publishes messages and enters them in the ledger.
type handler struct {
	*serving
	intent
	run    string // no other run has this name
	at     *attempt
	breaks bool // it returns an error
}

func (h *handler) handle(ctx context.Context, tx pgx.Tx) error {
	if h.Way == countFirst {
		if err := h.enter(ctx, tx); err != nil {
			return err
		}
		if err := lives.Pause(ctx, h.Pause); err != nil {
			return err
		}
	}
	for n := range h.Messages {
		if err := h.publish(ctx, tx, n); err != nil {
			return err
		}
	}
	if err := h.enterBehind(ctx, tx); err != nil {
		return err
	}
	if h.at != nil && !h.breaks && !h.Fails {
		h.reaper.at(h.at, publishQueued, func(t *trace) { t.Queued = true })
	}
	switch {
	case h.breaks:
		return errBroken
	case h.Fails:
		return txidem.Fail("refused", "by "+h.run)
	}
	return nil
}

// enterBehind enters the messages in the ledger when they are published, where that is the way.
func (h *handler) enterBehind(ctx context.Context, tx pgx.Tx) error {
	if h.Way == countFirst {
		return nil
	}
	if err := lives.Pause(ctx, h.Pause); err != nil {
		return err
	}
	if h.Way != countLast {
		return h.enter(ctx, tx)
	}
	current, ok := toolcall.FromContext(ctx)
	if !ok {
		return errNoCall
	}
	return current.AtFinish(func(b *pgx.Batch) { h.queueEntries(b) })
}

// enter counts the messages of ordering keys, under the locks of their rows, and writes all of them into the ledger.
func (h *handler) enter(ctx context.Context, tx pgx.Tx) error {
	b := &pgx.Batch{}
	h.queueEntries(b)
	return tx.SendBatch(ctx, b).Close()
}

func (h *handler) queueEntries(b *pgx.Batch) {
	for n, to := range h.Messages {
		b.Queue(sqlEnter, h.name(n), h.N, h.run, to.Destination, to.lane())
	}
}

// publish publishes a message in the way of the intent, or in that of a planted mistake.
func (h *handler) publish(ctx context.Context, tx pgx.Tx, n int) error {
	to := h.Messages[n]
	m := outbox.Message{
		Destination: to.Destination, OrderingKey: to.Key, Body: bodyOf(h.name(n)), Headers: map[string]string{intentHeader: fmt.Sprint(h.N)},
	}
	switch {
	case h.a.Plant == noLock:
		return publishUnlocked(ctx, tx, m)
	case h.a.Plant == publishOutsideTx:
		return pgx.BeginFunc(ctx, h.pool, func(other pgx.Tx) error { return h.publishIn(ctx, other, m) })
	case h.Way == atOnce:
		return pgx.BeginFunc(ctx, tx, func(savepoint pgx.Tx) error { return h.publishIn(ctx, savepoint, m) })
	}
	return h.publishIn(ctx, tx, m)
}

func (h *handler) publishIn(ctx context.Context, tx pgx.Tx, m outbox.Message) error {
	_, err := h.box.PublishTx(ctx, tx, m)
	return err
}

// name names a message, in the ledger and in its body. Other runs of the handler have other names.
func (h *handler) name(n int) string { return fmt.Sprintf("%d/%s/%d", h.N, h.run, n) }

// bodyOf is a body with each byte there is, of one size or another.
func bodyOf(name string) []byte {
	b := append([]byte(name), '\n')
	for n := range 256 * (1 + len(name)%3) {
		b = append(b, byte(n))
	}
	return b
}

// nameIn is the name that a body has.
func nameIn(body []byte) string {
	name, _, _ := bytes.Cut(body, []byte{'\n'})
	return string(name)
}
