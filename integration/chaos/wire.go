package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/integration/internal/lives"
	"github.com/txonce/txonce/statustool"
	"github.com/txonce/txonce/toolcall"
	"github.com/txonce/txonce/txidem/mcpidem"
)

// phoneBook says where the servers listen. A new life has a new address.
type phoneBook struct {
	mu   sync.Mutex
	urls map[int]string
}

func (b *phoneBook) enter(server int, url string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.urls[server] = url
}

func (b *phoneBook) url(server int) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.urls[server]
}

// waitFor waits until all servers listen.
func (b *phoneBook) waitFor(ctx context.Context) error {
	for n := 0; n < roles()[server]; {
		if b.url(n) != "" {
			n++
		} else if err := lives.Pause(ctx, lives.LookAgain); err != nil {
			return err
		}
	}
	return nil
}

// client is an agent's way to the servers: a session to each, which is opened anew when it is lost.
type client struct {
	book     *phoneBook
	http     *http.Client
	sessions map[int]*session
}

type session struct {
	*mcp.ClientSession
	url string
}

func newClient(b *phoneBook) *client {
	return &client{book: b, http: &http.Client{Transport: &http.Transport{}}, sessions: make(map[int]*session)}
}

var errNobody = errors.New("the server is not there")

// to returns the session to a server.
func (c *client) to(ctx context.Context, server int) (*session, error) {
	url := c.book.url(server)
	s := c.sessions[server]
	switch {
	case url == "":
		return nil, errNobody
	case s != nil && s.url == url:
		return s, nil
	}
	c.drop(server)
	opened, err := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, nil).
		Connect(ctx, &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: c.http, MaxRetries: -1, DisableStandaloneSSE: true}, nil)
	if err != nil {
		return nil, err
	}
	c.sessions[server] = &session{opened, url}
	return c.sessions[server], nil
}

// drop gives a session up.
func (c *client) drop(server int) {
	if s := c.sessions[server]; s != nil {
		go func() { _ = s.Close() }() // a server that is stopped does not answer
		delete(c.sessions, server)
	}
}

func (c *client) close() {
	for server := range c.sessions {
		c.drop(server)
	}
	c.http.CloseIdleConnections()
}

// ask calls a tool, and reports whether the call left: one that did not has changed nothing.
func (c *client) ask(ctx context.Context, server int, p *mcp.CallToolParams) (result *mcp.CallToolResult, left bool, err error) {
	s, err := c.to(ctx, server)
	if err != nil {
		return nil, false, err
	}
	result, err = s.CallTool(ctx, p)
	if err != nil {
		c.drop(server)
	}
	return result, true, err
}

// call makes a call of an intent, and reports whether it left.
func (c *client) call(ctx context.Context, server int, i intent, a asked) (s said, left bool) {
	in := i.order
	in.Payload, in.Try, in.Breaks = a.Payload, a.Try, a.Breaks
	result, left, err := c.ask(ctx, server, &mcp.CallToolParams{
		Meta: mcp.Meta{mcpidem.MetaKey: i.key()}, Name: string(i.Tool), Arguments: in,
	})
	if err != nil {
		return said{Kind: unknown, Detail: err.Error()}, left
	}
	return saidBy(result), true
}

// saidBy reads the result of a call.
func saidBy(result *mcp.CallToolResult) said {
	text := ""
	if len(result.Content) > 0 {
		if t, ok := result.Content[0].(*mcp.TextContent); ok {
			text = t.Text
		}
	}
	s := said{Replayed: result.Meta[mcpidem.MetaReplayed] == true}
	if result.IsError {
		return s.refused(result.StructuredContent)
	}
	return s.done(text)
}

// done reads an answer.
func (s said) done(text string) said {
	var t ticket // other answers have no job
	if err := json.Unmarshal([]byte(text), &t); err != nil || t.Try == 0 {
		return said{Kind: strange, Detail: text}
	}
	s.Kind, s.Text, s.Try, s.Run, s.Job = succeeded, text, t.Try, t.Run, t.JobID
	return s
}

// refused reads a refusal.
func (s said) refused(structured any) said {
	var r refusal
	raw, err := json.Marshal(structured)
	if err == nil {
		err = json.Unmarshal(raw, &r)
	}
	s.Detail = r.Status + ": " + r.Message
	switch {
	case err != nil:
		s.Kind, s.Detail = strange, err.Error()
	case r.Status == statusFailed:
		s.Kind, s.Text = failed, failureText(r.Code, r.Message)
		s.Try = tryIn(s.Text)
	case r.Status == statusInProgress:
		s.Kind = inProgress
	case r.Status == statusKeyReused:
		s.Kind = mismatch
	case r.Status == statusUnknown:
		s.Kind = unknown
	case r.Status == statusNotDone && strings.HasPrefix(r.Message, errBroken.Error()):
		s.Kind = broke
	case r.Status == statusNotDone, r.Status == statusDown:
		s.Kind = nothing
	case r.Status == statusFault && strings.Contains(r.Message, "Nothing was changed by this call."):
		s.Kind = fault
	default:
		s.Kind = strange
	}
	return s
}

// question asks for the status of a call or a job by its id.
func (c *client) question(ctx context.Context, server int, id string, wait time.Duration) (r statustool.Report, err error) {
	result, _, err := c.ask(ctx, server, &mcp.CallToolParams{
		Name: "get_status", Arguments: map[string]any{"id": id, "wait_seconds": wait.Seconds()},
	})
	if err != nil {
		return r, err
	}
	if len(result.Content) == 0 {
		return r, errors.New("an empty status")
	}
	text, ok := result.Content[0].(*mcp.TextContent)
	if !ok {
		return r, errors.New("a status without text")
	}
	return r, json.Unmarshal([]byte(text.Text), &r)
}

// statusOf reads the status of a call.
func statusOf(r statustool.Report, err error) said {
	switch {
	case err != nil:
		return said{Kind: nothing, Detail: err.Error()}
	case r.State == toolcall.StateNone, r.State == toolcall.StateRunning:
		return said{Kind: notEnded, Detail: string(r.State)}
	case r.State == toolcall.StateSucceeded:
		return said{}.done(string(r.Result))
	case r.State == toolcall.StateFailed && r.Failure != nil:
		text := failureText(r.Failure.Code, r.Failure.Message)
		return said{Kind: failed, Text: text, Try: tryIn(text)}
	case r.State == statustool.StateUnavailable:
		return said{Kind: nothing, Detail: r.Next}
	}
	return said{Kind: strange, Detail: string(r.State) + ": " + r.Next}
}

// failureText is what stays the same of a failure's message, however it is told.
func failureText(code, message string) string {
	text, _, _ := strings.Cut(strings.TrimPrefix(message, code+": "), " (")
	return code + ": " + text
}

// tryIn reads from a failure whose it is. No try has the number 0.
func tryIn(failure string) (try int) {
	_, _ = fmt.Sscanf(failure, "refused: by try %d", &try)
	return try
}
