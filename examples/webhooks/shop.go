package main

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/migrations"
	"github.com/txonce/txonce/txidem"
	"github.com/txonce/txonce/txidem/httpidem"
)

// shop is the application: refunds that its clients ask for, and a payment provider that says when they are paid.
type shop struct {
	pool  *pgxpool.Pool
	store *txidem.Store
	log   *slog.Logger
}

// The tables are in schemas of their own, since the database may be one that the reader has.
const (
	schema  = "txonce_webhooks"
	records = "txonce_webhooks_records"
	tables  = `
		create schema if not exists txonce_webhooks;
		create table if not exists txonce_webhooks.refunds (
			id bigint generated always as identity primary key, order_id text not null, cents bigint not null, settled_at timestamptz);
		create table if not exists txonce_webhooks.ledger (
			id bigint generated always as identity primary key, refund bigint not null, cents bigint not null)`
)

func openShop(ctx context.Context, url string, log *slog.Logger) (*shop, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.ConnConfig.RuntimeParams["search_path"] = schema
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	s := &shop{pool: pool, log: log}
	if _, err = pool.Exec(ctx, tables, pgx.QueryExecModeSimpleProtocol); err == nil {
		err = migrations.Up(ctx, pool, &migrations.Config{Schema: records, NoRiver: true})
	}
	if err == nil {
		s.store, err = txidem.New(pool, &txidem.Config{Schema: records, Logger: log})
	}
	if err != nil {
		pool.Close()
		return nil, err
	}
	return s, nil
}

// sweep removes records that have expired, until ctx ends.
func (s *shop) sweep(ctx context.Context) error {
	sweeper, err := txidem.NewSweeper(s.store, time.Minute)
	if err != nil {
		return err
	}
	return sweeper.Run(ctx)
}

// handler has both doors. The secrets are the provider's, more than one while they are being changed.
func (s *shop) handler(secrets ...string) (http.Handler, error) {
	idem, err := httpidem.New(s.store, &httpidem.Config{Scope: caller, Logger: s.log})
	if err != nil {
		return nil, err
	}
	verifier, err := httpidem.StandardWebhooks(secrets...)
	if err != nil {
		return nil, err
	}
	payments, err := httpidem.Webhook(s.store, &httpidem.WebhookConfig{Source: "payments", Verifier: verifier, Logger: s.log}, settle)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("POST /refunds", idem.Handler(refund))
	mux.Handle("POST /webhooks/payments", payments)
	mux.HandleFunc("GET /ledger", s.ledger) // reading needs no protection
	return mux, nil
}

// caller says who is calling: here by a token, of which there is one.
func caller(r *http.Request) (string, error) {
	if r.Header.Get("Authorization") != "Bearer demo-token" {
		return "", errors.New("webhooks: the request has no token that is known")
	}
	return "tenant-7", nil
}

// refund is written as if nobody ever repeated a request.
func refund(w http.ResponseWriter, r *http.Request, tx pgx.Tx) error {
	var in struct {
		Order string `json:"order"`
		Cents int64  `json:"cents"`
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		return txidem.Fail("bad_request", "the body must be an object with order and cents")
	}
	if in.Cents <= 0 {
		return txidem.Fail("bad_amount", "cents must be positive") // the same request will hear it again
	}
	var out struct {
		Refund int64 `json:"refund"`
	}
	err := tx.QueryRow(r.Context(), `insert into refunds (order_id, cents) values ($1, $2) returning id`, in.Order, in.Cents).Scan(&out.Refund)
	if err != nil {
		return err // rolled back, and the next request runs
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	return json.NewEncoder(w).Encode(out)
}

// settle handles the provider's events. It too is written as if each came once.
func settle(ctx context.Context, tx pgx.Tx, ev httpidem.Event) error {
	var event struct {
		Type string `json:"type"`
		Data struct {
			Refund int64 `json:"refund"`
		} `json:"data"`
	}
	if err := json.Unmarshal(ev.Body, &event); err != nil {
		return txidem.Fail("bad_event", "the event is not JSON") // no further delivery will help
	}
	if event.Type != "payment.settled" {
		return nil // good for us, and it need not come again
	}
	var cents int64
	err := tx.QueryRow(ctx, `update refunds set settled_at = $2 where id = $1 returning cents`, event.Data.Refund, time.Now()).Scan(&cents)
	if errors.Is(err, pgx.ErrNoRows) {
		return errors.New("webhooks: there is no such refund yet") // 500: the provider tries again
	}
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `insert into ledger (refund, cents) values ($1, $2)`, event.Data.Refund, -cents)
	return err
}

// ledger shows what was done.
func (s *shop) ledger(w http.ResponseWriter, r *http.Request) {
	var out struct {
		Refunds int   `json:"refunds"`
		Entries int   `json:"ledger_entries"`
		Cents   int64 `json:"cents"`
	}
	err := s.pool.QueryRow(r.Context(), `select (select count(*) from refunds), count(*), coalesce(sum(cents), 0)::bigint from ledger`).
		Scan(&out.Refunds, &out.Entries, &out.Cents)
	if err != nil {
		s.log.ErrorContext(r.Context(), "webhooks: the ledger cannot be read", "error", err)
		http.Error(w, "the ledger cannot be read", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(out)
}
