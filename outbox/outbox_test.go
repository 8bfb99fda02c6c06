package outbox_test

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/internal/dbtest"
	"github.com/txonce/txonce/outbox"
	"github.com/txonce/txonce/toolcall"
	"github.com/txonce/txonce/txidem"
)

// receiver takes what it is sent, as the test says.
type receiver struct {
	answer func(outbox.Delivery) (outbox.Outcome, error)

	mu   sync.Mutex
	got  []outbox.Delivery
	more chan struct{}
}

func newReceiver(answer func(outbox.Delivery) (outbox.Outcome, error)) *receiver {
	return &receiver{answer: answer, more: make(chan struct{}, 1_000_000)}
}

func (r *receiver) Deliver(_ context.Context, d outbox.Delivery) (outbox.Outcome, error) {
	r.mu.Lock()
	r.got = append(r.got, d)
	r.mu.Unlock()
	defer func() { r.more <- struct{}{} }()
	if r.answer != nil {
		return r.answer(d)
	}
	return outbox.Outcome{Class: outbox.Delivered}, nil
}

func (r *receiver) all() []outbox.Delivery {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]outbox.Delivery(nil), r.got...)
}

// wait waits for n more attempts.
func (r *receiver) wait(t *testing.T, n int) {
	t.Helper()
	for range n {
		select {
		case <-r.more:
		case <-time.After(time.Minute):
			t.Fatalf("no attempt for a minute; %d so far", len(r.all()))
		}
	}
}

// newBox makes an outbox.
func newBox(t *testing.T, pool *pgxpool.Pool, cfg *outbox.Config, destinations ...outbox.Destination) *outbox.Outbox {
	t.Helper()
	box, err := outbox.New(pool, cfg, destinations...)
	if err != nil {
		t.Fatal(err)
	}
	return box
}

// relay runs the outbox's relay until the test ends, or stop is called.
func relay(t *testing.T, box *outbox.Outbox) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- box.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != context.Canceled {
			t.Errorf("Run returned %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
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

// ends waits until the message has ended.
func ends(t *testing.T, box *outbox.Outbox, id toolcall.ID) outbox.Fate {
	t.Helper()
	return until(t, box, id, func(f outbox.Fate) bool { return f.State.Ended() })
}

// until waits until the message is as it should be.
func until(t *testing.T, box *outbox.Outbox, id toolcall.ID, ok func(outbox.Fate) bool) outbox.Fate {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
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

func TestRelay_O01_CallsMessageIsDelivered(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, nil)
	r := newReceiver(nil)
	box := newBox(t, pool, nil, outbox.Destination{Name: "mail", Publisher: r})
	store, err := txidem.New(pool, nil)
	if err != nil {
		t.Fatal(err)
	}
	relay(t, box)
	var published toolcall.ID
	req := txidem.Request{Scope: "alice", Tool: "refund", Key: "1", Args: json.RawMessage(`{}`)}
	for range 2 {
		_, err = txidem.Run(t.Context(), store, req, func(ctx context.Context, tx pgx.Tx) (string, error) {
			var err error
			published, err = box.PublishTx(ctx, tx, outbox.Message{Destination: "mail", Body: []byte("a\x00b"), Headers: map[string]string{"X-A": "1"}, Type: "refund.created"})
			return "done", err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	r.wait(t, 1)
	fate := ends(t, box, published)
	got := r.all()
	if len(got) != 1 || string(got[0].Body) != "a\x00b" || got[0].ID != published || got[0].Headers["X-A"] != "1" || got[0].Scope != "alice" || got[0].Attempt != 1 {
		t.Errorf("received %+v", got)
	}
	if fate.State != toolcall.MessageDelivered || fate.Effect != "mail/1" || fate.Key != got[0].Key {
		t.Errorf("its fate is %+v", fate)
	}
}

func TestRelay_O02_EachKeyInTheOrderOfCommits(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, nil)
	r := newReceiver(nil)
	box := newBox(t, pool, nil, outbox.Destination{Name: "broker", Publisher: r})
	var all []outbox.Message
	for i := range 30 {
		all = append(all, outbox.Message{Destination: "broker", OrderingKey: string(rune('a' + i%3)), Body: []byte{byte(i)}}, outbox.Message{Destination: "broker"})
	}
	publish(t, pool, box, all...)
	relay(t, box)
	r.wait(t, 60)
	last := map[string]int{}
	for _, d := range r.all() {
		if d.OrderingKey == "" {
			continue
		}
		if n, seen := last[d.OrderingKey]; seen && int(d.Body[0]) <= n {
			t.Errorf("key %s: %d came behind %d", d.OrderingKey, d.Body[0], n)
		}
		last[d.OrderingKey] = int(d.Body[0])
	}
}

func TestRelay_O04_RetryAndRedrive(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, nil)
	refuse := true
	r := newReceiver(nil)
	r.answer = func(d outbox.Delivery) (outbox.Outcome, error) {
		if refuse {
			return outbox.Outcome{Class: outbox.Retry, Status: 503, Reason: "bu\x00sy", Response: []byte{0, 255}}, nil
		}
		return outbox.Outcome{Class: outbox.Delivered, Status: 200, ProviderID: "p1"}, nil
	}
	told := make(chan outbox.Fate, 10)
	box := newBox(t, pool, nil, outbox.Destination{
		Name: "gateway", Publisher: r, Retry: outbox.Schedule{time.Millisecond, time.Millisecond},
		OnOutcome: func(_ context.Context, _ pgx.Tx, f outbox.Fate) error { told <- f; return nil },
	})
	relay(t, box)
	id := publish(t, pool, box, outbox.Message{Destination: "gateway", OrderingKey: "k"}, outbox.Message{Destination: "gateway", OrderingKey: "k"})
	fate := ends(t, box, id[0])
	if fate.State != toolcall.MessageFailed || fate.Attempts != 3 || fate.Status != 503 || fate.Reason != "busy" || !fate.Blocking {
		t.Errorf("its fate is %+v", fate)
	}
	if f := <-told; f.State != toolcall.MessageFailed {
		t.Errorf("told of %+v", f)
	}
	refuse = false
	if err := box.Redrive(t.Context(), id[0]); err != nil {
		t.Fatal(err)
	}
	for _, id := range id {
		if fate := ends(t, box, id); fate.State != toolcall.MessageDelivered || fate.ProviderID != "p1" {
			t.Errorf("its fate is %+v", fate)
		}
		<-told
	}
	keys := map[string]bool{}
	for _, d := range r.all() {
		keys[d.Key] = true
	}
	if len(keys) != 2 {
		t.Errorf("keys %v", keys)
	}
}
