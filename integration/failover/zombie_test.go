package failover

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/integration/internal/servers"
	"github.com/txonce/txonce/outbox"
	"github.com/txonce/txonce/toolcall"
)

// TestFailover_O03_O09_ZombieRelayChangesNothing: a relay's claim is lost in an asynchronous failover, so another relay has the
// message, and then the first one comes with what its attempt came to. The promoted server knows of one attempt, the other relay's.
func TestFailover_O03_O09_ZombieRelayChangesNothing(t *testing.T) {
	servers.Everywhere(t, zombieRelay)
}

func zombieRelay(t *testing.T, place servers.Place) {
	p := newPair(t, place)
	said := &book{}
	zombie, heir := newGate(t), newGate(t)
	one := outbox.Destination{Name: "shop", Timeout: patience, Concurrency: 1} // so that the zombie has no place for a second attempt
	first := zombie.box(p, one, &outbox.Config{Logger: slog.New(slog.NewTextHandler(said, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	id := publish(p, first)
	eventually(t, "the standby has the message", func() bool {
		return get[int](p, p.standby, `select count(*) from txonce.message_pending`) == 1
	})
	p.cut()
	relay(t, first)
	dead := zombie.next(t)
	if n := get[int](p, p.standby, `select attempts from txonce.message_pending`); n != 0 {
		t.Fatalf("the test proves nothing: the standby has heard of %d attempts", n)
	}
	if err := p.primary.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.promote()

	second := heir.box(p, one, nil)
	relay(t, second)
	live := heir.next(t)
	if dead.ID != id || live.ID != id || live.Key != dead.Key || live.Attempt != 1 {
		t.Errorf("message %s came as %+v, and after the failover as %+v", id, dead.Delivery, live.Delivery)
	}
	dead.answer <- outbox.Outcome{Class: outbox.Gone, Status: 410} // the worst: it would end the message and pause the destination
	eventually(t, "the first relay hears that it came too late", func() bool { return said.has("came too late") })
	if fate, err := second.Fate(t.Context(), id); err != nil || fate.State != toolcall.MessageDelivering || fate.Attempts != 1 {
		t.Errorf("behind the late result: %+v, %v; want the other relay's attempt under way", fate, err)
	}
	if n := get[int](p, p.standby, `select count(*) from txonce.destination where paused_at is not null`); n != 0 {
		t.Error("the late result paused the destination")
	}
	live.answer <- outbox.Outcome{Class: outbox.Delivered, Status: 202}
	eventually(t, "the message is delivered by the other relay", func() bool {
		fate, err := second.Fate(t.Context(), id)
		return err == nil && fate.State == toolcall.MessageDelivered && fate.Status == 202 && fate.Attempts == 1
	})
}

// publish publishes a message outside a call.
func publish(p *pair, box *outbox.Outbox) (id toolcall.ID) {
	p.t.Helper()
	conn := p.connect(p.primary)
	defer func() { _ = conn.Close(p.t.Context()) }()
	err := pgx.BeginFunc(p.t.Context(), conn, func(tx pgx.Tx) (err error) {
		id, err = box.PublishTx(p.t.Context(), tx, outbox.Message{Destination: "shop", Body: []byte("parcel")})
		return err
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return id
}

// relay has a relay run until the test ends.
func relay(t *testing.T, box *outbox.Outbox) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { _ = box.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
}

// gate is a publisher whose attempts stand still until they are given an answer.
type gate struct {
	came chan *attempt
	over <-chan struct{} // the test has ended
}

type attempt struct {
	outbox.Delivery
	answer chan outbox.Outcome
}

func newGate(t *testing.T) *gate {
	return &gate{came: make(chan *attempt, 100), over: t.Context().Done()}
}

// box is an outbox that publishes at the gate.
func (g *gate) box(p *pair, d outbox.Destination, cfg *outbox.Config) *outbox.Outbox {
	p.t.Helper()
	d.Publisher = g
	box, err := outbox.New(p.pool(p.url, nil), cfg, d)
	if err != nil {
		p.t.Fatal(err)
	}
	return box
}

// Deliver waits for the answer.
func (g *gate) Deliver(_ context.Context, d outbox.Delivery) (outbox.Outcome, error) {
	a := &attempt{d, make(chan outbox.Outcome, 1)}
	g.came <- a
	select {
	case out := <-a.answer:
		return out, nil
	case <-g.over:
		return outbox.Outcome{}, errors.New("the test has ended")
	}
}

// next waits for an attempt.
func (g *gate) next(t *testing.T) *attempt {
	t.Helper()
	select {
	case a := <-g.came:
		return a
	case <-time.After(patience):
		t.Fatal("no attempt is made")
		return nil
	}
}

// book keeps what is logged.
type book struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *book) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(line)
}

func (b *book) has(text string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return bytes.Contains(b.text.Bytes(), []byte(text))
}
