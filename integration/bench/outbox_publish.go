package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/outbox"
	"github.com/txonce/txonce/txidem"
)

// bodySize is that of all messages, in bytes.
const bodySize = 500

// messageOf is a message whose body begins with a text. key may be empty.
func messageOf(key, text string) outbox.Message {
	body := bytes.Repeat([]byte("x"), bodySize)
	copy(body, text+" ")
	return outbox.Message{Destination: receiverName, OrderingKey: key, Type: "refund.created", Body: body}
}

// keyOf names an ordering key, where there are any.
func keyOf(number, keys int) string {
	if keys == 0 {
		return ""
	}
	return fmt.Sprintf("order-%04d", number)
}

// someKey is an idempotency key.
func someKey() string { return newWorkers(1, nil)[0].newKey() }

// answerOnly is a handler that writes nothing.
func answerOnly(context.Context, pgx.Tx) (receipt, error) { return receiptFor(1), nil }

// publishing is one way to publish.
type publishing struct {
	calls bool // by a protected call, which publishes one message; else by a transaction with nothing else
	each  int  // messages in one call or transaction
}

// do publishes messages with one ordering key, or without.
func (p publishing) do(ctx context.Context, l *link, from *process, w *worker, key string) error {
	m := messageOf(key, "a refund")
	if p.calls {
		return publishByCall(ctx, l, from, w.newKey(), m, answerOnly)
	}
	return pgx.BeginFunc(ctx, l.pool, func(tx pgx.Tx) error {
		for range p.each {
			if _, err := from.PublishTx(ctx, tx, m); err != nil {
				return err
			}
		}
		return nil
	})
}

// publishByCall is a protected call that publishes a message behind what its handler does.
func publishByCall(ctx context.Context, l *link, from *process, key string, m outbox.Message, handler func(context.Context, pgx.Tx) (receipt, error)) error {
	result, err := txidem.Run(ctx, l.store, request(key), func(ctx context.Context, tx pgx.Tx) (receipt, error) {
		answer, err := handler(ctx, tx)
		if err == nil {
			_, err = from.PublishTx(ctx, tx, m)
		}
		return answer, err
	})
	if err == nil && result.Replayed {
		err = errors.New("a new call was answered from a record")
	}
	return err
}
