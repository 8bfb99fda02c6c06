package txidem_test

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/toolcall"
	"github.com/txonce/txonce/txidem"
)

// Two calls that must commit as one, in a transaction of the caller's.
func ExampleRunTx() {
	ctx := context.Background()
	pool, done := database(ctx)
	defer done()
	store := must(txidem.New(pool, nil))

	refund := func(ctx context.Context, tx pgx.Tx) (string, error) {
		_, err := tx.Exec(ctx, `insert into refunds (order_id, cents) values ('A-1', 1050)`)
		return "refunded", err
	}
	closeOrder := func() error { // a larger unit of work, which a crash may repeat as a whole
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			request := txidem.Request{Scope: "tenant-7", Tool: "issue_refund", Key: "order A-1"}
			result, err := txidem.RunTx(ctx, tx, store, request, refund)
			if err != nil {
				return err // rolls back, also a failure made by Fail; txidem.Retryable says whether to repeat closeOrder
			}
			fmt.Println(result.Value, "replayed:", result.Replayed)
			if result.Replayed {
				return nil // so the rest has been done too: it committed with the call
			}
			_, err = tx.Exec(ctx, `insert into refunds (order_id, cents) values ('the rest of the work', 0)`)
			return err
		})
	}
	fmt.Println(closeOrder())
	fmt.Println(closeOrder())
	var refunds, rest int
	_ = pool.QueryRow(ctx, `select count(*) filter (where order_id = 'A-1'), count(*) filter (where order_id <> 'A-1') from refunds`).Scan(&refunds, &rest)
	fmt.Println("refunds:", refunds, "the rest:", rest)
	// Output:
	// refunded replayed: false
	// <nil>
	// refunded replayed: true
	// <nil>
	// refunds: 1 the rest: 1
}

// A write that needs no answer from the database, in one round trip.
func ExampleRunBatch() {
	ctx := context.Background()
	pool, done := database(ctx)
	defer done()
	store := must(txidem.New(pool, nil))

	request := txidem.Request{Scope: "tenant-7", Tool: "move_refund", Key: "a key for this intent"}
	for range 2 {
		result, err := txidem.RunBatch(ctx, store, request, func(_ context.Context, b *txidem.Batch) (string, error) {
			b.Queue(`insert into refunds (order_id, cents) values ($1, $2)`, "A-1", 1050)
			b.MustAffect(1, `update refunds set cents = cents - 50 where order_id = $1 and cents >= 50`, "A-1")
			return "moved", nil
		})
		fmt.Println(result.Value, "replayed:", result.Replayed, err)
	}
	_, err := txidem.RunBatch(ctx, store, txidem.Request{Scope: "tenant-7", Tool: "move_refund", Key: "another"},
		func(_ context.Context, b *txidem.Batch) (string, error) {
			b.MustAffect(1, `update refunds set cents = cents - 50 where order_id = $1 and cents >= 50`, "no such order")
			return "moved", nil
		})
	fmt.Println(errors.Is(err, txidem.ErrRowCount))
	// Output:
	// moved replayed: false <nil>
	// moved replayed: true <nil>
	// true
}

// provider stands for a payment provider that recognises repeats by their key.
type provider struct {
	charges map[string]int // by key
	down    bool           // it charges, and the answer is lost
}

func (p *provider) charge(key string, cents int) (string, error) {
	if p.charges == nil {
		p.charges = make(map[string]int)
	}
	p.charges[key] = cents
	if p.down {
		return "", errors.New("connection reset")
	}
	return fmt.Sprintf("charged %d", cents), nil
}

func (p *provider) find(key string) (string, bool, error) {
	cents, ok := p.charges[key]
	return fmt.Sprintf("charged %d", cents), ok, nil
}

// A payment whose first answer is lost: the next call asks the provider instead of paying again.
func ExampleRunLeased() {
	ctx := context.Background()
	pool, done := database(ctx)
	defer done()
	store := must(txidem.New(pool, nil))

	bank := &provider{down: true}
	key := func(ctx context.Context) string {
		call, _ := toolcall.FromContext(ctx)
		return call.DownstreamKey("charge")
	}
	pay := func(ctx context.Context) (string, error) { return bank.charge(key(ctx), 1050) }
	ask := func(ctx context.Context) (string, bool, error) { return bank.find(key(ctx)) }

	request := txidem.Request{Scope: "tenant-7", Tool: "charge", Key: "a key for this intent"}
	_, err := txidem.RunLeased(ctx, store, request, pay, ask)
	fmt.Println("unknown:", errors.Is(err, txidem.ErrOutcomeUnknown), "repeat:", txidem.Retryable(err))
	bank.down = false
	for range 2 {
		result, err := txidem.RunLeased(ctx, store, request, pay, ask)
		fmt.Println(result.Value, "replayed:", result.Replayed, err)
	}
	fmt.Println("charges:", len(bank.charges))
	// Output:
	// unknown: true repeat: true
	// charged 1050 replayed: false <nil>
	// charged 1050 replayed: true <nil>
	// charges: 1
}

// A handler's unit test without Postgres.
func ExampleNewMemory() {
	ctx := context.Background()
	store := must(txidem.NewMemory(nil, nil))
	request := txidem.Request{Scope: "tenant-7", Tool: "issue_refund", Key: "a key for this intent"}
	for range 2 {
		result, err := txidem.Run(ctx, store, request, func(context.Context, pgx.Tx) (string, error) { return "refunded", nil })
		fmt.Println(result.Value, "replayed:", result.Replayed, err)
	}
	// Output:
	// refunded replayed: false <nil>
	// refunded replayed: true <nil>
}

// sealed encrypts answers in the table. The call's id is sealed with them, so that no row can be passed off as another.
type sealed struct{ aead cipher.AEAD }

// version is in front of the bytes, for the day when there is another one.
const version = 1

func (s sealed) Encode(_ context.Context, r txidem.Recorded, answer []byte) ([]byte, error) {
	out := make([]byte, 1+s.aead.NonceSize(), 1+s.aead.NonceSize()+len(answer)+s.aead.Overhead())
	out[0] = version
	nonce := out[1:]
	_, _ = rand.Read(nonce)
	return s.aead.Seal(out, nonce, answer, r.ID[:]), nil
}

func (s sealed) Decode(_ context.Context, r txidem.Recorded, stored []byte) ([]byte, error) {
	if len(stored) < 1+s.aead.NonceSize() || stored[0] != version {
		return nil, errors.New("not sealed by this codec")
	}
	return s.aead.Open(nil, stored[1:1+s.aead.NonceSize()], stored[1+s.aead.NonceSize():], r.ID[:])
}

// Answers are encrypted in the table and replayed in the clear.
func ExampleCodec() {
	ctx := context.Background()
	pool, done := database(ctx)
	defer done()
	block := must(aes.NewCipher([]byte("0123456789abcdef0123456789abcdef"))) // from your key management
	store := must(txidem.New(pool, &txidem.Config{Codec: sealed{must(cipher.NewGCM(block))}}))

	request := txidem.Request{Scope: "tenant-7", Tool: "read_secret", Key: "a key for this intent"}
	for range 2 {
		result, err := txidem.Run(ctx, store, request, func(context.Context, pgx.Tx) (string, error) { return "the secret", nil })
		fmt.Println(result.Value, "replayed:", result.Replayed, err)
	}
	var inTable bool
	_ = pool.QueryRow(ctx, `select position('secret'::bytea in answer) > 0 from txonce.call`).Scan(&inTable)
	fmt.Println("in the table:", inTable)
	// Output:
	// the secret replayed: false <nil>
	// the secret replayed: true <nil>
	// in the table: false
}
