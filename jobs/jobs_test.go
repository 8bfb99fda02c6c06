package jobs

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"

	"github.com/txonce/txonce/internal/dbtest"
	"github.com/txonce/txonce/toolcall"
)

// in and out are what the jobs of most tests take and give.
type in struct {
	Label string `json:"label"`
}

type out struct {
	Label string `json:"label"`
	By    string `json:"by"`
}

// fixture is a database with a table for effects, and a runner on it.
type fixture struct {
	t    *testing.T
	pool *pgxpool.Pool
	*Runner
}

// quick is the configuration of most tests: a dead worker is missed soon, and what runs is renewed often enough for a slow
// machine.
func quick() *Config { return &Config{Lease: 4 * time.Second, Sweep: 200 * time.Millisecond} }

// setup makes the database and the runner, and does not start it.
func setup(t *testing.T, cfg *Config, definitions ...Registered) *fixture {
	t.Helper()
	pool := dbtest.Pool(t, func(cfg *pgxpool.Config) { cfg.MaxConns = 20 })
	f := &fixture{t: t, pool: pool}
	f.exec(`create table effect (label text not null, by text not null default '')`)
	f.Runner = f.another(cfg, definitions...)
	return f
}

// another makes one more runner on the same database.
func (f *fixture) another(cfg *Config, definitions ...Registered) *Runner {
	f.t.Helper()
	if cfg == nil {
		cfg = quick()
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(testLog{f.t}, &slog.HandlerOptions{Level: slog.LevelInfo}))
	}
	change := cfg.Configure
	cfg.Configure = func(c *river.Config) {
		c.TestOnly = true // no staggered start
		c.FetchCooldown, c.FetchPollInterval = 20*time.Millisecond, 200*time.Millisecond
		c.PollOnly = dbtest.Pooled()
		if change != nil {
			change(c)
		}
	}
	r, err := New(f.pool, cfg, definitions...)
	if err != nil {
		f.t.Fatal(err)
	}
	return r
}

// testLog shows the log of a test that failed.
type testLog struct{ t *testing.T }

func (l testLog) Write(line []byte) (int, error) {
	if l.t.Context().Err() == nil { // else it is over
		l.t.Log(string(line))
	}
	return len(line), nil
}

// start starts the runner, and stops it when the test ends.
func (f *fixture) start(r *Runner) {
	f.t.Helper()
	if err := r.Start(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := r.Stop(ctx); err != nil {
			f.t.Error(err)
		}
	})
}

func (f *fixture) exec(sql string, args ...any) {
	f.t.Helper()
	if _, err := f.pool.Exec(f.t.Context(), sql, args...); err != nil {
		f.t.Fatalf("%s: %v", sql, err)
	}
}

func get[T any](f *fixture, sql string, args ...any) T {
	f.t.Helper()
	var v T
	if err := f.pool.QueryRow(f.t.Context(), sql, args...).Scan(&v); err != nil {
		f.t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// scope is whose jobs they are.
const scope = "alice"

// submit submits a job in a transaction of its own.
func submit[I, O any](f *fixture, d *Definition[I, O], args I, opts *SubmitOpts) toolcall.ID {
	f.t.Helper()
	id, err := trySubmit(f, d, args, opts)
	if err != nil {
		f.t.Fatal(err)
	}
	return id
}

func trySubmit[I, O any](f *fixture, d *Definition[I, O], args I, opts *SubmitOpts) (id toolcall.ID, err error) {
	if opts == nil {
		opts = &SubmitOpts{Scope: scope}
	}
	err = pgx.BeginFunc(f.t.Context(), f.pool, func(tx pgx.Tx) error {
		h, err := d.SubmitTx(f.t.Context(), tx, f.Runner, args, opts)
		if err != nil {
			return err
		}
		id, err = toolcall.ParseID(h.JobID)
		return err
	})
	return id, err
}

// write makes the effect that is counted.
func write(ctx context.Context, tx pgx.Tx, label string) error {
	_, err := tx.Exec(ctx, `insert into effect (label) values ($1::text)`, label)
	return err
}

// commits is the commit half of most tests.
func commits(label string) Commit[out] {
	return func(ctx context.Context, tx pgx.Tx) (out, error) {
		return out{Label: label}, write(ctx, tx, label)
	}
}

// plainly is a definition that does nothing but commit.
func plainly(name string, opts *Options) *Definition[in, out] {
	return Define(name, func(_ context.Context, job *Job[in]) (Commit[out], error) { return commits(job.Args.Label), nil }, opts)
}

// status asks for a job that must be there.
func (f *fixture) status(id toolcall.ID) toolcall.Status {
	f.t.Helper()
	s, err := f.Status(f.t.Context(), scope, id)
	if err != nil {
		f.t.Fatal(err)
	}
	return s
}

// await waits until the job has the state.
func (f *fixture) await(id toolcall.ID, state toolcall.State) toolcall.Status {
	f.t.Helper()
	var s toolcall.Status
	f.eventually(fmt.Sprintf("job %s is %s", id, state), func() bool {
		s = f.status(id)
		return s.State == state
	})
	return s
}

// eventually finds hangs; it measures nothing.
func (f *fixture) eventually(what string, holds func() bool) {
	f.t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if holds() {
			return
		}
	}
	f.t.Fatalf("it never came: %s", what)
}

// effectsAre compares what was written.
func (f *fixture) effectsAre(want map[string]int) {
	f.t.Helper()
	got := make(map[string]int)
	rows, _ := f.pool.Query(f.t.Context(), `select label, count(*)::int from effect group by label`)
	var label string
	var n int
	if _, err := pgx.ForEachRow(rows, []any{&label, &n}, func() error { got[label] = n; return nil }); err != nil {
		f.t.Fatal(err)
	}
	if !maps.Equal(got, want) {
		f.t.Errorf("effects are %v, want %v", got, want)
	}
}
