package watermillpub_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"

	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/internal/devpg"
	"github.com/txonce/txonce/migrations"
	"github.com/txonce/txonce/outbox"
	"github.com/txonce/txonce/outbox/watermillpub"
	"github.com/txonce/txonce/txidem"
)

// A refund, and an event about it. Go channels stand for the broker: any other of Watermill's publishers would take their place.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	pool, done := database(ctx)
	defer done()

	broker := gochannel.NewGoChannel(gochannel.Config{}, nil)
	consumer := must(broker.Subscribe(ctx, "refunds"))

	events := must(watermillpub.New(broker, &watermillpub.Config{Topic: "refunds"}))
	box := must(outbox.New(pool, nil, outbox.Destination{Name: "events", Publisher: events}))
	relayed := make(chan error)
	go func() { relayed <- box.Run(ctx) }()

	store := must(txidem.New(pool, nil))
	request := txidem.Request{Scope: "tenant-7", Tool: "refund", Key: "a key for this intent"}
	for range 2 { // the first answer is lost
		result, err := txidem.Run(ctx, store, request, func(ctx context.Context, tx pgx.Tx) (string, error) {
			_, err := box.PublishTx(ctx, tx, outbox.Message{Destination: "events", Type: "refund.created", OrderingKey: "order 7", Body: []byte(`{"order":7}`)})
			return "refunded", err
		})
		fmt.Println(result.Value, "replayed:", result.Replayed, err)
	}

	event := <-consumer
	fmt.Printf("%s of %s: %s\n", event.Metadata[watermillpub.MetadataType], event.Metadata[watermillpub.MetadataOrderingKey], event.Payload)
	fmt.Println("to be done once for a key:", event.Metadata[watermillpub.MetadataKey] != "")
	event.Ack()

	cancel()
	<-relayed
	must(0, broker.Close()) // after Run has returned
	// Output:
	// refunded replayed: false <nil>
	// refunded replayed: true <nil>
	// refund.created of order 7: {"order":7}
	// to be done once for a key: true
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
