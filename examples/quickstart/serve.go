package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/internal/devpg"
	"github.com/txonce/txonce/txidem"
	"github.com/txonce/txonce/txidem/mcpidem"
)

// serve runs the billing server for a client of the reader's own, on schemas that stay, until ctx ends or the client
// on stdio leaves. It writes to stderr only: on stdio, stdout is the protocol's.
func serve(ctx context.Context, o options, pg *devpg.Server, stderr io.Writer) (err error) {
	db, err := openDatabase(ctx, pg.URL(), schemas{app: "txonce_demo", txonce: "txonce_demo_records"})
	if err != nil {
		return err
	}
	defer db.Close()
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	scope := mcpidem.ScopeFromToken
	if o.serve == "stdio" {
		scope = mcpidem.ScopeIs("local") // whoever started the process is the only caller
	}
	merchant, err := openMerchant(ctx, o.seed)
	if err != nil {
		return err
	}
	defer merchant.close()
	shop, err := openShop(ctx, o, db, merchant, scope, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, shop.close(ctx)) }()
	_, _ = fmt.Fprintf(stderr, "PostgreSQL %s: %s.\n", pg.Version(), pg.Source())
	if o.serve == "stdio" {
		_, _ = fmt.Fprintln(stderr, "Billing server on stdio; it ends when the client closes stdin.")
		return shop.server.Run(ctx, &mcp.StdioTransport{})
	}
	h, err := listen(ctx, o.address, "/mcp", newHandler(shop.server, log))
	if err != nil {
		return err
	}
	defer h.close()
	_, _ = fmt.Fprintf(stderr, "Billing server on %s (Streamable HTTP); clients send Authorization: Bearer %s. Ctrl-C ends it.\n", h.url, demoToken)
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-h.ended:
		return errors.New("the HTTP server ended")
	}
}

// shop is the billing server, the workers behind its slow tool, and the relay of its messages.
type shop struct {
	server *mcp.Server
	stop   func(context.Context) error // hands jobs back that still run when the context ends
	jobs   place                       // its jobs, and by which column they have ended
	unsent string                      // the table of the messages that are still to be delivered, if there is one
}

// openShop makes the server, with or without protection, and starts to work its jobs, to deliver its messages and to remove records that have expired.
func openShop(ctx context.Context, o options, db *database, m *merchant, scope mcpidem.ScopeFunc, log *slog.Logger) (*shop, error) {
	if o.unprotected {
		return newUnprotectedShop(ctx, db, m, log)
	}
	store, err := db.store()
	if err != nil {
		return nil, err
	}
	slow, err := newStatements(db, log)
	if err != nil {
		return nil, err
	}
	box, err := newOutbox(db, m, log)
	if err != nil {
		return nil, err
	}
	server, err := newServer(store, slow, box, scope, log)
	if err != nil {
		return nil, err
	}
	sweeper, err := txidem.NewSweeper(store, time.Minute)
	if err != nil {
		return nil, err
	}
	if err := slow.runner.Start(ctx); err != nil {
		return nil, err
	}
	stopRelay, stopSweeps := keepRunning(ctx, box.Run), keepRunning(ctx, sweeper.Run)
	return &shop{
		server: server, jobs: place{db.schemas.txonce + ".job", "finished_at"}, unsent: db.schemas.txonce + ".message_pending",
		stop: func(ctx context.Context) error { return errors.Join(stopRelay(), stopSweeps(), slow.runner.Stop(ctx)) },
	}, nil
}

// close waits a little for the jobs that run. One that is handed back is worked when there is a worker again.
func (s *shop) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	if err := s.stop(ctx); ctx.Err() == nil {
		return err
	}
	return nil
}
