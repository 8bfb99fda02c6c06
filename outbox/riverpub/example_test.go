package riverpub_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/txonce/txonce/internal/devpg"
	"github.com/txonce/txonce/migrations"
	"github.com/txonce/txonce/outbox"
	"github.com/txonce/txonce/outbox/riverpub"
	"github.com/txonce/txonce/txidem"
)

// A refund, and a letter about it that one of the application's River workers sends.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	pool, done := database(ctx)
	defer done()

	sent := make(chan string)
	workers := river.NewWorkers()
	river.AddWorkerArgs(workers, riverpub.ArgsOf("refund_mail"), river.WorkFunc(func(_ context.Context, job *river.Job[riverpub.Args]) error {
		sent <- fmt.Sprintf("to %s: %s (with a key: %t)", job.Args.Address, job.Args.Body, job.Args.Key != "")
		return nil
	}))
	client := must(river.NewClient(riverpgxv5.New(pool), &river.Config{
		Schema:  "txonce_river", // where migrations.Up made River's tables, or the application did
		Workers: workers,
		Queues:  map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 10}},
		Logger:  slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}))
	must(0, client.Start(ctx))

	mail := must(riverpub.New(pool, client, &riverpub.Config{Kind: "refund_mail"}))
	box := must(outbox.New(pool, nil, outbox.Destination{Name: "mail", Publisher: mail}))
	relayed := make(chan error)
	go func() { relayed <- box.Run(ctx) }()

	store := must(txidem.New(pool, nil))
	request := txidem.Request{Scope: "tenant-7", Tool: "refund", Key: "a key for this intent"}
	for range 2 { // the first answer is lost
		result, err := txidem.Run(ctx, store, request, func(ctx context.Context, tx pgx.Tx) (string, error) {
			_, err := box.PublishTx(ctx, tx, outbox.Message{Destination: "mail", Address: "ann@example.org", Body: []byte("your refund is on its way")})
			return "refunded", err
		})
		fmt.Println(result.Value, "replayed:", result.Replayed, err)
	}
	fmt.Println(<-sent)

	must(0, client.Stop(context.Background()))
	cancel()
	<-relayed
	// Output:
	// refunded replayed: false <nil>
	// refunded replayed: true <nil>
	// to ann@example.org: your refund is on its way (with a key: true)
}

// database gives the example a migrated database of its own.
func database(ctx context.Context) (*pgxpool.Pool, func()) {
	server := must(devpg.Start(ctx, nil))
	admin := must(pgxpool.New(ctx, server.URL()))
	name := "txonce_example_" + strings.ToLower(rand.Text())
	must(admin.Exec(ctx, "create database "+name))
	config := must(pgxpool.ParseConfig(server.URL()))
	config.ConnConfig.Database = name
	pool := must(pgxpool.NewWithConfig(ctx, config))
	must(0, migrations.Up(ctx, pool, nil))
	return pool, func() {
		ctx := context.WithoutCancel(ctx)
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
