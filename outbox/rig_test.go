package outbox_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/outbox"
	"github.com/txonce/txonce/toolcall"
	"github.com/txonce/txonce/txidem"
)

var (
	delivered  = outbox.Outcome{Class: outbox.Delivered, Status: 200}
	busy       = outbox.Outcome{Class: outbox.Retry, Status: 503, Reason: "busy"}
	rejected   = outbox.Outcome{Class: outbox.Rejected, Status: 400, Reason: "no such customer"}
	gone       = outbox.Outcome{Class: outbox.Gone, Status: 410, Reason: "no more"}
	unanswered = outbox.Outcome{Class: outbox.Unanswered, Reason: "the line is dead"}
)

// answers is a receiver that gives these answers, one after the other, and then the last one for ever.
func answers(all ...outbox.Outcome) *receiver {
	n, mu := 0, &sync.Mutex{}
	return newReceiver(func(outbox.Delivery) (outbox.Outcome, error) {
		mu.Lock()
		defer mu.Unlock()
		out := all[min(n, len(all)-1)]
		n++
		return out, nil
	})
}

// gate is a publisher whose attempts stand still until the test lets them go on. It does not heed its context.
type gate struct {
	came chan *visit
	over <-chan struct{} // the test has ended
}

type visit struct {
	outbox.Delivery
	goOn chan func() (outbox.Outcome, error)
}

func newGate(t *testing.T) *gate {
	return &gate{came: make(chan *visit, 1000), over: t.Context().Done()}
}

func (g *gate) Deliver(_ context.Context, d outbox.Delivery) (outbox.Outcome, error) {
	v := &visit{d, make(chan func() (outbox.Outcome, error), 1)}
	g.came <- v
	select {
	case end := <-v.goOn:
		return end()
	case <-g.over:
		return outbox.Outcome{}, errors.New("the test has ended")
	}
}

// next waits for an attempt.
func (g *gate) next(t *testing.T) *visit {
	t.Helper()
	return receive(t, "an attempt begins", g.came)
}

// nobody checks that no attempt has begun that the test does not know of.
func (g *gate) nobody(t *testing.T) {
	t.Helper()
	select {
	case v := <-g.came:
		t.Errorf("an attempt has begun: %+v", v.Delivery)
	default:
	}
}

func (v *visit) answers(out outbox.Outcome) {
	v.goOn <- func() (outbox.Outcome, error) { return out, nil }
}

// receive waits for what must come.
func receive[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(time.Minute):
		t.Fatalf("it never came: %s", what)
		panic("unreachable")
	}
}

// eventually polls until cond is true.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !cond(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("still not so after a minute: %s", what)
		}
	}
}

// logbook keeps what is logged.
type logbook struct {
	mu    sync.Mutex
	lines []string
}

func (b *logbook) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines = append(b.lines, string(line))
	return len(line), nil
}

func (b *logbook) count(text string) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, line := range b.lines {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

func (b *logbook) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

const tooLate = "came too late"

func execute(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) int64 {
	t.Helper()
	tag, err := pool.Exec(t.Context(), sql, args...)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return tag.RowsAffected()
}

func get[T any](t *testing.T, pool *pgxpool.Pool, sql string, args ...any) T {
	t.Helper()
	var v T
	if err := pool.QueryRow(t.Context(), sql, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// messages counts those that were published.
func messages(t *testing.T, pool *pgxpool.Pool) int {
	t.Helper()
	return get[int](t, pool, `select count(*)::integer from txonce.message`)
}

// lapse lets the lease of a message run out.
func lapse(t *testing.T, pool *pgxpool.Pool, id toolcall.ID) {
	t.Helper()
	if n := execute(t, pool, `update txonce.message_pending set lease_until = clock_timestamp() - interval '1 second' where id = $1::text::uuid and token is not null`, id.String()); n != 1 {
		t.Fatalf("%d messages have a lease, want 1", n)
	}
}

// due makes a message due.
func due(t *testing.T, pool *pgxpool.Pool, id toolcall.ID) {
	t.Helper()
	execute(t, pool, `update txonce.message_pending set due_at = clock_timestamp() where id = $1::text::uuid`, id.String())
}

// fate looks up a message.
func fate(t *testing.T, box *outbox.Outbox, id toolcall.ID) outbox.Fate {
	t.Helper()
	f, err := box.Fate(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// ended checks how a message ended.
func ended(t *testing.T, box *outbox.Outbox, id toolcall.ID, state toolcall.MessageState, attempts int) outbox.Fate {
	t.Helper()
	f := ends(t, box, id)
	if f.State != state || f.Attempts != attempts {
		t.Errorf("it is %s after %d attempts (%s), want %s after %d", f.State, f.Attempts, f.Reason, state, attempts)
	}
	return f
}

// newStore makes a store of calls.
func newStore(t *testing.T, pool *pgxpool.Pool, policy *txidem.Policy) *txidem.Store {
	t.Helper()
	store, err := txidem.New(pool, &txidem.Config{Policy: policy})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// request is a call with that key, or with none.
func request(key string) txidem.Request {
	return txidem.Request{Scope: "alice", Tool: "refund", Key: key, Args: []byte(`{"order":"A-1"}`)}
}

// sends is a handler that publishes.
func sends(box *outbox.Outbox, all ...outbox.Message) func(context.Context, pgx.Tx) (string, error) {
	return func(ctx context.Context, tx pgx.Tx) (string, error) {
		for _, m := range all {
			if _, err := box.PublishTx(ctx, tx, m); err != nil {
				return "", err
			}
		}
		return "done", nil
	}
}

// mail is a destination that takes all.
func mail() outbox.Destination { return outbox.Destination{Name: "mail", Publisher: newReceiver(nil)} }

var errOops = errors.New("oops")
