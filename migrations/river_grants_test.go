package migrations

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"
)

// bell is a job of River's as package jobs makes them: it carries an id.
type bell struct {
	ID string `json:"id"`
}

func (bell) Kind() string { return "bell" }

// ringer works on a row of ours and ends River's with it.
type ringer struct {
	river.WorkerDefaults[bell]
	pool *pgxpool.Pool
}

func (r *ringer) Work(ctx context.Context, job *river.Job[bell]) error {
	return pgx.BeginFunc(ctx, r.pool, func(tx pgx.Tx) error {
		var state string
		if err := tx.QueryRow(ctx, `select state from txonce.job where id = $1 for update skip locked`, job.Args.ID).Scan(&state); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `update txonce.job set state = 'succeeded', finished_at = now() where id = $1`, job.Args.ID); err != nil {
			return err
		}
		_, err := river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, job)
		return err
	})
}

// complaints passes on what is worse than information.
type complaints struct{ lines }

func (complaints) Enabled(_ context.Context, level slog.Level) bool { return level > slog.LevelInfo }
func (c complaints) WithAttrs([]slog.Attr) slog.Handler             { return c }
func (c complaints) WithGroup(string) slog.Handler                  { return c }
func (c complaints) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	r.Attrs(func(a slog.Attr) bool { text += " " + a.String(); return true })
	c.lines <- text
	return nil
}

// TestGrants_D08_J10_AreEnoughForJobs: a client of River's inserts and works with
// what the package documentation grants, and complains of nothing.
func TestGrants_D08_J10_AreEnoughForJobs(t *testing.T) {
	t.Parallel()
	role := newRole(t)
	cfg := newDB(t)
	owner, app := newPool(t, cfg, nil), newPool(t, cfg, as(role))
	if err := Up(t.Context(), owner, nil); err != nil {
		t.Fatal(err)
	}
	for _, sql := range documentedGrants(t, "worker", role) {
		mustExec(t, owner, sql)
	}
	complained := newLines()
	workers := river.NewWorkers()
	river.AddWorker(workers, &ringer{pool: app})
	client, err := river.NewClient(riverpgxv5.New(app), &river.Config{
		Schema: "txonce_river", Workers: workers, Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 2}},
		Logger: slog.New(complaints{complained}),
	})
	if err != nil {
		t.Fatal(err)
	}
	ended, unsubscribe := client.Subscribe(river.EventKindJobCompleted, river.EventKindJobFailed)
	defer unsubscribe()
	if err := client.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.StopAndCancel(context.Background()) }()

	row := submitBell(t, app, client)
	select {
	case event := <-ended:
		if event.Kind != river.EventKindJobCompleted || event.Job.ID != row.ID {
			t.Errorf("%s: %+v", event.Kind, event.Job.Errors)
		}
	case <-time.After(patience):
		t.Fatal("the job did not end")
	}
	if state := get[string](t, app, `select state from txonce.job`); state != "succeeded" {
		t.Errorf("the job is %s", state)
	}
	eventually(t, "the client leads", func() bool { return get[int](t, app, `select count(*) from txonce_river.river_leader`) == 1 })
	if _, err := client.JobDelete(t.Context(), row.ID); err != nil {
		t.Error(err)
	}
	mustExec(t, app, `delete from txonce.job`)
	if err := client.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	for len(complained) > 0 {
		t.Errorf("River complains: %s", <-complained)
	}
}

// submitBell makes a row of ours and one of River's in one transaction.
func submitBell(t *testing.T, pool *pgxpool.Pool, client *river.Client[pgx.Tx]) (row *rivertype.JobRow) {
	t.Helper()
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		var id string
		err := tx.QueryRow(t.Context(), `
			insert into txonce.job (id, scope, kind, queue, priority, state, args, keep, max_attempts, created_at, run_at, check_at)
			values (gen_random_uuid(), 's', 'k', 'default', 1, 'queued', '', '1 day', 1, now(), now(), now()) returning id`).Scan(&id)
		if err != nil {
			return err
		}
		res, err := client.InsertTx(t.Context(), tx, bell{ID: id}, nil)
		if err == nil {
			row = res.Job
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return row
}
