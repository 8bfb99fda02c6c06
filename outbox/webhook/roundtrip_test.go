package webhook_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/internal/dbtest"
	"github.com/txonce/txonce/outbox"
	"github.com/txonce/txonce/outbox/webhook"
	"github.com/txonce/txonce/toolcall"
	"github.com/txonce/txonce/txidem"
	"github.com/txonce/txonce/txidem/httpidem"
)

// relayed publishes a message for the destination, relays until it has ended, and returns its fate.
func relayed(t *testing.T, pool *pgxpool.Pool, d outbox.Destination, m outbox.Message) outbox.Fate {
	t.Helper()
	box, err := outbox.New(pool, nil, d)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- box.Run(ctx) }()
	defer func() {
		cancel()
		<-over
	}()
	var id toolcall.ID
	m.Destination = d.Name
	err = pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		id, err = box.PublishTx(t.Context(), tx, m)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		fate, err := box.Fate(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if fate.State.Ended() {
			return fate
		}
		if time.Now().After(deadline) {
			t.Fatalf("it is still %+v", fate)
		}
	}
}

// TestPublisher_O01_OutAndInIsOneEffect: what the outbox sends at least once, httpidem's webhooks take once. The first
// delivery commits and its answer is lost; the second one is signed anew, with the secret that has come since.
func TestPublisher_O01_OutAndInIsOneEffect(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, nil)
	if _, err := pool.Exec(t.Context(), `create table shipped (event text, body text)`); err != nil {
		t.Fatal(err)
	}
	store, err := txidem.New(pool, nil)
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := httpidem.StandardWebhooks(secret(1), secret(2))
	if err != nil {
		t.Fatal(err)
	}
	in, err := httpidem.Webhook(store, &httpidem.WebhookConfig{Source: "shop", Verifier: verifier}, func(ctx context.Context, tx pgx.Tx, ev httpidem.Event) error {
		_, err := tx.Exec(ctx, `insert into shipped values ($1, $2)`, ev.ID, string(ev.Body))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var deliveries atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if deliveries.Add(1) == 1 {
			in.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		}
		in.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	p := newPublisher(t, webhook.Config{
		AllowHTTP: true, AllowPrivate: true, ProviderIDHeader: httpidem.HeaderReplayed,
		SecretsFor: func(_ context.Context, d outbox.Delivery) ([]string, error) { return []string{secret(d.Attempt)}, nil },
	})
	fate := relayed(t, pool, outbox.Destination{Name: "hooks", Publisher: p, Retry: outbox.Schedule{time.Millisecond}}, outbox.Message{Address: server.URL, Body: []byte(`{"order":"A-1"}`)})
	if fate.State != toolcall.MessageDelivered || fate.Attempts != 2 || fate.Status != 200 || fate.ProviderID != "true" {
		t.Errorf("its fate is %+v", fate)
	}
	var n int
	var event, body string
	err = pool.QueryRow(t.Context(), `select count(*), min(event), min(body) from shipped`).Scan(&n, &event, &body)
	if err != nil || n != 1 || event != fate.ID.String() || body != `{"order":"A-1"}` || deliveries.Load() != 2 {
		t.Errorf("%d effects of %d deliveries: %s %s, %v", n, deliveries.Load(), event, body, err)
	}
}

// TestPublisher_O05_WhatEndsAMessage in the outbox, with one attempt each.
func TestPublisher_O05_WhatEndsAMessage(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, nil)
	for status, want := range map[int]toolcall.MessageState{
		202: toolcall.MessageDelivered, 302: toolcall.MessageFailed, 404: toolcall.MessageFailed, 409: toolcall.MessageFailed, 410: toolcall.MessageFailed, 500: toolcall.MessageUnknown, 503: toolcall.MessageUnknown,
	} {
		p := at(t, webhook.Config{KeepResponse: true}, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = w.Write([]byte("why"))
		})
		fate := relayed(t, pool, outbox.Destination{Name: strconv.Itoa(status), Publisher: p, Retry: outbox.Schedule{}}, outbox.Message{})
		if fate.State != want || fate.Status != status || fate.Attempts != 1 {
			t.Errorf("%d: its fate is %+v", status, fate)
		}
	}
}

// TestPublisher_O04_ThrottledClosesTheDestination for all relays, with 503 too, though that proves nothing about the message.
func TestPublisher_O04_ThrottledClosesTheDestination(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, nil)
	for status, want := range map[int]bool{429: true, 503: true, 500: false, 409: false} {
		p := at(t, webhook.Config{}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(status)
		})
		name := strconv.Itoa(status)
		relayed(t, pool, outbox.Destination{Name: name, Publisher: p, Retry: outbox.Schedule{}}, outbox.Message{})
		var closed bool
		err := pool.QueryRow(t.Context(), `select exists (select from txonce.destination where name = $1 and closed_until > now() + interval '50 minutes')`, name).Scan(&closed)
		if err != nil || closed != want {
			t.Errorf("%d: closed: %v, %v", status, closed, err)
		}
	}
}

// TestPublisher_O07_BadMessageFailsTheCall that publishes it.
func TestPublisher_O07_BadMessageFailsTheCall(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, nil)
	box, err := outbox.New(pool, nil, outbox.Destination{Name: "hooks", Publisher: newPublisher(t, webhook.Config{})})
	if err != nil {
		t.Fatal(err)
	}
	err = pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		_, err := box.PublishTx(t.Context(), tx, outbox.Message{Destination: "hooks", Address: "https://169.254.169.254/"})
		return err
	})
	if !errors.Is(err, outbox.ErrMessage) {
		t.Errorf("it returned %v", err)
	}
}
