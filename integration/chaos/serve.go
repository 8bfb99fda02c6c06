package main

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/integration/internal/lives"
	"github.com/txonce/txonce/jobs"
	"github.com/txonce/txonce/outbox"
	"github.com/txonce/txonce/statustool"
	"github.com/txonce/txonce/txidem"
	"github.com/txonce/txonce/txidem/mcpidem"
)

// Times of the tools' policy. A server that is stopped keeps its claims for idleInTx, so it is short; no record is to expire
// before it was compared.
const (
	idleInTx = 2 * time.Second
	keep     = 30 * 24 * time.Hour
	wait     = 100 * time.Millisecond
)

// serving is a tool server.
type serving struct {
	*process
	store  *txidem.Store
	runner *jobs.Runner
	jobs   *jobs.Definition[order, receipt]
	box    *outbox.Outbox
	rules  *txidem.Rules
}

// serve answers agents until the process dies or is to leave.
func (p *process) serve(ctx context.Context) error {
	s, err := p.newServing()
	if err != nil {
		return err
	}
	sweeper, err := txidem.NewSweeper(s.store, time.Second)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { _ = sweeper.Run(ctx) }()
	tools, err := s.tools()
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	web := &http.Server{ReadHeaderTimeout: time.Minute, Handler: mcp.NewStreamableHTTPHandler(
		func(*http.Request) *mcp.Server { return tools },
		// Some servers answer with streams of events; some stop the handler when the agent hangs up.
		&mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: p.a.N == 0, PropagateRequestCancellation: p.a.Life%2 == 0},
	)}
	closed := make(chan error, 1)
	go func() {
		<-p.left
		patient, cancel := context.WithTimeout(context.WithoutCancel(ctx), longestLeave)
		defer cancel()
		closed <- web.Shutdown(patient) // which waits for the calls that run
	}()
	if err := json.NewEncoder(lives.Marks()).Encode(mark{URL: "http://" + listener.Addr().String()}); err != nil {
		return err
	}
	if err := web.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-closed
}

func (p *process) newServing() (s *serving, err error) {
	s = &serving{process: p, jobs: define(nil)}
	s.store, err = txidem.New(p.pool, &txidem.Config{Logger: logger(), Policy: &txidem.Policy{IdleInTx: idleInTx, Retention: keep, Wait: wait}})
	if err != nil {
		return nil, err
	}
	if s.rules, err = txidem.NewRules(orderRules()); err != nil {
		return nil, err
	}
	if s.runner, err = jobs.New(p.pool, runnerConfig(), s.jobs); err != nil {
		return nil, err
	}
	s.box, err = outbox.New(p.pool, nil, destination(nil))
	return s, err
}

// tools makes the server of the tools.
func (s *serving) tools() (*mcp.Server, error) {
	server := mcp.NewServer(&mcp.Implementation{Name: "chaos", Version: "1"}, nil)
	idem, err := mcpidem.New(server, s.store, &mcpidem.Config{Scope: mcpidem.ScopeIs(scope), Logger: logger()})
	if err != nil {
		return nil, err
	}
	var cfg *mcpidem.ToolConfig
	switch s.a.Plant {
	case unprotected:
		cfg = &mcpidem.ToolConfig{Policy: &txidem.Policy{Disabled: true}}
	case rewrites:
		server.AddReceivingMiddleware(rewrite)
	}
	mcpidem.AddToolWith(idem, &mcp.Tool{Name: string(write)}, cfg, s.write)
	mcpidem.AddTool(idem, &mcp.Tool{Name: string(report)}, s.report)
	mcpidem.AddTool(idem, &mcp.Tool{Name: string(notify)}, s.notify)
	server.AddTool(&mcp.Tool{Name: string(batch), InputSchema: json.RawMessage(`{"type":"object"}`)}, s.batch)
	return server, statustool.Add(idem, &statustool.Config{Outbox: s.box, Logger: logger()}, s.store, s.runner)
}
