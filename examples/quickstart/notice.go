package main

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/outbox"
)

// toMerchant is the outbox's destination.
const toMerchant = "merchant"

// RefundNotice is what the merchant is told of a refund.
type RefundNotice struct {
	RefundID int64  `json:"refund_id"`
	OrderID  string `json:"order_id"`
	Cents    int64  `json:"cents"`
}

// teller tells the merchant of a refund that tx makes.
type teller func(ctx context.Context, tx pgx.Tx, notice RefundNotice) error

// publish is the way with an outbox: the message commits with the refund, and is delivered afterwards.
func publish(box *outbox.Outbox) teller {
	return func(ctx context.Context, tx pgx.Tx, notice RefundNotice) error {
		body, err := json.Marshal(notice)
		if err == nil {
			_, err = box.PublishTx(ctx, tx, outbox.Message{Destination: toMerchant, Type: "refund.created", Body: body})
		}
		return err
	}
}

const (
	attemptTime = 300 * time.Millisecond
	longestRest = 100 * time.Millisecond // between two attempts
	retries     = 20
)

// newOutbox makes the outbox. A demo has no time: leave Timeout and Retry out, and messages are tried for hours.
func newOutbox(db *database, m *merchant, log *slog.Logger) (*outbox.Outbox, error) {
	return outbox.New(db.Pool, &outbox.Config{Schema: db.schemas.txonce, Logger: log}, outbox.Destination{
		Name: toMerchant, Publisher: m.hooks, Timeout: attemptTime, Retry: slices.Repeat(outbox.Schedule{longestRest}, retries),
	})
}

// keepRunning runs what runs until its context ends: a relay, which delivers, or a sweeper. stop ends it and waits for what is
// under way.
func keepRunning(ctx context.Context, run func(context.Context) error) (stop func() error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	return func() error {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			return err
		}
		return nil
	}
}
