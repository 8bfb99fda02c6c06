package jobs_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/txonce/txonce/internal/devpg"
	"github.com/txonce/txonce/jobs"
	"github.com/txonce/txonce/migrations"
	"github.com/txonce/txonce/toolcall"
	"github.com/txonce/txonce/txidem"
)

// Order and Statement are what the job takes and what it comes to.
type (
	Order struct {
		Account string `json:"account"`
	}
	Statement struct {
		Account string `json:"account"`
		Pages   int    `json:"pages"`
	}
)

// A tool that answers with a job. It is called again, since its answer was lost: it is the same job, and one statement.
func ExampleDefine() {
	ctx := context.Background()
	pool, done := database(ctx)
	defer done()
	store := must(txidem.New(pool, nil))

	statements := jobs.Define("statement", func(ctx context.Context, job *jobs.Job[Order]) (jobs.Commit[Statement], error) {
		pages := 3 // the outcome of long work, outside any transaction
		job.Progress(1, "the last page is set")
		return func(ctx context.Context, tx pgx.Tx) (Statement, error) { // short, in one
			_, err := tx.Exec(ctx, `insert into statements (account, pages) values ($1, $2)`, job.Args.Account, pages)
			return Statement{Account: job.Args.Account, Pages: pages}, err
		}, nil
	}, nil)
	runner := must(jobs.New(pool, nil, statements))
	must(0, runner.Start(ctx))
	defer func() { must(0, runner.Stop(ctx)) }()

	request := txidem.Request{Scope: "tenant-7", Tool: "build_statement", Key: "a key for this intent"}
	answers := make(map[jobs.Handle]bool)
	for range 2 {
		result, err := txidem.Run(ctx, store, request, func(ctx context.Context, tx pgx.Tx) (jobs.Handle, error) {
			return statements.SubmitTx(ctx, tx, runner, Order{Account: "A-1"}, nil)
		})
		fmt.Println(result.Value.Kind, result.Value.State, "replayed:", result.Replayed, err)
		answers[result.Value] = true
	}
	for handle := range answers {
		status := ended(ctx, runner, "tenant-7", must(toolcall.ParseID(handle.JobID)))
		statement, err := statements.Result(status)
		fmt.Println(status.State, statement.Account, statement.Pages, err)
	}
	var n int
	_ = pool.QueryRow(ctx, `select count(*) from statements`).Scan(&n)
	fmt.Println("statements:", n)
	// Output:
	// statement queued replayed: false <nil>
	// statement queued replayed: true <nil>
	// succeeded A-1 3 <nil>
	// statements: 1
}

// A job that cannot be done ends at once. Any other error would have it tried again.
func ExampleFail() {
	ctx := context.Background()
	pool, done := database(ctx)
	defer done()

	statements := jobs.Define("statement", func(_ context.Context, job *jobs.Job[Order]) (jobs.Commit[Statement], error) {
		return nil, jobs.Fail("no_account", "there is no account "+job.Args.Account)
	}, nil)
	runner := must(jobs.New(pool, nil, statements))
	must(0, runner.Start(ctx))
	defer func() { must(0, runner.Stop(ctx)) }()

	var id toolcall.ID
	must(0, pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { // outside a protected call, one sees to it oneself that an intent submits once
		handle, err := statements.SubmitTx(ctx, tx, runner, Order{Account: "A-0"}, &jobs.SubmitOpts{Scope: "tenant-7"})
		if err != nil {
			return err
		}
		id, err = toolcall.ParseID(handle.JobID)
		return err
	}))
	status := ended(ctx, runner, "tenant-7", id)
	fmt.Println(status.State, "after", status.Job.Attempts, "attempt:", status.Failure)
	// Output: failed after 1 attempt: no_account: there is no account A-0
}

// An application that has a River client shares it.
func ExampleRunner_UseClient() {
	ctx := context.Background()
	pool, done := database(ctx)
	defer done()

	statements := jobs.Define("statement", func(context.Context, *jobs.Job[Order]) (jobs.Commit[Statement], error) {
		return func(context.Context, pgx.Tx) (Statement, error) { return Statement{}, nil }, nil
	}, nil)
	workers := river.NewWorkers() // the application's own are added to it as well
	runner := must(jobs.New(pool, &jobs.Config{Workers: workers}, statements))
	client := must(river.NewClient(riverpgxv5.New(pool), &river.Config{
		Schema:  "txonce_river", // where migrations.Up made River's tables, or the application did
		Workers: workers,
		Queues:  map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 10}},
		Logger:  slog.New(slog.NewTextHandler(os.Stderr, nil)),
	}))
	must(0, runner.UseClient(client))
	must(0, client.Start(ctx)) // works jobs
	must(0, runner.Start(ctx)) // looks after those whose worker or doorbell is gone
	must(0, runner.Stop(ctx))
	must(0, client.Stop(ctx))
	// Output:
}

// ended asks for a job until it has ended.
func ended(ctx context.Context, runner *jobs.Runner, scope string, id toolcall.ID) toolcall.Status {
	for {
		status := must(runner.Status(ctx, scope, id))
		if status.State != toolcall.StateQueued && status.State != toolcall.StateRunning {
			return status
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// database gives an example a migrated database of its own, with a table of statements.
func database(ctx context.Context) (*pgxpool.Pool, func()) {
	server := must(devpg.Start(ctx, nil))
	admin := must(pgxpool.New(ctx, server.URL()))
	name := "txonce_example_" + strings.ToLower(rand.Text())
	must(admin.Exec(ctx, "create database "+name))
	config := must(pgxpool.ParseConfig(server.URL()))
	config.ConnConfig.Database = name
	pool := must(pgxpool.NewWithConfig(ctx, config))
	must(0, migrations.Up(ctx, pool, nil))
	must(pool.Exec(ctx, "create table statements (account text, pages int)"))
	return pool, func() {
		pool.Close()
		must(admin.Exec(ctx, "drop database "+name))
		admin.Close()
		must(0, server.Stop())
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
