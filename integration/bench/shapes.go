package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/txonce/txonce/txidem"
)

// shape is one way to make the same write.
type shape struct {
	name    string
	call    func(ctx context.Context, l *link, key string) error
	writes  tally // of one call
	replays bool  // its keys are those of calls that were made before
}

// The shapes, in the order of the table.
const (
	bare = iota
	floor
	five
	ours
	replay
	batch
	byHand
	leased
)

func shapes() []shape {
	return []shape{
		bare:   {name: "bare", call: callBare, writes: tally{effects: 1}},
		floor:  {name: "floor", call: callFloor, writes: tally{effects: 1, records: 1}},
		five:   {name: "five", call: callFive, writes: tally{effects: 1, claims: 1}},
		ours:   {name: "ours", call: callOurs, writes: tally{effects: 1, records: 1}},
		replay: {name: "replay", call: callReplay, replays: true},
		batch:  {name: "batch", call: callBatch, writes: tally{effects: 1, records: 1}},
		byHand: {name: "by hand", call: callByHand, writes: tally{claims: 1}},
		leased: {name: "leased", call: callLeased, writes: tally{records: 1}},
	}
}

// The call that all shapes make: a typical one, 150 bytes of arguments.
const (
	scope     = "tenant-4711"
	tool      = "issue_refund"
	orderID   = "ord_2026_000123456"
	cents     = 12_950
	arguments = `{"order_id": "ord_2026_000123456", "amount_cents": 12950, "currency": "EUR", ` +
		`"reason": "arrived damaged, second parcel", "notify_customer": true}`
)

// receipt is the answer, some 130 bytes.
type receipt struct {
	Refund   int64  `json:"refund"`
	OrderID  string `json:"order_id"`
	Cents    int64  `json:"amount_cents"`
	Currency string `json:"currency"`
	Status   string `json:"status"`
	Arrival  string `json:"expected_arrival"`
}

func receiptFor(refund int64) receipt {
	return receipt{
		Refund: refund, OrderID: orderID, Cents: cents, Currency: "EUR", Status: "accepted", Arrival: "2026-12-04",
	}
}

// effect is the handler of all shapes.
func (l *link) effect(ctx context.Context, tx pgx.Tx, key string) (receipt, error) {
	var refund int64
	err := tx.QueryRow(ctx, l.sql.effect, key, orderID, int64(cents)).Scan(&refund)
	return receiptFor(refund), err
}

func (l *link) handler(key string) func(context.Context, pgx.Tx) (receipt, error) {
	return func(ctx context.Context, tx pgx.Tx) (receipt, error) { return l.effect(ctx, tx, key) }
}

func callBare(ctx context.Context, l *link, key string) error {
	return pgx.BeginFunc(ctx, l.pool, func(tx pgx.Tx) error {
		_, err := l.effect(ctx, tx, key)
		return err
	})
}

// callFloor inserts the record in one round trip with COMMIT.
func callFloor(ctx context.Context, l *link, key string) error {
	conn, err := l.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release() // a transaction that is still open is the pool's to end
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	answer, err := l.effect(ctx, tx, key)
	if err != nil {
		return err
	}
	raw, err := json.Marshal(answer)
	if err != nil {
		return err
	}
	b := &pgx.Batch{}
	l.record.queue(b, key, someToken(), raw)
	b.Queue("commit")
	return conn.SendBatch(ctx, b).Close()
}

func someToken() pgtype.UUID {
	token := pgtype.UUID{Valid: true}
	for i := range token.Bytes {
		token.Bytes[i] = byte(rand.Uint32())
	}
	return token
}

func callFive(ctx context.Context, l *link, key string) error {
	key = scope + ":" + tool + ":x:" + key
	return pgx.BeginFunc(ctx, l.pool, func(tx pgx.Tx) error {
		var state string
		var response []byte
		var attempts int
		var inserted bool
		if err := tx.QueryRow(ctx, l.sql.claim, key).Scan(&state, &response, &attempts, &inserted); err != nil {
			return err
		}
		if !inserted {
			return fmt.Errorf("key %s was there before: %s", key, state)
		}
		answer, err := l.effect(ctx, tx, key)
		if err != nil {
			return err
		}
		raw, err := json.Marshal(answer)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, l.sql.finish, key, raw)
		return err
	})
}

func request(key string) txidem.Request {
	return txidem.Request{Scope: scope, Tool: tool, Key: key, Args: json.RawMessage(arguments)}
}

func callOurs(ctx context.Context, l *link, key string) error {
	result, err := txidem.Run(ctx, l.store, request(key), l.handler(key))
	if err == nil && result.Replayed {
		return errors.New("a new call was answered from a record")
	}
	return err
}

func callReplay(ctx context.Context, l *link, key string) error {
	result, err := txidem.Run(ctx, l.store, request(key), func(context.Context, pgx.Tx) (receipt, error) {
		return receipt{}, errors.New("a recorded call ran again")
	})
	if err == nil && !result.Replayed {
		return errors.New("a recorded call was not replayed")
	}
	return err
}

// callBatch makes the same write with an id of the caller's.
func callBatch(ctx context.Context, l *link, key string) error {
	result, err := txidem.RunBatch(ctx, l.store, request(key), func(_ context.Context, b *txidem.Batch) (receipt, error) {
		b.Queue(l.sql.queued, key, orderID, int64(cents))
		return receiptFor(1), nil
	})
	if err == nil && result.Replayed {
		return errors.New("a new call was answered from a record")
	}
	return err
}

// callByHand commits a claim, has its effect elsewhere, which costs nothing here, and finishes.
func callByHand(ctx context.Context, l *link, key string) error {
	key = scope + ":" + tool + ":x:" + key
	var state string
	var response []byte
	var attempts int
	var inserted bool
	if err := l.pool.QueryRow(ctx, l.sql.claim, key).Scan(&state, &response, &attempts, &inserted); err != nil {
		return err
	}
	if !inserted {
		return fmt.Errorf("key %s was there before: %s", key, state)
	}
	raw, err := json.Marshal(receiptFor(1))
	if err != nil {
		return err
	}
	_, err = l.pool.Exec(ctx, l.sql.finish, key, raw)
	return err
}

func callLeased(ctx context.Context, l *link, key string) error {
	result, err := txidem.RunLeased(ctx, l.store, request(key), func(context.Context) (receipt, error) { return receiptFor(1), nil }, nil)
	if err == nil && result.Replayed {
		return errors.New("a new call was answered from a record")
	}
	return err
}
