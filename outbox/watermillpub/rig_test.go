package watermillpub_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/outbox"
	"github.com/txonce/txonce/outbox/watermillpub"
	"github.com/txonce/txonce/toolcall"
)

// publishes is a message.Publisher that is a function.
type publishes func(topic string, messages ...*message.Message) error

func (f publishes) Publish(topic string, messages ...*message.Message) error {
	return f(topic, messages...)
}
func (publishes) Close() error { return nil }

func newPublisher(t *testing.T, to message.Publisher, cfg *watermillpub.Config) *watermillpub.Publisher {
	t.Helper()
	p, err := watermillpub.New(to, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func newBox(t *testing.T, pool *pgxpool.Pool, d outbox.Destination) *outbox.Outbox {
	t.Helper()
	box, err := outbox.New(pool, nil, d)
	if err != nil {
		t.Fatal(err)
	}
	return box
}

// relay runs the outbox's relay until the test ends.
func relay(t *testing.T, box *outbox.Outbox) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- box.Run(ctx) }()
	t.Cleanup(sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != context.Canceled {
			t.Errorf("Run returned %v", err)
		}
	}))
}

// publish publishes messages in a transaction of its own.
func publish(t *testing.T, pool *pgxpool.Pool, box *outbox.Outbox, messages ...outbox.Message) (ids []toolcall.ID) {
	t.Helper()
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		for _, m := range messages {
			id, err := box.PublishTx(t.Context(), tx, m)
			if err != nil {
				return err
			}
			ids = append(ids, id)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

// until waits until the message is as it should be.
func until(t *testing.T, box *outbox.Outbox, id toolcall.ID, ok func(outbox.Fate) bool) outbox.Fate {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		fate, err := box.Fate(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if ok(fate) {
			return fate
		}
		if time.Now().After(deadline) {
			t.Fatalf("it is still %+v", fate)
		}
	}
}

func ended(f outbox.Fate) bool { return f.State.Ended() }

// get waits for what a channel brings.
func get[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(time.Minute):
		t.Fatal("nothing for a minute")
		panic("not reached")
	}
}

// aDelivery is one of a message with all that it can have.
func aDelivery() outbox.Delivery {
	return outbox.Delivery{
		ID: toolcall.ID{1, 2, 3, 4, 5, 6, 0x70, 8, 0x80, 15: 9}, Key: "key-1", Destination: "events", Address: "refunds", OrderingKey: "order 7",
		Type: "refund.created", Headers: map[string]string{"X-A": "1"}, Body: []byte("a\x00\xffb"), PublishedAt: time.Unix(1_700_000_000, 0),
		Scope: "alice", Call: toolcall.ID{15: 9}, Tool: "refund", Attempt: 1,
	}
}
