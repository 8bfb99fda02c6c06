package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/jobs"
	"github.com/txonce/txonce/txidem"
	"github.com/txonce/txonce/txidem/mcpidem"
)

// serveTools is the server. It submits jobs and asks for them; it works none, so it does not start its runner. Any number of
// these may stand side by side.
func serveTools(ctx context.Context, o options, db *database, log *slog.Logger, ready func(string)) error {
	store, err := txidem.New(db.Pool, &txidem.Config{Schema: db.names.records})
	if err != nil {
		return err
	}
	sweeper, err := txidem.NewSweeper(store, time.Minute)
	if err != nil {
		return err
	}
	report := defineReport(&clerk{pool: db.Pool})
	runner, err := jobs.New(db.Pool, &jobs.Config{Schema: db.names.records, Logger: log}, report)
	if err != nil {
		return err
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "reports", Title: "Reports (txonce example)", Version: "1.0.0"}, &mcp.ServerOptions{Logger: log})
	idem, err := mcpidem.New(server, store, &mcpidem.Config{Scope: mcpidem.ScopeFromToken, Logger: log})
	if err != nil {
		return err
	}
	if err := addTools(idem, store, runner, report, log); err != nil {
		return err
	}

	ctx, stop := context.WithCancel(ctx)
	var sweeping sync.WaitGroup
	sweeping.Go(func() { _ = sweeper.Run(ctx) }) // it returns why ctx ended
	defer sweeping.Wait()
	defer stop()
	return listen(ctx, o.port, newHandler(server, log), func(address string) { ready("http://" + address + "/mcp") })
}

// newHandler serves the tools at /mcp over Streamable HTTP, to callers with a token. Stateless is what lets a server die and
// another one answer the rest.
func newHandler(server *mcp.Server, log *slog.Logger) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/mcp", auth.RequireBearerToken(verify, nil)(mcp.NewStreamableHTTPHandler(
		func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true, Logger: log})))
	return mux
}

// The tokens that there are, and whose they are. A real server checks a signature instead.
const (
	demoToken  = "demo-token"
	otherToken = "other-token"
)

// verify says whose token it is: the user id is the scope of keys and jobs, so that nobody gets another's answer or report.
func verify(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
	user := map[string]string{demoToken: "agent-1", otherToken: "agent-2"}[token]
	if user == "" {
		return nil, fmt.Errorf("%w: the example knows two only, %q and %q", auth.ErrInvalidToken, demoToken, otherToken)
	}
	return &auth.TokenInfo{UserID: user, Expiration: time.Now().Add(time.Hour)}, nil
}

// closeTimeout bounds the wait for requests that run.
const closeTimeout = 5 * time.Second

// listen serves on a port of this machine, which nobody else can reach, until ctx ends.
func listen(ctx context.Context, port int, handler http.Handler, ready func(address string)) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0)}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	ready(listener.Addr().String())
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	if server.Shutdown(ctx) != nil {
		_ = server.Close()
	}
	<-ended
	return nil
}
