package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/jobs"
	"github.com/txonce/txonce/statustool"
	"github.com/txonce/txonce/toolcall"
	"github.com/txonce/txonce/txidem/mcpidem"
)

// agent orders reports over a network that loses answers, from a server that may die, and asks for them until they are there.
type agent struct {
	endpoint func() string
	client   *mcp.Client
	http     *http.Client
	board    *board

	calls atomic.Int64 // of build_report
}

// errand is one order, and what the agent was told.
type errand struct {
	order Order
	job   string
	told  statustool.Report
	err   error // it gave up
}

const (
	callTimeout = 15 * time.Second       // a call that is not answered by then is repeated
	breath      = 300 * time.Millisecond // before it is
	askEvery    = 500 * time.Millisecond // how often the agent asks for each report
)

func newAgent(endpoint func() string, token string, b *board) *agent {
	return &agent{
		endpoint: endpoint,
		client:   mcp.NewClient(&mcp.Implementation{Name: "reports-agent", Version: "1.0.0"}, nil),
		http:     &http.Client{Transport: lossy{&http.Transport{MaxIdleConnsPerHost: 64}, token}},
		board:    b,
	}
}

// work makes n orders, or goes on until ctx ends where n is 0, and returns when all reports are there or were given up.
func (a *agent) work(ctx context.Context, n int, every, patience time.Duration) []*errand {
	defer a.http.CloseIdleConnections()
	var errands []*errand
	var group sync.WaitGroup
	for i := 1; (n == 0 || i <= n) && ctx.Err() == nil; i++ {
		e := &errand{order: orderNumber(i)}
		errands = append(errands, e)
		group.Go(func() {
			ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("it was not there after %v", patience))
			defer cancel()
			e.err = a.carryOut(ctx, e, lostAnswers(i))
		})
		if i != n {
			sleep(ctx, every)
		}
	}
	group.Wait()
	return errands
}

func orderNumber(i int) Order {
	all := regions()
	return Order{Order: fmt.Sprintf("R-%03d", i), Region: all[i%len(all)], Year: firstYear + i%(lastYear-firstYear+1)}
}

// lostAnswers is how many answers the network loses of the call that makes the i-th order: every other one has a bad day.
func lostAnswers(i int) int { return (i + 1) % 2 }

// carryOut orders one report and follows it.
func (a *agent) carryOut(ctx context.Context, e *errand, lose int) error {
	r := a.board.add(e.order)
	line := &line{agent: a}
	defer line.hangUp()
	if err := a.request(ctx, line, e, lose); err != nil {
		return err
	}
	for {
		var s statustool.Report
		if _, err := line.call(ctx, ask(e.job), &s); err == nil { // else the server is gone for a moment
			e.told = s
			a.board.show(r, e.job, s)
			if s.State == toolcall.StateSucceeded || s.State == toolcall.StateFailed || s.State == toolcall.StateCancelled {
				return nil
			}
		}
		if !sleep(ctx, askEvery) {
			return context.Cause(ctx)
		}
	}
}

// request calls build_report until it is answered, each time with the same key: the number of the order. A key is good for one
// intent, however often it is sent.
func (a *agent) request(ctx context.Context, line *line, e *errand, lose int) error {
	for attempt, lost := 1, 0; ; attempt++ {
		var h jobs.Handle
		began := time.Now()
		result, err := line.call(ctx, build(e.order, lost < lose), &h)
		if errors.Is(err, errLost) {
			lost++
		}
		switch {
		case err == nil && result.Meta[mcpidem.MetaReplayed] == true:
			a.board.say("%s: call %d gets the answer of an earlier one: job %s", e.order.Order, attempt, h.JobID)
		case err == nil:
			a.board.say("%s: answered in %d ms: job %s", e.order.Order, time.Since(began).Milliseconds(), h.JobID)
		case errors.Is(err, errRefused):
			return err
		default:
			a.board.say("%s: call %d has no answer (%s), so it is made again with the same key", e.order.Order, attempt, brief(err))
			if !sleep(ctx, breath) {
				return context.Cause(ctx)
			}
			continue
		}
		e.job = h.JobID
		return nil
	}
}

// brief is an error in half a line.
func brief(err error) string {
	switch {
	case errors.Is(err, errLost):
		return "the network lost it"
	case errors.Is(err, context.DeadlineExceeded):
		return "time is up"
	}
	return "the server is gone"
}

// errRefused says that repeating the call would not help.
var errRefused = errors.New("the call was refused")

// line is a session with the server, made anew behind each call that failed.
type line struct {
	agent   *agent
	session *mcp.ClientSession
}

// call is what the agent sends. lose is for the network.
type call struct {
	mcp.CallToolParams
	lose bool
}

func build(order Order, lose bool) call {
	return call{mcp.CallToolParams{Name: toolBuild, Arguments: order, Meta: mcp.Meta{mcpidem.MetaKey: order.Order}}, lose}
}

func ask(job string) call {
	return call{mcp.CallToolParams{Name: toolStatus, Arguments: map[string]any{"id": job}}, false}
}

// call calls a tool and decodes its answer. An error means that there was none that is final, but for errRefused.
func (l *line) call(ctx context.Context, c call, out any) (*mcp.CallToolResult, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if l.session == nil {
		session, err := l.agent.client.Connect(ctx, &mcp.StreamableClientTransport{
			Endpoint: l.agent.endpoint(), HTTPClient: l.agent.http, MaxRetries: -1, DisableStandaloneSSE: true,
		}, nil)
		if err != nil {
			return nil, err
		}
		l.session = session
	}
	if c.Name == toolBuild {
		l.agent.calls.Add(1)
	}
	result, err := l.session.CallTool(losing(ctx, c.lose), &c.CallToolParams)
	if err != nil {
		l.hangUp()
		return nil, err
	}
	return result, read(result, out)
}

// read takes the answer out of a result, or the reason why there is none.
func read(result *mcp.CallToolResult, out any) error {
	said, err := json.Marshal(result.StructuredContent)
	if err != nil {
		return err
	}
	if !result.IsError {
		return json.Unmarshal(said, out)
	}
	var why struct {
		Status string `json:"status"`
		Repeat bool   `json:"repeat_same_call"`
	}
	if err := json.Unmarshal(said, &why); err == nil && why.Status != "" && !why.Repeat {
		return fmt.Errorf("%w: %s", errRefused, said)
	}
	return fmt.Errorf("no final answer: %s", said)
}

func (l *line) hangUp() {
	if l.session != nil {
		_ = l.session.Close()
		l.session = nil
	}
}
