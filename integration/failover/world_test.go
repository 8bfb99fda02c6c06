package failover

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/jobs"
	"github.com/txonce/txonce/outbox"
	"github.com/txonce/txonce/toolcall"
	"github.com/txonce/txonce/txidem"
)

const scope = "tenant"

// The tools. Each writes a row; the last two submit a job, and publish a message.
const (
	toolWrite   = "write"
	toolBatch   = "batch"
	toolJob     = "job"
	toolMessage = "message"
)

func tools() []string { return []string{toolWrite, toolBatch, toolJob, toolMessage} }

const (
	sqlEffect = `insert into effect (tool, key, run) values ($1, $2, $3)`
	sqlWorked = `insert into worked (key, run) values ($1, $2)`
)

// order is what a job is about.
type order struct {
	Key string `json:"key"`
}

// world is an application on the pair: tools, a worker and a relay, each with a pool of its own, and a shop that gets the messages.
type world struct {
	*pair
	calls  *pgxpool.Pool
	store  *txidem.Store
	build  *jobs.Definition[order, string]
	runner *jobs.Runner
	box    *outbox.Outbox
	shop   *shop
	heard  *ledger
	stop   func() // of worker and relay
}

// newWorld starts worker and relay.
func newWorld(p *pair) *world {
	p.t.Helper()
	w := &world{pair: p, shop: &shop{}, heard: newLedger()}
	w.calls = p.pool(p.url, func(cfg *pgxpool.Config) { cfg.MaxConns = callers / 2 })
	w.store = newStore(p.t, w.calls)
	w.build = jobs.Define("build", func(_ context.Context, job *jobs.Job[order]) (jobs.Commit[string], error) {
		return func(ctx context.Context, tx pgx.Tx) (string, error) {
			run := rand.Text()
			_, err := tx.Exec(ctx, sqlWorked, job.Args.Key, run)
			return run, err
		}, nil
	}, nil)
	var err error
	w.runner, err = jobs.New(p.pool(p.url, nil), &jobs.Config{Lease: 2 * time.Second, Sweep: 200 * time.Millisecond}, w.build)
	if err != nil {
		p.t.Fatal(err)
	}
	w.box = newBox(p, outbox.Func(w.shop.take))
	w.run()
	return w
}

func newStore(t *testing.T, pool *pgxpool.Pool) *txidem.Store {
	t.Helper()
	store, err := txidem.New(pool, &txidem.Config{Policy: &txidem.Policy{CommitTimeout: 8 * time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// newBox has a pool of its own, and one destination.
func newBox(p *pair, publisher outbox.Publisher) *outbox.Outbox {
	p.t.Helper()
	retry := make(outbox.Schedule, 100)
	for i := range retry {
		retry[i] = 100 * time.Millisecond
	}
	box, err := outbox.New(p.pool(p.url, nil), nil, outbox.Destination{Name: "shop", Publisher: publisher, Timeout: time.Second, Retry: retry})
	if err != nil {
		p.t.Fatal(err)
	}
	return box
}

// run has worker and relay run until the test ends.
func (w *world) run() {
	w.t.Helper()
	if err := w.runner.Start(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.t.Context()))
	var relay sync.WaitGroup
	relay.Go(func() { _ = w.box.Run(ctx) })
	w.stop = sync.OnceFunc(func() {
		cancel()
		relay.Wait()
		bounded, done := context.WithTimeout(context.WithoutCancel(w.t.Context()), patience)
		defer done()
		if err := w.runner.Stop(bounded); err != nil {
			w.t.Errorf("the worker does not stop: %v", err)
		}
	})
	w.t.Cleanup(w.stop)
}

// call makes a call once.
func (w *world) call(ctx context.Context, in intent) (txidem.Result[receipt], error) {
	req := request(in)
	if in.tool == toolBatch {
		return txidem.RunBatch(ctx, w.store, req, func(_ context.Context, b *txidem.Batch) (receipt, error) {
			run := rand.Text()
			b.MustAffect(1, sqlEffect, in.tool, in.key, run)
			return receipt{Key: in.key, Run: run}, nil
		})
	}
	return txidem.Run(ctx, w.store, req, func(ctx context.Context, tx pgx.Tx) (receipt, error) {
		r := receipt{Key: in.key, Run: rand.Text()}
		if _, err := tx.Exec(ctx, sqlEffect, in.tool, in.key, r.Run); err != nil {
			return r, err
		}
		switch in.tool {
		case toolJob:
			handle, err := w.build.SubmitTx(ctx, tx, w.runner, order{in.key}, nil)
			r.Job = handle.JobID
			return r, err
		case toolMessage:
			_, err := w.box.PublishTx(ctx, tx, outbox.Message{Destination: "shop", Body: []byte(in.key)})
			return r, err
		}
		return r, nil
	})
}

func request(in intent) txidem.Request {
	return txidem.Request{Scope: scope, Tool: in.tool, Key: in.key, Args: json.RawMessage(`{"key":"` + in.key + `"}`)}
}

// idOf is the call's id, as everyone may work it out.
func idOf(in intent) toolcall.ID { return toolcall.NewID(scope, in.tool, "x:"+in.key) }

// shop is the receiver of messages. It says nothing to the first attempt of some.
type shop struct {
	mu   sync.Mutex
	came []outbox.Delivery
}

func (s *shop) take(_ context.Context, d outbox.Delivery) (outbox.Outcome, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.came = append(s.came, d)
	if d.Attempt == 1 && d.ID[15]%4 == 0 { // an id ends at random
		return outbox.Outcome{Class: outbox.Unanswered, Reason: "the answer was lost"}, nil
	}
	return outbox.Outcome{Class: outbox.Delivered, Status: 200}, nil
}

// of returns what came for a call.
func (s *shop) of(key string) (some []outbox.Delivery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.came {
		if string(d.Body) == key {
			some = append(some, d)
		}
	}
	return some
}
