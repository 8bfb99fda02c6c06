package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/txidem/mcpidem"
)

// What the agent is like.
const (
	patience       = 400 * time.Millisecond // the client's time-out for a call
	tries          = 4                      // calls per round
	asks           = 12                     // questions per round before it moves on and leaves the outcome unknown
	settlePatience = 4 * patience           // the same, when at the end it wants to know
	settleTries    = 20
	settleAsks     = 60
	breath         = 40 * time.Millisecond // before it repeats a call that was not answered
	atOnce         = 12                    // intents it works on at the same time
)

// agent calls tools over a bad network, as harnesses and models do: it repeats what was not answered.
type agent struct {
	endpoint string
	run      string // names the run in its keys
	client   *mcp.Client
	http     *http.Client
	journal  *journal
	rows     func(ctx context.Context, in *intent) (int, error) // counts the effects of an intent

	keyed map[string]bool // the tools that there are, and whether they offer the argument idempotency_key
}

func newAgent(endpoint, run string, j *journal, rows func(context.Context, *intent) (int, error)) *agent {
	return &agent{
		endpoint: endpoint,
		run:      run,
		client:   mcp.NewClient(&mcp.Implementation{Name: "quickstart-agent", Version: "1.0.0"}, nil),
		http:     &http.Client{Transport: wire{base: newTransport()}},
		journal:  j,
		rows:     rows,
		keyed:    make(map[string]bool),
	}
}

// look lists the tools: a model gives idempotency_key where a tool offers it, and nowhere else.
func (a *agent) look(ctx context.Context) error {
	session, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = session.Close() }()
	for tool, err := range session.Tools(ctx, nil) {
		if err != nil {
			return fmt.Errorf("list the tools: %w", err)
		}
		schema, _ := tool.InputSchema.(map[string]any)
		properties, _ := schema["properties"].(map[string]any)
		_, a.keyed[tool.Name] = properties["idempotency_key"]
	}
	return nil
}

func (a *agent) connect(ctx context.Context) (*mcp.ClientSession, error) {
	session, err := a.client.Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: a.endpoint, HTTPClient: a.http, MaxRetries: -1, DisableStandaloneSSE: true,
	}, nil)
	if err != nil {
		return nil, fmt.Errorf("connect to the server: %w", err)
	}
	return session, nil
}

// each works on all errands, some at a time, and calls progress after each.
func (a *agent) each(ctx context.Context, errands []*errand, work func(context.Context, *errand), progress func()) {
	queue := make(chan *errand)
	var group sync.WaitGroup
	for range atOnce {
		group.Go(func() {
			for e := range queue {
				work(ctx, e)
				progress()
			}
		})
	}
	for _, e := range errands {
		if ctx.Err() != nil {
			break
		}
		queue <- e
	}
	close(queue)
	group.Wait()
}

// close ends what the agent has open.
func (a *agent) close() { a.http.CloseIdleConnections() }

// send makes one call and tells the journal what came of it. It waits for limit at most. The error is the demo's own;
// what the network did is in broken: the session is of no use any more.
func (a *agent) send(ctx context.Context, session *mcp.ClientSession, in *intent, name callName, limit time.Duration) (got answer, broken bool, err error) {
	callCtx, cancel := context.WithTimeout(withName(ctx, name), limit)
	defer cancel()
	result, callErr := session.CallTool(callCtx, a.phrase(in, name.attempt))
	if ctx.Err() != nil {
		return got, false, ctx.Err()
	}
	heard := "connection cut"
	switch {
	case callErr == nil:
		got = readAnswer(in.tool, result)
		heard = got.brief()
	case errors.Is(callErr, context.DeadlineExceeded):
		heard = fmt.Sprintf("nothing for %v, gave up", limit)
	}
	rows, err := a.rows(ctx, in)
	if err != nil {
		return got, false, err
	}
	a.journal.change(name, func(e *entry) { e.tool, e.heard, e.got, e.rows = in.tool, heard, got, rows })
	return got, errors.Is(callErr, mcp.ErrConnectionClosed), nil
}

// phrase writes the call: where the key stands and how the arguments are spelled depends on who repeats. A harness puts
// the key into _meta. It could use the header Idempotency-Key, but Go's HTTP client takes that for leave to send a
// request again by itself.
func (a *agent) phrase(in *intent, attempt int) *mcp.CallToolParams {
	params := &mcp.CallToolParams{Name: in.tool}
	fields, variant := in.fields, 0
	switch in.way {
	case sameKey, newSession:
		params.Meta = mcp.Meta{mcpidem.MetaKey: in.key(a.run)}
	case noKey:
		variant = attempt - 1
	case keyArgument, asking:
		if a.keyed[in.tool] {
			fields = append(fields[:len(fields):len(fields)], text("idempotency_key", in.key(a.run)))
		}
	}
	params.Arguments = worded(fields, variant)
	return params
}

// wire puts on each request who is calling, and for the demo's network which call it is.
type wire struct{ base *http.Transport }

func (w wire) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+demoToken)
	if name, ok := r.Context().Value(nameKey{}).(callName); ok {
		r.Header.Set(nameHeader, name.String())
	}
	return w.base.RoundTrip(r)
}

func (w wire) CloseIdleConnections() { w.base.CloseIdleConnections() }

type nameKey struct{}

func withName(ctx context.Context, name callName) context.Context {
	return context.WithValue(ctx, nameKey{}, name)
}
