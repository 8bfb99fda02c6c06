package txidemtest_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/internal/devpg"
	"github.com/txonce/txonce/migrations"
	"github.com/txonce/txonce/txidem"
	"github.com/txonce/txonce/txidem/txidemtest"
)

// issueRefund is the tool: what a server does for one call.
func issueRefund(ctx context.Context, pool *pgxpool.Pool, order string) (json.RawMessage, error) {
	store, err := txidem.New(pool, nil)
	if err != nil {
		return nil, err
	}
	request := txidem.Request{Scope: "tenant-7", Tool: "issue_refund", Key: "refund of " + order}
	result, err := txidem.Run(ctx, store, request, func(ctx context.Context, tx pgx.Tx) (string, error) {
		_, err := tx.Exec(ctx, `insert into refunds (order_id) values ($1)`, order)
		return "refunded " + order, err
	})
	return result.Raw, err
}

const countRefunds = `select count(*) from refunds where order_id = 'A-' || $1`

func ExampleRun() {
	_ = func(t *testing.T) { // TestIssueRefund_OneEffect
		txidemtest.Run(t, func() string {
			url, drop := refundsDatabase(t.Context())
			t.Cleanup(drop)
			return url
		}, txidemtest.Tool{
			Call: func(ctx context.Context, pool *pgxpool.Pool, intent int) ([]byte, error) {
				return issueRefund(ctx, pool, fmt.Sprint("A-", intent))
			},
			Effects: countRefunds,
		})
	}
}

func ExampleCheck() {
	ctx := context.Background()
	url, drop := refundsDatabase(ctx)
	defer drop()
	careless := func(ctx context.Context, pool *pgxpool.Pool, intent int) ([]byte, error) {
		order := fmt.Sprint("A-", intent)
		if _, err := pool.Exec(ctx, `insert into refunds (order_id) values ($1)`, order); err != nil {
			return nil, err
		}
		return issueRefund(ctx, pool, order)
	}
	found, err := txidemtest.Check(ctx, "", func() string { return url }, txidemtest.Tool{Call: careless, Effects: countRefunds})
	if err != nil {
		panic(err)
	}
	_, cause, _ := strings.Cut(found[0].Problem, ": ")
	fmt.Println(found[0].Point)
	fmt.Println(cause)
	// Output:
	// two calls in a row
	// Tool.Want or Tool.Effects is wrong, or something writes outside tx (by the pool, in a goroutine or a defer, before the call), or each attempt has another key; seen outside a call's transaction: insert into refunds (order_id) values ($1)
}

// refundsDatabase returns the URL of a migrated database with a table of refunds, and what drops it.
func refundsDatabase(ctx context.Context) (string, func()) {
	server := must(devpg.Start(ctx, nil))
	admin := must(pgxpool.New(ctx, server.URL()))
	name := "txonce_example_" + strings.ToLower(rand.Text())
	must(admin.Exec(ctx, "create database "+name))
	u := must(url.Parse(server.URL()))
	u.Path = "/" + name
	pool := must(pgxpool.New(ctx, u.String()))
	defer pool.Close()
	must(0, migrations.Up(ctx, pool, nil))
	must(pool.Exec(ctx, "create table refunds (order_id text not null)"))
	return u.String(), func() {
		must(admin.Exec(ctx, "drop database "+name+" with (force)"))
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
