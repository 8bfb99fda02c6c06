package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/internal/devpg"
	"github.com/txonce/txonce/txidem/mcpidem"
)

// serve runs the billing server for a client of the reader's own, on schemas that stay, until ctx ends or the client
// on stdio leaves. It writes to stderr only: on stdio, stdout is the protocol's.
func serve(ctx context.Context, o options, pg *devpg.Server, stderr io.Writer) error {
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
	server, err := billing(o, db, scope, log)
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(stderr, "PostgreSQL %s: %s.\n", pg.Version(), pg.Source())
	if o.serve == "stdio" {
		_, _ = fmt.Fprintln(stderr, "Billing server on stdio; it ends when the client closes stdin.")
		return server.Run(ctx, &mcp.StdioTransport{})
	}
	h, err := listen(ctx, o.address, newHandler(server, log))
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

// billing makes the server, with or without protection.
func billing(o options, db *database, scope mcpidem.ScopeFunc, log *slog.Logger) (*mcp.Server, error) {
	if o.unprotected {
		return newUnprotectedServer(db.Pool, log), nil
	}
	store, err := db.store()
	if err != nil {
		return nil, err
	}
	return newServer(store, scope, log)
}
