package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/integration/internal/lives"
	"github.com/txonce/txonce/jobs"
	"github.com/txonce/txonce/outbox"
	"github.com/txonce/txonce/txidem"
)

// errBroken is the plain error of a handler or a job: a property of the moment.
var errBroken = errors.New("the work broke")

// newReceipt is the answer of a run of a handler, and of no other.
func newReceipt(in order) receipt {
	return receipt{Intent: in.Intent, Payload: in.Payload, Try: in.Try, Run: rand.Text()}
}

// end is how handlers end: with their effect in the transaction, after a while, well or not.
func end(ctx context.Context, in order) error {
	if err := lives.Pause(ctx, time.Duration(in.Pause)*time.Millisecond); err != nil {
		return err
	}
	switch {
	case in.Breaks:
		return errBroken
	case in.Fails:
		return txidem.Fail("refused", fmt.Sprintf("by try %d", in.Try))
	}
	return nil
}

// write is the handler of the tool of that name: an effect.
func (s *serving) write(ctx context.Context, tx pgx.Tx, in order) (receipt, error) {
	r := newReceipt(in)
	if s.a.Plant == forgets {
		return r, end(ctx, in)
	}
	if _, err := tx.Exec(ctx, sqlEffect, in.Intent, in.Payload, in.Try, r.Run); err != nil {
		return r, err
	}
	return r, end(ctx, in)
}

// letter is the body of a message.
type letter struct {
	Name string `json:"name"` // in the ledger. Other runs of the handler have other names
	Lane string `json:"lane"`
}

// notify publishes messages of its effect. Those that have an ordering key are counted before: under the lock of its lane.
func (s *serving) notify(ctx context.Context, tx pgx.Tx, in order) (receipt, error) {
	r := newReceipt(in)
	b := &pgx.Batch{}
	b.Queue(sqlEffect, in.Intent, in.Payload, in.Try, r.Run)
	letters := make([]letter, in.Letters)
	for n := range letters {
		letters[n].Name = fmt.Sprintf("%d/%s/%d", in.Intent, r.Run, n)
		if n == 0 {
			letters[n].Lane = in.Lane
		}
		b.Queue(sqlEnter, letters[n].Name, in.Intent, in.Try, letters[n].Lane)
	}
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return r, err
	}
	for _, l := range letters {
		body, err := json.Marshal(l)
		if err != nil {
			return r, err
		}
		if _, err := s.box.PublishTx(ctx, tx, outbox.Message{Destination: shop, OrderingKey: l.Lane, Body: body}); err != nil {
			return r, err
		}
	}
	return r, end(ctx, in)
}

// ticket is the answer of the tool that submits jobs.
type ticket struct {
	jobs.Handle
	receipt
}

// report submits a job. What the intent has of failing and pausing is the job's.
func (s *serving) report(ctx context.Context, tx pgx.Tx, in order) (ticket, error) {
	handle, err := s.jobs.SubmitTx(ctx, tx, s.runner, in, nil)
	if err != nil {
		return ticket{}, err
	}
	return ticket{Handle: handle, receipt: newReceipt(in)}, end(ctx, order{Breaks: in.Breaks})
}
