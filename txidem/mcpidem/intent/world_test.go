package intent_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/internal/dbtest"
	"github.com/txonce/txonce/toolcall"
	"github.com/txonce/txonce/txidem"
	"github.com/txonce/txonce/txidem/mcpidem"
	"github.com/txonce/txonce/txidem/mcpidem/intent"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

type refund struct {
	Order string `json:"order"`
	Cents int64  `json:"cents"`
}

type receipt struct {
	Refund int64 `json:"refund"`
	Cents  int64 `json:"cents"`
}

// world is a server with a protected tool and a status tool, and a wire to it that fails as it is told.
type world struct {
	server *mcp.Server
	wire   *wire

	mu       sync.Mutex
	effects  int64
	stranger error                                      // why the server does not know who is calling
	handle   func(ctx context.Context, in refund) error // in front of the effect
	states   []any                                      // what get_status answers, in turn: an error or its structured content
}

// effect is a handler's write on a store in memory.
func (w *world) effect(ctx context.Context, _ pgx.Tx, in refund) (receipt, error) {
	w.mu.Lock()
	handle := w.handle
	w.mu.Unlock()
	if handle != nil {
		if err := handle(ctx, in); err != nil {
			return receipt{}, ofThisCall(ctx, err)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.effects++
	return receipt{Refund: w.effects, Cents: in.Cents}, nil
}

func (w *world) count() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.effects
}

func inMemory(t testing.TB) *world {
	t.Helper()
	store, err := txidem.NewMemory(&txidem.Config{Policy: &txidem.Policy{Wait: txidem.NoWait}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{}
	w.serve(t, store, w.effect)
	return w
}

func (w *world) serve(t testing.TB, store *txidem.Store, h func(context.Context, pgx.Tx, refund) (receipt, error)) {
	t.Helper()
	w.server = mcp.NewServer(&mcp.Implementation{Name: "billing", Version: "1"}, nil)
	idem, err := mcpidem.New(w.server, store, &mcpidem.Config{Scope: func(context.Context, *mcp.CallToolRequest) (string, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		return "agent", w.stranger
	}})
	if err != nil {
		t.Fatal(err)
	}
	mcpidem.AddTool(idem, &mcp.Tool{Name: "issue_refund"}, h)
	mcp.AddTool(w.server, &mcp.Tool{Name: "get_status"}, w.status)
	w.wire = &wire{}
	t.Cleanup(w.end)
}

// end closes what clients left open.
func (w *world) end() {
	for session := range w.server.Sessions() {
		_ = session.Close()
	}
}

type question struct {
	Tool string `json:"tool"`
	Key  string `json:"idempotency_key"`
}

func (w *world) status(_ context.Context, req *mcp.CallToolRequest, in question) (*mcp.CallToolResult, any, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if req.Params.Meta[mcpidem.MetaKey] != nil || in.Tool != "issue_refund" || in.Key == "" {
		return nil, nil, fmt.Errorf("asked with %+v and %v in _meta", in, req.Params.Meta)
	}
	if len(w.states) == 0 {
		return nil, nil, errors.New("asked too often")
	}
	said := w.states[0]
	w.states = w.states[1:]
	if err, ok := said.(error); ok {
		return nil, nil, err
	}
	return nil, said, nil
}

// open connects a client that has the middleware to the server at url, by way of next.
func (w *world) open(t testing.TB, url string, next http.RoundTripper, cfg *intent.Config) *mcp.ClientSession {
	t.Helper()
	return w.openAs(t, &mcp.StreamableClientTransport{
		Endpoint: url, HTTPClient: &http.Client{Transport: w.wire.over(next)}, MaxRetries: -1, DisableStandaloneSSE: true,
	}, cfg)
}

func (w *world) openAs(t testing.TB, transport mcp.Transport, cfg *intent.Config) *mcp.ClientSession {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, nil)
	client.AddSendingMiddleware(intent.Middleware(allTools(cfg)))
	session, err := client.Connect(t.Context(), transport, nil)
	if err != nil {
		t.Fatal(err)
	}
	return session
}

// direct serves requests in this process: time in it can be the test's own.
func (w *world) direct(options *mcp.StreamableHTTPOptions) http.RoundTripper {
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return w.server }, options)
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		done := make(chan *http.Response, 1)
		go func() {
			recorder := httptest.NewRecorder()
			handler.ServeHTTP(recorder, r.Clone(context.WithoutCancel(r.Context())))
			done <- recorder.Result()
		}()
		select {
		case response := <-done:
			response.Request = r
			return response, nil
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// fault is what the wire does to one call.
type fault string

const (
	fine         fault = "fine"
	noServer     fault = "no server"            // no connection comes about
	resetBefore  fault = "reset before"         // the request does not arrive
	lostAfter    fault = "lost after"           // the call is done, the connection ends in front of the answer
	cutAfter     fault = "cut after"            // in the middle of it
	silentAfter  fault = "silent after"         // the call is done, and no answer comes
	silentBefore fault = "silent before"        // the request goes nowhere
	gateway      fault = "502"                  // the request does not arrive
	busyAfter    fault = "503 after"            // the call is done
	throttled    fault = "429"                  // the request does not arrive
	internal     fault = "internal error"       // -32603 in place of the answer
	uncoded      fault = "error without a code" // as of a server's context that ended
	unauthorized fault = "401"                  // the request does not arrive: not among those that are repeated
	invalid      fault = "invalid params"       // -32602, and the call is not done: not among those that are repeated
)

var faults = []fault{noServer, resetBefore, lostAfter, cutAfter, silentAfter, silentBefore, gateway, busyAfter, throttled, internal, uncoded}

// wire fails calls of issue_refund as planned and remembers them.
type wire struct {
	mu    sync.Mutex
	plan  []fault // for the next calls; fine when it is over
	asked []fault // for the next calls of get_status
	keys  []any   // in _meta of each call
	times []time.Time
	args  []string
	polls int // of get_status
}

func (w *wire) next(body []byte) fault {
	var m struct {
		Method string
		Params struct {
			Name      string
			Arguments json.RawMessage
			Meta      map[string]any `json:"_meta"`
		}
	}
	if json.Unmarshal(body, &m) != nil || m.Method != "tools/call" {
		return fine
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	plan := &w.plan
	if m.Params.Name == "get_status" {
		w.polls++
		plan = &w.asked
	} else {
		w.keys = append(w.keys, m.Params.Meta[mcpidem.MetaKey])
		w.times = append(w.times, time.Now())
		w.args = append(w.args, string(m.Params.Arguments))
	}
	if len(*plan) == 0 {
		return fine
	}
	f := (*plan)[0]
	*plan = (*plan)[1:]
	return f
}

func (w *wire) attempts() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.keys)
}

func (w *wire) over(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodDelete { // the SDK sends it under a lock, which stops the clock of synctest; world.end closes the sessions
			return answer(r, http.StatusNoContent, "text/plain", ""), nil
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		r = r.Clone(r.Context())
		r.Body = io.NopCloser(bytes.NewReader(body))
		return inflict(w.next(body), next, r, body)
	})
}

func inflict(f fault, next http.RoundTripper, r *http.Request, body []byte) (*http.Response, error) {
	reset := &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
	switch f { // what does not arrive
	case noServer:
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	case resetBefore:
		return nil, reset
	case silentBefore:
		<-r.Context().Done()
		return nil, r.Context().Err()
	case gateway:
		return answer(r, http.StatusBadGateway, "text/plain", "bad gateway"), nil
	case invalid:
		return answer(r, http.StatusOK, "application/json", errorFor(body, -32602)), nil
	case unauthorized:
		return answer(r, http.StatusUnauthorized, "text/plain", "who are you?"), nil
	case throttled:
		return answer(r, http.StatusTooManyRequests, "text/plain", "slow down"), nil
	}
	response, err := next.RoundTrip(r)
	if err != nil || f == fine {
		return response, err
	}
	whole, err := io.ReadAll(response.Body) // the call is done
	response.Body.Close()
	if err != nil {
		return nil, err
	}
	switch f {
	case silentAfter:
		<-r.Context().Done()
		return nil, r.Context().Err()
	case cutAfter:
		response.Body = io.NopCloser(io.MultiReader(bytes.NewReader(whole[:len(whole)/2]), failing{reset}))
		return response, nil
	case busyAfter:
		return answer(r, http.StatusServiceUnavailable, "text/plain", "busy"), nil
	case internal:
		return answer(r, http.StatusOK, "application/json", errorFor(body, -32603)), nil
	case uncoded:
		return answer(r, http.StatusOK, "application/json", errorFor(body, 0)), nil
	}
	return nil, reset
}

func errorFor(body []byte, code int) string {
	var m struct{ ID json.RawMessage }
	_ = json.Unmarshal(body, &m)
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":"context canceled"}}`, m.ID, code)
}

func answer(r *http.Request, status int, kind, body string) *http.Response {
	recorder := httptest.NewRecorder()
	recorder.Header().Set("Content-Type", kind)
	recorder.WriteHeader(status)
	_, _ = recorder.WriteString(body)
	response := recorder.Result()
	response.Request = r
	return response
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func call(ctx context.Context, s *mcp.ClientSession, cents int64) (*mcp.CallToolResult, error) {
	return s.CallTool(ctx, &mcp.CallToolParams{Name: "issue_refund", Arguments: map[string]any{"order": "A-1", "cents": cents}})
}

// lab runs a test on fake time, with a server in memory and a session over HTTP without a network.
func lab(t *testing.T, cfg *intent.Config, test func(t *testing.T, w *world, s *mcp.ClientSession)) {
	t.Helper()
	t.Parallel()
	labNow(t, cfg, test)
}

// labNow is lab for a test that is not parallel.
func labNow(t *testing.T, cfg *intent.Config, test func(t *testing.T, w *world, s *mcp.ClientSession)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := inMemory(t)
		s := w.open(t, "http://mcp.test", w.direct(&mcp.StreamableHTTPOptions{Stateless: true}), cfg)
		defer s.Close()
		test(t, w, s)
	})
}

func inStep(t testing.TB) context.Context { return intent.WithStep(t.Context(), "run-7", "step-1") }

// wantUnknown is what a caller must hear of a call that may have been done.
func wantUnknown(t testing.TB, err error) *intent.OutcomeUnknownError {
	t.Helper()
	var unknown *intent.OutcomeUnknownError
	if !errors.As(err, &unknown) || !errors.Is(err, intent.ErrOutcomeUnknown) || !strings.Contains(err.Error(), "a question, not a failure") {
		t.Fatalf("got %v, want an OutcomeUnknownError", err)
	}
	return unknown
}

func said(r *mcp.CallToolResult) map[string]any {
	content, _ := r.StructuredContent.(map[string]any)
	return content
}

// ofThisCall is err as the store says it of the call in ctx.
func ofThisCall(ctx context.Context, err error) error {
	this, ok := toolcall.FromContext(ctx)
	var running *txidem.InProgressError
	var expired *txidem.ExpiredError
	switch {
	case !ok:
	case errors.As(err, &running):
		return &txidem.InProgressError{ID: this.ID, Tool: this.Tool, RetryAfter: running.RetryAfter}
	case errors.As(err, &expired):
		return &txidem.ExpiredError{ID: this.ID, Tool: this.Tool}
	}
	return err
}

// allTools is cfg for servers all of whose tools are protected, where it does not say which are.
func allTools(cfg *intent.Config) *intent.Config {
	c := intent.Config{}
	if cfg != nil {
		c = *cfg
	}
	if c.Tools == nil {
		c.Tools = func(string) bool { return true }
	}
	return &c
}
