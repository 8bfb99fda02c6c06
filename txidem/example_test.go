package txidem_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/internal/devpg"
	"github.com/txonce/txonce/migrations"
	"github.com/txonce/txonce/toolcall"
	"github.com/txonce/txonce/txidem"
)

func Example() {
	ctx := context.Background()
	pool, done := database(ctx)
	defer done()

	store, err := txidem.New(pool, nil)
	if err != nil {
		panic(err)
	}
	refund := func(ctx context.Context, tx pgx.Tx) (string, error) {
		_, err := tx.Exec(ctx, `insert into refunds (order_id, cents) values ('A-1', 1050)`)
		return "refunded", err
	}
	request := txidem.Request{Scope: "tenant-7", Tool: "issue_refund", Key: "a key for this intent"}
	for range 3 { // the client lost the answer, twice
		result, err := txidem.Run(ctx, store, request, refund)
		fmt.Println(result.Value, "replayed:", result.Replayed, err)
	}
	var refunds int
	_ = pool.QueryRow(ctx, `select count(*) from refunds`).Scan(&refunds)
	fmt.Println("refunds:", refunds)
	// Output:
	// refunded replayed: false <nil>
	// refunded replayed: true <nil>
	// refunded replayed: true <nil>
	// refunds: 1
}

func ExampleFail() {
	ctx := context.Background()
	pool, done := database(ctx)
	defer done()

	store, err := txidem.New(pool, nil)
	if err != nil {
		panic(err)
	}
	request := txidem.Request{Scope: "tenant-7", Tool: "issue_refund", Args: []byte(`{"order":"A-1","cents":0}`)}
	for range 2 {
		result, err := txidem.Run(ctx, store, request, func(context.Context, pgx.Tx) (string, error) {
			return "", txidem.Fail("bad_amount", "amount must be positive")
		})
		var failure *toolcall.Failure
		fmt.Println(errors.As(err, &failure), err, "replayed:", result.Replayed, "repeat:", txidem.Retryable(err))
	}
	// Output:
	// true bad_amount: amount must be positive replayed: false repeat: false
	// true bad_amount: amount must be positive replayed: true repeat: false
}

func ExampleNewRules() {
	rules, err := txidem.NewRules(txidem.RuleSpec{Ignore: []string{"/memo"}})
	if err != nil {
		panic(err)
	}
	_ = txidem.Request{Scope: "tenant-7", Tool: "issue_refund", Args: []byte(`{"order":"A-1","memo":"in other words"}`), Rules: rules}
	_, err = txidem.NewRules(txidem.RuleSpec{Ignore: []string{"memo"}})
	fmt.Println(err != nil)
	// Output: true
}

// database gives an example a migrated database of its own, with a table of refunds.
func database(ctx context.Context) (*pgxpool.Pool, func()) {
	server := must(devpg.Start(ctx, nil))
	admin := must(pgxpool.New(ctx, server.URL()))
	name := "txonce_example_" + strings.ToLower(rand.Text())
	must(admin.Exec(ctx, "create database "+name))
	config := must(pgxpool.ParseConfig(server.URL()))
	config.ConnConfig.Database = name
	pool := must(pgxpool.NewWithConfig(ctx, config))
	must(0, migrations.Up(ctx, pool, nil))
	must(pool.Exec(ctx, "create table refunds (id bigserial, order_id text, cents bigint)"))
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
