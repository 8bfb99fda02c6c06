package txidemtest_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/internal/dbtest"
	"github.com/txonce/txonce/toolcall"
	"github.com/txonce/txonce/txidem"
	"github.com/txonce/txonce/txidem/txidemtest"
)

func wayRequest(intent int) txidem.Request {
	return txidem.Request{Scope: "alice", Tool: "pay", Key: fmt.Sprint("key-", intent), Policy: &txidem.Policy{Lease: time.Second, OnLeaseLost: txidem.RerunLost}}
}

// byRunTx makes the call in a transaction of the caller's.
func byRunTx(ctx context.Context, pool *pgxpool.Pool, intent int) (raw []byte, err error) {
	store, err := txidem.New(pool, nil)
	if err != nil {
		return nil, err
	}
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		result, err := txidem.RunTx(ctx, tx, store, wayRequest(intent), func(ctx context.Context, tx pgx.Tx) (string, error) {
			_, err := tx.Exec(ctx, sqlEffect, intent)
			return "done", err
		})
		raw = result.Raw
		return err
	})
	return raw, err
}

// byRunBatch makes the call in one round trip.
func byRunBatch(ctx context.Context, pool *pgxpool.Pool, intent int) ([]byte, error) {
	store, err := txidem.New(pool, nil)
	if err != nil {
		return nil, err
	}
	result, err := txidem.RunBatch(ctx, store, wayRequest(intent), func(_ context.Context, b *txidem.Batch) (string, error) {
		b.Queue(sqlEffect, intent)
		return "done", nil
	})
	return result.Raw, err
}

// sqlPay is what a payment provider does that recognises repeats by their key: the key's first payment counts.
const sqlPay = `insert into payment (key, intent) values ($1, $2) on conflict do nothing`

// byRunLeased makes the call around an effect that is the provider's, which is paid by the key that keyOf makes.
func byRunLeased(keyOf func(*toolcall.Call) string, ask bool) func(context.Context, *pgxpool.Pool, int) ([]byte, error) {
	return func(ctx context.Context, pool *pgxpool.Pool, intent int) ([]byte, error) {
		store, err := txidem.New(pool, nil)
		if err != nil {
			return nil, err
		}
		pay := func(ctx context.Context) (string, error) {
			call, _ := toolcall.FromContext(ctx)
			_, err := pool.Exec(ctx, sqlPay, keyOf(call), intent)
			return "paid", err
		}
		var find func(context.Context) (string, bool, error)
		if ask {
			find = func(ctx context.Context) (string, bool, error) {
				call, _ := toolcall.FromContext(ctx)
				var n int
				err := pool.QueryRow(ctx, `select count(*) from payment where key = $1`, keyOf(call)).Scan(&n)
				return "paid", n > 0, err
			}
		}
		result, err := txidem.RunLeased(ctx, store, wayRequest(intent), pay, find)
		return result.Raw, err
	}
}

func downstream(call *toolcall.Call) string { return call.DownstreamKey("pay") }

// withPayments adds the table of the provider.
func withPayments(t *testing.T) string {
	t.Helper()
	url := database(t)
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := conn.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}()
	if _, err := conn.Exec(t.Context(), `create table payment (key text primary key, intent int not null)`); err != nil {
		t.Fatal(err)
	}
	return url
}

// TestCheck_R14_R18_EachWayToRun passes good tools of each way, and finds the leased one that pays under a key of the moment.
func TestCheck_R14_R18_EachWayToRun(t *testing.T) {
	t.Parallel()
	const payments = `select count(*) from payment where intent = $1`
	type check struct {
		tool  txidemtest.Tool
		finds string
	}
	for name, c := range dbtest.Sample(t, 2, map[string]check{
		"RunTx":           {tool: txidemtest.Tool{Call: byRunTx, Effects: sqlCount}},
		"RunBatch":        {tool: txidemtest.Tool{Call: byRunBatch, Effects: sqlCount}},
		"RunLeased":       {tool: txidemtest.Tool{Call: byRunLeased(downstream, false), Effects: payments, Elsewhere: true}},
		"RunLeased, asks": {tool: txidemtest.Tool{Call: byRunLeased(downstream, true), Effects: payments, Elsewhere: true}},
		"RunLeased, a new key for each attempt": {finds: "the query counts 2 effects", tool: txidemtest.Tool{
			Call: byRunLeased(func(*toolcall.Call) string { return rand.Text() }, false), Effects: payments, Elsewhere: true,
		}},
	}) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found, err := txidemtest.Check(t.Context(), t.Name(), func() string { return withPayments(t) }, c.tool)
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case c.finds == "" && len(found) > 0:
				t.Errorf("found %v", found)
			case c.finds != "" && (len(found) == 0 || !strings.Contains(errors.Join(asErrors(found)...).Error(), c.finds)):
				t.Errorf("found %v, want %q", found, c.finds)
			}
		})
	}
}

func asErrors(found []txidemtest.Finding) []error {
	var errs []error
	for _, f := range found {
		errs = append(errs, errors.New(f.String()))
	}
	return errs
}
