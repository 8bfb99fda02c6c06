package versions

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/jobs"
	"github.com/txonce/txonce/outbox"
	"github.com/txonce/txonce/toolcall"
	"github.com/txonce/txonce/txidem"
)

const (
	scope = "tenant"

	// sqlTable is the application's own. Nothing in it keeps a second effect out.
	sqlTable  = `create table effect (key text not null)`
	sqlEffect = `insert into effect (key) values ($1)`
)

// app is an application of the library on one database.
type app struct {
	t      *testing.T
	pool   *pgxpool.Pool
	store  *txidem.Store
	build  *jobs.Definition[string, string]
	runner *jobs.Runner
	box    *outbox.Outbox
	came   func(toolcall.ID) outbox.Delivery // what the receiver got
}

// newApp makes one, which works no jobs and relays no messages yet. The database must be migrated before it is used.
func newApp(t *testing.T, pool *pgxpool.Pool) *app {
	t.Helper()
	a := &app{t: t, pool: pool}
	var mu sync.Mutex
	came := make(map[toolcall.ID]outbox.Delivery)
	a.came = func(id toolcall.ID) outbox.Delivery {
		mu.Lock()
		defer mu.Unlock()
		return came[id]
	}
	a.build = jobs.Define("build", func(_ context.Context, job *jobs.Job[string]) (jobs.Commit[string], error) {
		return func(ctx context.Context, tx pgx.Tx) (string, error) {
			_, err := tx.Exec(ctx, sqlEffect, "job of "+job.Args)
			return "built " + job.Args, err
		}, nil
	}, nil)
	take := outbox.Func(func(_ context.Context, d outbox.Delivery) (outbox.Outcome, error) {
		mu.Lock()
		defer mu.Unlock()
		came[d.ID] = d
		return outbox.Outcome{Class: outbox.Delivered, Status: 200}, nil
	})
	var err, err2, err3 error
	a.store, err = txidem.New(pool, nil)
	a.runner, err2 = jobs.New(pool, &jobs.Config{Sweep: 100 * time.Millisecond}, a.build)
	a.box, err3 = outbox.New(pool, nil, outbox.Destination{Name: "shop", Publisher: take})
	for _, err := range []error{err, err2, err3} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return a
}

// run has the app work jobs and relay messages until the test ends.
func (a *app) run() {
	a.t.Helper()
	if err := a.runner.Start(a.t.Context()); err != nil {
		a.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var relay sync.WaitGroup
	relay.Go(func() { _ = a.box.Run(ctx) })
	a.t.Cleanup(func() {
		cancel()
		relay.Wait()
		bounded, done := context.WithTimeout(context.Background(), patience)
		defer done()
		if err := a.runner.Stop(bounded); err != nil {
			a.t.Error(err)
		}
	})
}

// The tools: each has an effect but the one that refuses.
const (
	toolWrite   = "write"
	toolRefuse  = "refuse"
	toolBatch   = "batch"
	toolLeased  = "leased"
	toolJob     = "job"
	toolMessage = "message"
)

func tools() []string {
	return []string{toolWrite, toolRefuse, toolBatch, toolLeased, toolJob, toolMessage}
}

// answer is what a caller gets.
type answer struct {
	Raw      string
	Failure  toolcall.Failure
	Replayed bool
}

func request(tool, key string) txidem.Request {
	return txidem.Request{Scope: scope, Tool: tool, Key: key, Args: json.RawMessage(`{"key":"` + key + `"}`)}
}

// call makes a call. What each tool answers is another thing in each run, or, of a job, its id.
func (a *app) call(ctx context.Context, tool, key string) (answer, error) {
	req, effect := request(tool, key), tool+" "+key
	var got txidem.Result[string]
	var err error
	switch tool {
	case toolBatch:
		got, err = txidem.RunBatch(ctx, a.store, req, func(_ context.Context, b *txidem.Batch) (string, error) {
			b.MustAffect(1, sqlEffect, effect)
			return rand.Text(), nil
		})
	case toolLeased:
		got, err = txidem.RunLeased(ctx, a.store, req, func(ctx context.Context) (string, error) {
			_, err := a.pool.Exec(ctx, sqlEffect, effect)
			return rand.Text(), err
		}, nil)
	default:
		got, err = txidem.Run(ctx, a.store, req, func(ctx context.Context, tx pgx.Tx) (string, error) {
			if _, err := tx.Exec(ctx, sqlEffect, effect); err != nil {
				return "", err
			}
			return a.beside(ctx, tx, tool, key)
		})
	}
	out := answer{Raw: string(got.Raw), Replayed: got.Replayed}
	if failure, ok := errors.AsType[*toolcall.Failure](err); ok {
		out.Failure, err = *failure, nil
	}
	return out, err
}

// beside is what a tool does beside its effect.
func (a *app) beside(ctx context.Context, tx pgx.Tx, tool, key string) (string, error) {
	switch tool {
	case toolRefuse:
		return "", txidem.Fail("no", "not "+rand.Text())
	case toolJob:
		handle, err := a.build.SubmitTx(ctx, tx, a.runner, key, nil)
		return handle.JobID, err
	case toolMessage:
		id, err := a.box.PublishTx(ctx, tx, outbox.Message{Destination: "shop", Body: []byte(key)})
		return id.String(), err
	}
	return rand.Text(), nil
}

// must is call, for one that must be answered.
func (a *app) must(tool, key string, replayed bool) answer {
	a.t.Helper()
	got, err := a.call(a.t.Context(), tool, key)
	if err != nil || got.Replayed != replayed {
		a.t.Fatalf("%s %s: %+v, %v; want replayed: %v", tool, key, got, err, replayed)
	}
	return got
}

// replays checks that a call which is made again is answered as before, byte for byte.
func (a *app) replays(tool, key string, first answer) {
	a.t.Helper()
	first.Replayed = true
	if diff := cmp.Diff(first, a.must(tool, key, true)); diff != "" {
		a.t.Errorf("%s %s (-first +again):\n%s", tool, key, diff)
	}
}

// idIn reads the id that a job's or a message's call answers.
func (a *app) idIn(got answer) toolcall.ID {
	a.t.Helper()
	var text string
	if err := json.Unmarshal([]byte(got.Raw), &text); err != nil {
		a.t.Fatal(err)
	}
	id, err := toolcall.ParseID(text)
	if err != nil {
		a.t.Fatal(err)
	}
	return id
}

// worked waits for the end of the job that a call submitted.
func (a *app) worked(got answer, key string) {
	a.t.Helper()
	id := a.idIn(got)
	eventually(a.t, "the job of "+key+" has succeeded", func() bool {
		status, err := a.runner.Status(a.t.Context(), scope, id)
		return err == nil && status.State == toolcall.StateSucceeded && string(status.Answer) == `"built `+key+`"`
	})
	a.effects("job of "+key, 1)
}

// delivered waits for the delivery of the message that a call published.
func (a *app) delivered(got answer, key string) {
	a.t.Helper()
	id := a.idIn(got)
	eventually(a.t, "the message of "+key+" is delivered", func() bool {
		fate, err := a.box.Fate(a.t.Context(), id)
		return err == nil && fate.State == toolcall.MessageDelivered
	})
	if d := a.came(id); string(d.Body) != key || d.Call != toolcall.NewID(scope, toolMessage, "x:"+key) {
		a.t.Errorf("the message of %s came as %+v", key, d)
	}
}

// effects counts them.
func (a *app) effects(key string, want int) {
	a.t.Helper()
	if n := get[int](a.t, a.pool, `select count(*) from effect where key = $1`, key); n != want {
		a.t.Errorf("%d effects of %s, want %d", n, key, want)
	}
}
