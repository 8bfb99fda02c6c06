package riverpub_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/txonce/txonce/internal/dbtest"
	"github.com/txonce/txonce/outbox"
	"github.com/txonce/txonce/outbox/riverpub"
	"github.com/txonce/txonce/toolcall"
)

// riverSchema is where the migrations made River's tables.
const riverSchema = "txonce_river"

type worker = func(ctx context.Context, job *river.Job[riverpub.Args]) error

// newClient makes a client of River that knows the kinds, or one without workers.
func newClient(t *testing.T, pool *pgxpool.Pool, kinds map[string]worker) *river.Client[pgx.Tx] {
	t.Helper()
	cfg := &river.Config{Schema: riverSchema, PollOnly: dbtest.Pooled(), FetchPollInterval: 100 * time.Millisecond}
	if kinds != nil {
		cfg.Workers = river.NewWorkers()
		cfg.Queues = map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 4}}
	}
	for kind, work := range kinds {
		river.AddWorkerArgs(cfg.Workers, riverpub.ArgsOf(kind), river.WorkFunc(work))
	}
	client, err := river.NewClient(riverpgxv5.New(pool), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// start has the client work jobs until the test ends.
func start(t *testing.T, client *river.Client[pgx.Tx]) {
	t.Helper()
	if err := client.Start(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := client.Stop(ctx); err != nil {
			t.Errorf("River does not stop: %v", err)
		}
	})
}

func newPublisher(t *testing.T, db riverpub.Beginner, client *river.Client[pgx.Tx], cfg *riverpub.Config) *riverpub.Publisher {
	t.Helper()
	p, err := riverpub.New(db, client, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
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

// jobs counts River's rows of the message.
func jobs(t *testing.T, pool *pgxpool.Pool, id toolcall.ID) (n int) {
	t.Helper()
	err := pool.QueryRow(t.Context(), `select count(*) from `+riverSchema+`.river_job where args->>'id' = $1`, id.String()).Scan(&n)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// delivered makes an attempt that has to succeed, and returns the job's id.
func delivered(t *testing.T, p *riverpub.Publisher, d outbox.Delivery) string {
	t.Helper()
	out, err := p.Deliver(t.Context(), d)
	if err != nil || out.Class != outbox.Delivered || out.ProviderID == "" {
		t.Fatalf("attempt came to %+v, %v", out, err)
	}
	return out.ProviderID
}

// aDelivery is one of a message with all that it can have.
func aDelivery(n byte) outbox.Delivery {
	return outbox.Delivery{
		ID: toolcall.ID{1, 2, 3, 4, 5, 6, 0x70, 8, 0x80, 15: n}, Key: "key-1", Destination: "mail", Address: "a@example.org", OrderingKey: "order 7",
		Type: "refund.created", Headers: map[string]string{"X-A": "1"}, Body: []byte("a\x00\xffb"), PublishedAt: time.Unix(1_700_000_000, 5000).UTC(),
		Scope: "alice", Call: toolcall.ID{15: 9}, Tool: "refund", Attempt: 1,
	}
}
