package jobs

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/txonce/txonce/internal/dbtest"
	"github.com/txonce/txonce/migrations"
	"github.com/txonce/txonce/toolcall"
)

// mail is a job of the application's own, which knows nothing of us.
type mail struct {
	To string `json:"to"`
}

func (mail) Kind() string { return "mail" }

// postman does them.
type postman struct {
	river.WorkerDefaults[mail]
	sent chan string
}

func (p *postman) Work(_ context.Context, job *river.Job[mail]) error {
	p.sent <- job.Args.To
	return nil
}

// sharing has a runner on the application's client, which has a kind of its own and is started.
func sharing(t *testing.T, definitions ...Registered) (*fixture, *river.Client[pgx.Tx]) {
	t.Helper()
	workers, cfg := river.NewWorkers(), quick()
	river.AddWorker(workers, &postman{sent: make(chan string, 10)})
	cfg.Workers = workers
	f := setup(t, cfg, definitions...)
	client := f.riverOf("txonce_river", workers)
	if err := f.UseClient(client); err != nil {
		t.Fatal(err)
	}
	f.work(client)
	return f, client
}

// riverOf makes a client of the application's.
func (f *fixture) riverOf(schema string, workers *river.Workers) *river.Client[pgx.Tx] {
	f.t.Helper()
	client, err := river.NewClient(riverpgxv5.New(f.pool), &river.Config{
		Schema: schema, Workers: workers, Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 5}},
		TestOnly: true, FetchCooldown: 20 * time.Millisecond, FetchPollInterval: 200 * time.Millisecond, PollOnly: dbtest.Pooled(),
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return client
}

// work starts the client, and stops it when the test ends.
func (f *fixture) work(client *river.Client[pgx.Tx]) {
	f.t.Helper()
	if err := client.Start(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := client.StopAndCancel(ctx); err != nil {
			f.t.Error(err)
		}
	})
}

// sends has the application submit a job of its own and waits until it is done.
func (f *fixture) sends(client *river.Client[pgx.Tx], p *postman, to string) {
	f.t.Helper()
	if _, err := client.Insert(f.t.Context(), mail{to}, nil); err != nil {
		f.t.Error(err)
		return
	}
	select {
	case got := <-p.sent:
		if got != to {
			f.t.Errorf("mail went to %q, want %q", got, to)
		}
	case <-time.After(time.Minute):
		f.t.Errorf("the mail to %q was never sent", to)
	}
}

// TestShared_J10_OneClientForBoth: our kinds and the application's, on the application's client.
func TestShared_J10_OneClientForBoth(t *testing.T) {
	t.Parallel()
	workers, p, cfg := river.NewWorkers(), &postman{sent: make(chan string, 10)}, quick()
	river.AddWorker(workers, p)
	cfg.Workers = workers
	d := plainly("report", nil)
	unlucky := Define("unlucky", func(_ context.Context, job *Job[in]) (Commit[out], error) {
		if job.Attempt == 1 {
			return nil, errors.New("no luck")
		}
		return commits("unlucky"), nil
	}, &Options{Backoff: noPause})
	f := setup(t, cfg, d, unlucky)
	if _, err := trySubmit(f, d, in{}, nil); !errors.Is(err, ErrNoClient) {
		t.Errorf("in front of UseClient: %v, want ErrNoClient", err)
	}
	client := f.riverOf("txonce_river", workers)
	if err := f.UseClient(client); err != nil {
		t.Fatal(err)
	}
	f.work(client)
	f.start(f.Runner)
	ids := []toolcall.ID{submit(f, d, in{Label: "a"}, nil), submit(f, unlucky, in{}, nil)}
	f.sends(client, p, "bob")
	for _, id := range ids {
		f.await(id, toolcall.StateSucceeded)
	}
	f.effectsAre(map[string]int{"a": 1, "unlucky": 1})
	lost := submit(f, d, in{Label: "lost"}, &SubmitOpts{Scope: scope, Queue: idle})
	f.exec(`update txonce.job set queue = 'default', check_at = now() where id = $1::uuid`, uuidOf(lost))
	f.exec(`delete from txonce_river.river_job where queue = 'idle'`)
	f.await(lost, toolcall.StateSucceeded) // the sweeper hangs a new doorbell, by the same client
}

// TestShared_J10_BesideAnotherClientInTheSameSchema: the application's own client leaves our doorbells alone, and ours its jobs.
func TestShared_J10_BesideAnotherClientInTheSameSchema(t *testing.T) {
	t.Parallel()
	d := plainly("report", nil)
	f := setup(t, nil, d)
	p := &postman{sent: make(chan string, 10)}
	workers := river.NewWorkers()
	river.AddWorker(workers, p)
	client, err := river.NewClient(riverpgxv5.New(f.pool), &river.Config{
		Schema: "txonce_river", Workers: workers, Queues: map[string]river.QueueConfig{"mails": {MaxWorkers: 5}},
		TestOnly: true, FetchPollInterval: 200 * time.Millisecond, PollOnly: dbtest.Pooled(),
	})
	if err != nil {
		t.Fatal(err)
	}
	f.work(client)
	f.start(f.Runner)
	for _, label := range []string{"a", "b", "c"} {
		id := submit(f, d, in{Label: label}, nil)
		if _, err := client.Insert(t.Context(), mail{label}, &river.InsertOpts{Queue: "mails"}); err != nil {
			t.Fatal(err)
		}
		f.await(id, toolcall.StateSucceeded)
		if got := <-p.sent; got != label {
			t.Errorf("mail went to %q, want %q", got, label)
		}
	}
	f.effectsAre(map[string]int{"a": 1, "b": 1, "c": 1})
}

// TestShared_J10_ApplicationsRiverInItsOwnSchema, in the same database and with the same names.
func TestShared_J10_ApplicationsRiverInItsOwnSchema(t *testing.T) {
	t.Parallel()
	d := plainly("mail", nil) // a kind of the same name
	f := setup(t, nil, d)
	f.exec(`create schema app`)
	m, err := rivermigrate.New(riverpgxv5.New(f.pool), &rivermigrate.Config{Schema: "app"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Migrate(t.Context(), rivermigrate.DirectionUp, nil); err != nil {
		t.Fatal(err)
	}
	p := &postman{sent: make(chan string, 10)}
	workers := river.NewWorkers()
	river.AddWorker(workers, p)
	client := f.riverOf("app", workers)
	f.work(client)
	f.start(f.Runner)
	for _, label := range []string{"a", "b", "c"} {
		id := submit(f, d, in{Label: label}, nil)
		f.sends(client, p, label)
		f.await(id, toolcall.StateSucceeded)
	}
	f.effectsAre(map[string]int{"a": 1, "b": 1, "c": 1})
}

// TestShared_J10_TwoApplicationsInOneDatabase have a schema each, and do not see each other.
func TestShared_J10_TwoApplicationsInOneDatabase(t *testing.T) {
	t.Parallel()
	ours, theirs := plainly("report", nil), Define("report", func(context.Context, *Job[in]) (Commit[out], error) { return commits("theirs"), nil }, nil)
	f := setup(t, nil, ours)
	direct, err := pgxpool.New(t.Context(), f.pool.Config().ConnString()) // migrations do not go through a pooler
	if err != nil {
		t.Fatal(err)
	}
	defer direct.Close()
	if err := migrations.Up(t.Context(), direct, &migrations.Config{Schema: "other"}); err != nil {
		t.Fatal(err)
	}
	cfg := quick()
	cfg.Schema = "other"
	other := &fixture{t: t, pool: f.pool}
	other.Runner = other.another(cfg, theirs)
	mine := submit(f, ours, in{Label: "ours"}, nil)
	its := submit(other, theirs, in{Label: "x"}, nil)
	other.start(other.Runner)
	other.await(its, toolcall.StateSucceeded)
	if s := f.status(mine); s.State != toolcall.StateQueued {
		t.Errorf("ours: %+v; want it to wait for our runner", s)
	}
	for id, r := range map[toolcall.ID]*fixture{mine: other, its: f} {
		if _, err := r.Status(t.Context(), scope, id); !errors.Is(err, ErrNotFound) {
			t.Errorf("the other one's job: %v, want ErrNotFound", err)
		}
		if _, err := r.Cancel(t.Context(), scope, id); !errors.Is(err, ErrNotFound) {
			t.Errorf("Cancel of the other one's job: %v, want ErrNotFound", err)
		}
	}
	f.start(f.Runner)
	f.await(mine, toolcall.StateSucceeded)
	f.effectsAre(map[string]int{"ours": 1, "theirs": 1})
}

// TestShared_J10_RiverOfAnotherSchema: one River schema for two of ours is a mistake, and no reason to cancel a job.
func TestShared_J10_RiverOfAnotherSchema(t *testing.T) {
	t.Parallel()
	ours, theirs := plainly("report", nil), plainly("report", nil)
	f := setup(t, nil, ours)
	direct, err := pgxpool.New(t.Context(), f.pool.Config().ConnString()) // migrations do not go through a pooler
	if err != nil {
		t.Fatal(err)
	}
	defer direct.Close()
	if err := migrations.Up(t.Context(), direct, &migrations.Config{Schema: "other", NoRiver: true}); err != nil {
		t.Fatal(err)
	}
	cfg := quick()
	cfg.Schema, cfg.RiverSchema = "other", "txonce_river"
	other := &fixture{t: t, pool: f.pool}
	other.Runner = other.another(cfg, theirs)
	id := submit(f, ours, in{Label: "ours"}, nil)
	other.start(other.Runner)
	f.eventually("the other one has answered the doorbell", func() bool {
		return get[bool](f, `select state not in ('available', 'running') from txonce_river.river_job`)
	})
	if err := other.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.ended(id, toolcall.StateQueued, 0, "")
	f.due(id)
	f.start(f.Runner)
	f.await(id, toolcall.StateSucceeded)
	f.effectsAre(map[string]int{"ours": 1})
}
