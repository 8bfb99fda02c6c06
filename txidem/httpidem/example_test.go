package httpidem_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/txonce/txonce/internal/devpg"
	"github.com/txonce/txonce/migrations"
	"github.com/txonce/txonce/txidem"
	"github.com/txonce/txonce/txidem/httpidem"
)

func ExampleAdapter_Handler() {
	pool, store, done := database(context.Background())
	defer done()

	idem := must(httpidem.New(store, &httpidem.Config{
		Scope: func(r *http.Request) (string, error) { return "tenant-7", nil }, // from the request's verified token
	}))
	mux := http.NewServeMux()
	mux.Handle("POST /refunds", idem.Handler(func(w http.ResponseWriter, r *http.Request, tx pgx.Tx) error {
		var in struct {
			Order string
			Cents int64
		}
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in.Cents <= 0 {
			return txidem.Fail("bad_amount", "cents must be a positive number")
		}
		var id int64
		err := tx.QueryRow(r.Context(), `insert into refunds (order_id, cents) values ($1, $2) returning id`, in.Order, in.Cents).Scan(&id)
		if err != nil {
			return err // rolled back; the next request runs
		}
		w.WriteHeader(http.StatusCreated)
		_, err = fmt.Fprintf(w, "refund %d of %s", id, in.Order)
		return err
	}))

	server := httptest.NewServer(mux)
	defer server.Close()
	for _, body := range []string{`{"order":"A-1","cents":1050}`, `{"cents":1.05e3, "order":"A-1"}`, `{"order":"A-1","cents":9900}`} {
		got := must(try(context.Background(), "POST", server.URL+"/refunds", body, "Idempotency-Key", "a key for this intent"))
		fmt.Println(got.status, "replayed:", got.replayed(), said(got))
	}
	fmt.Println("refunds:", refunds(pool))
	// Output:
	// 201 replayed: false refund 1 of A-1
	// 201 replayed: true refund 1 of A-1
	// 422 replayed: false key_reused [/body/cents]
	// refunds: 1
}

func ExampleAdapter_Middleware() {
	pool, store, done := database(context.Background())
	defer done()

	idem := must(httpidem.New(store, &httpidem.Config{Scope: httpidem.ScopeIs("the only caller")}))
	mux := http.NewServeMux()
	mux.Handle("POST /orders/{id}/refunds", idem.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tx, _ := httpidem.Tx(r.Context())
		if _, err := tx.Exec(r.Context(), `insert into refunds (order_id) values ($1)`, r.PathValue("id")); err != nil {
			httpidem.Abort(r.Context(), err)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})))

	server := httptest.NewServer(mux)
	defer server.Close()
	for range 2 {
		got := must(try(context.Background(), "POST", server.URL+"/orders/A-1/refunds", "", "Idempotency-Key", "k"))
		fmt.Println(got.status, "replayed:", got.replayed())
	}
	fmt.Println("refunds:", refunds(pool))
	// Output:
	// 204 replayed: false
	// 204 replayed: true
	// refunds: 1
}

func ExampleWebhook() {
	pool, store, done := database(context.Background())
	defer done()

	const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	handler := must(httpidem.Webhook(store, &httpidem.WebhookConfig{
		Source:   "payments",
		Verifier: must(httpidem.StandardWebhooks(secret)), // during a rotation, the older one as well
	}, func(ctx context.Context, tx pgx.Tx, ev httpidem.Event) error {
		_, err := tx.Exec(ctx, `insert into refunds (order_id) values ($1)`, string(ev.Body))
		return err
	}))

	server := httptest.NewServer(handler)
	defer server.Close()
	now := time.Now()
	signature := must(must(standardwebhooks.NewWebhook(secret)).Sign("evt_1", now, []byte("A-1")))
	for range 2 { // the source got no answer
		got := must(try(context.Background(), "POST", server.URL, "A-1",
			"Webhook-Id", "evt_1", "Webhook-Timestamp", fmt.Sprint(now.Unix()), "Webhook-Signature", signature))
		fmt.Println(got.status, "replayed:", got.replayed())
	}
	fmt.Println("refunds:", refunds(pool))
	// Output:
	// 200 replayed: false
	// 200 replayed: true
	// refunds: 1
}

// said is the body of an answer, or the kind of its problem and what differs.
func said(a answer) string {
	if a.problem() != "" {
		return fmt.Sprint(a.problem(), " ", a.document()["differing_arguments"])
	}
	return a.body
}

func refunds(pool *pgxpool.Pool) (n int) {
	must(0, pool.QueryRow(context.Background(), `select count(*) from refunds`).Scan(&n))
	return n
}

// database gives an example a migrated database of its own, with a table of refunds, and a store on it.
func database(ctx context.Context) (*pgxpool.Pool, *txidem.Store, func()) {
	server := must(devpg.Start(ctx, nil))
	admin := must(pgxpool.New(ctx, server.URL()))
	name := "txonce_example_" + strings.ToLower(rand.Text())
	must(admin.Exec(ctx, "create database "+name))
	config := must(pgxpool.ParseConfig(server.URL()))
	config.ConnConfig.Database = name
	pool := must(pgxpool.NewWithConfig(ctx, config))
	must(0, migrations.Up(ctx, pool, nil))
	must(pool.Exec(ctx, "create table refunds (id bigserial, order_id text, cents bigint)"))
	return pool, must(txidem.New(pool, nil)), func() {
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
