package mcpidem_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/internal/dbtest"
	"github.com/txonce/txonce/txidem"
	"github.com/txonce/txonce/txidem/mcpidem"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

type refund struct {
	Order string `json:"order"`
	Cents int64  `json:"cents"`
	Memo  string `json:"memo,omitempty" idem:"-"`
}

type receipt struct {
	Refund string `json:"refund"`
	Cents  int64  `json:"cents"`
}

// bench is a server with one protected tool, and what tests look at.
type bench struct {
	t      *testing.T
	pool   *pgxpool.Pool
	server *mcp.Server
	idem   *mcpidem.Adapter
	log    *bytes.Buffer
	// handle is what the tool issue_refund does behind its effect; nil answers with a receipt.
	handle func(ctx context.Context, tx pgx.Tx, in refund) (receipt, error)
}

func setup(t *testing.T, scope mcpidem.ScopeFunc, cfg *mcpidem.ToolConfig) *bench {
	t.Helper()
	b := &bench{t: t, pool: dbtest.Pool(t, nil), log: &bytes.Buffer{}}
	if _, err := b.pool.Exec(t.Context(), `create table refund (id bigserial primary key, order_id text, cents bigint)`); err != nil {
		t.Fatal(err)
	}
	store, err := txidem.New(b.pool, &txidem.Config{Policy: &txidem.Policy{Wait: txidem.NoWait}})
	if err != nil {
		t.Fatal(err)
	}
	b.server = mcp.NewServer(&mcp.Implementation{Name: "billing", Version: "1"}, nil)
	b.idem, err = mcpidem.New(b.server, store, &mcpidem.Config{Scope: scope, Logger: slog.New(slog.NewTextHandler(b.log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	mcpidem.AddToolWith(b.idem, &mcp.Tool{Name: "issue_refund", Description: "Refund an order."}, cfg, b.refund)
	return b
}

func (b *bench) refund(ctx context.Context, tx pgx.Tx, in refund) (receipt, error) {
	if _, err := tx.Exec(ctx, `insert into refund (order_id, cents) values ($1, $2)`, in.Order, in.Cents); err != nil {
		return receipt{}, err
	}
	if b.handle != nil {
		return b.handle(ctx, tx, in)
	}
	return receipt{Refund: "R-" + in.Order, Cents: in.Cents}, nil
}

func (b *bench) effects() (n int) {
	b.t.Helper()
	if err := b.pool.QueryRow(b.t.Context(), `select count(*) from refund`).Scan(&n); err != nil {
		b.t.Fatal(err)
	}
	return n
}

// connect opens a session in memory.
func (b *bench) connect() *mcp.ClientSession {
	b.t.Helper()
	serverSide, clientSide := mcp.NewInMemoryTransports()
	served, err := b.server.Connect(b.t.Context(), serverSide, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, nil).Connect(b.t.Context(), clientSide, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { session.Close(); served.Wait() })
	return session
}

// call calls issue_refund with raw arguments.
func (b *bench) call(session *mcp.ClientSession, args, metaKey string) *mcp.CallToolResult {
	b.t.Helper()
	return b.callTool(session, "issue_refund", args, metaKey)
}

func (b *bench) callTool(session *mcp.ClientSession, tool, args, metaKey string) *mcp.CallToolResult {
	b.t.Helper()
	params := &mcp.CallToolParams{Name: tool, Arguments: json.RawMessage(args)}
	if metaKey != "" {
		params.Meta = mcp.Meta{mcpidem.MetaKey: metaKey}
	}
	result, err := session.CallTool(b.t.Context(), params)
	if err != nil {
		b.t.Fatal(err)
	}
	return result
}

func replayed(r *mcp.CallToolResult) bool { return r.Meta[mcpidem.MetaReplayed] == true }

func text(r *mcp.CallToolResult) string {
	var all []string
	for _, c := range r.Content {
		if t, ok := c.(*mcp.TextContent); ok {
			all = append(all, t.Text)
		}
	}
	return strings.Join(all, "\n")
}

func status(r *mcp.CallToolResult) any {
	content, _ := r.StructuredContent.(map[string]any)
	return content["status"]
}

func TestAddTool_M01_RetryGetsTheFirstAnswer(t *testing.T) {
	t.Parallel()
	b := setup(t, mcpidem.ScopeIs("agent"), nil)
	first := b.call(b.connect(), `{"order":"A-1","cents":1050}`, "k")
	again := b.call(b.connect(), `{"cents":1.05e3,"order":"A-1"}`, "k") // a new session, other spelling
	if first.IsError || replayed(first) || !replayed(again) {
		t.Fatalf("first %+v, again %+v", first, again)
	}
	if diff := cmp.Diff(first.StructuredContent, again.StructuredContent); diff != "" {
		t.Errorf("the replay is another answer:\n%s", diff)
	}
	if f, a := text(first), text(again); !strings.HasPrefix(a, f+"\n(Recorded answer:") {
		t.Errorf("texts: first %q, again %q", f, a)
	}
	if first.Meta[mcpidem.MetaCallID] != again.Meta[mcpidem.MetaCallID] || first.Meta[mcpidem.MetaFinishedAt] != again.Meta[mcpidem.MetaFinishedAt] {
		t.Errorf("meta: first %v, again %v", first.Meta, again.Meta)
	}
	if n := b.effects(); n != 1 {
		t.Errorf("%d effects", n)
	}
}

func TestAddTool_K05_K08_TagsOfTheInputSayWhatCounts(t *testing.T) {
	t.Parallel()
	b := setup(t, mcpidem.ScopeIs("agent"), &mcpidem.ToolConfig{Rules: txidem.RuleSpec{RoundNumber: map[string]string{"/cents": "10"}}})
	s := b.connect()
	b.call(s, `{"order":"A","cents":11,"memo":"wrong size"}`, "k")
	if r := b.call(s, `{"order":"A","cents":12,"memo":"it does not fit"}`, "k"); !replayed(r) {
		t.Errorf("a reworded retry: %s", text(r))
	}
	r := b.call(s, `{"order":"B","cents":21,"memo":"wrong size"}`, "k")
	content, _ := r.StructuredContent.(map[string]any)
	if diff := cmp.Diff([]any{"/cents", "/order"}, content["differing_arguments"]); diff != "" || !strings.Contains(text(r), "for other arguments: /cents, /order differ.") {
		t.Errorf("K07: %s\n%s", text(r), diff)
	}
}

func TestCall_M05_ExpiredAndNotAllowedAreTold(t *testing.T) {
	t.Parallel()
	b := setup(t, mcpidem.ScopeIs("agent"), nil)
	allowed := true
	store, err := txidem.New(b.pool, &txidem.Config{
		Policy: &txidem.Policy{OnExpired: txidem.Refuse},
		Authorize: func(context.Context, txidem.Recorded) error {
			if !allowed {
				return errors.New("revoked")
			}
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	b.server = mcp.NewServer(&mcp.Implementation{Name: "billing", Version: "1"}, nil)
	if b.idem, err = mcpidem.New(b.server, store, &mcpidem.Config{Scope: mcpidem.ScopeIs("agent")}); err != nil {
		t.Fatal(err)
	}
	mcpidem.AddTool(b.idem, &mcp.Tool{Name: "issue_refund"}, b.refund)
	s := b.connect()
	b.call(s, `{"order":"A","cents":1}`, "k")
	allowed = false
	if r := b.call(s, `{"order":"A","cents":1}`, "k"); status(r) != "not_allowed" || strings.Contains(text(r), "revoked") {
		t.Errorf("R16: %v %s", status(r), text(r))
	}
	allowed = true
	if _, err := b.pool.Exec(t.Context(), `update txonce.call set expires_at = now()`); err != nil {
		t.Fatal(err)
	}
	if r := b.call(s, `{"order":"A","cents":1}`, "k"); status(r) != "expired" || !strings.Contains(text(r), "Do not repeat it; look up what it did") {
		t.Errorf("R13: %v %s", status(r), text(r))
	}
	if n := b.effects(); n != 1 {
		t.Errorf("%d effects", n)
	}
}

func TestAddTool_K02_WhereTheKeyStands(t *testing.T) {
	t.Parallel()
	b := setup(t, mcpidem.ScopeIs("agent"), nil)
	s := b.connect()
	const args = `{"order":"A-1","cents":1}`
	id := func(r *mcp.CallToolResult) any { return r.Meta[mcpidem.MetaCallID] }
	meta := id(b.call(s, args, "k"))
	argument := b.call(s, `{"order":"A-1","cents":1,"idempotency_key":"k"}`, "")
	if id(argument) != meta || !replayed(argument) {
		t.Errorf("the argument and _meta name two calls: %v", argument)
	}
	if escaped := b.call(s, `{"order":"A-1","cents":1,"idempotency\u005fkey":"k"}`, ""); id(escaped) != meta || !replayed(escaped) {
		t.Errorf("the argument with an escape in its name: %s", text(escaped))
	}
	both := b.call(s, `{"order":"A-1","cents":1,"idempotency_key":"model"}`, "k")
	if id(both) != meta {
		t.Error("the model's key beats the harness's")
	}
	if other := b.call(s, args, "another"); id(other) == meta || replayed(other) {
		t.Error("the same arguments under another key are the earlier call")
	}
	derived := b.call(s, args, "")
	if id(derived) == meta || replayed(derived) {
		t.Error("a call without a key meets one with a key")
	}
	if again := b.call(s, args, ""); id(again) != id(derived) || !replayed(again) {
		t.Error("a repeated call without a key ran again")
	}
}

func TestAddTool_K02_BadKeysAreExplained(t *testing.T) {
	t.Parallel()
	b := setup(t, mcpidem.ScopeIs("agent"), &mcpidem.ToolConfig{Key: mcpidem.KeyRequired})
	s := b.connect()
	for label, r := range map[string]*mcp.CallToolResult{
		"missing":     b.call(s, `{"order":"A","cents":1}`, ""),
		"empty":       b.call(s, `{"order":"A","cents":1,"idempotency_key":""}`, ""),
		"null":        b.call(s, `{"order":"A","cents":1,"idempotency_key":null}`, ""),
		"too long":    b.call(s, `{"order":"A","cents":1}`, strings.Repeat("k", 256)),
		"not a text":  b.call(s, `{"order":"A","cents":1,"idempotency_key":7}`, ""),
		"unprintable": b.call(s, `{"order":"A","cents":1}`, "a\nb"),
	} {
		if !r.IsError || status(r) != "bad_key" || !strings.Contains(text(r), "Nothing was done.") {
			t.Errorf("%s: %v %s", label, status(r), text(r))
		}
	}
	if n := b.effects(); n != 0 {
		t.Errorf("%d effects", n)
	}
}

func TestAddTool_M01_SchemaAndDescription(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		key      mcpidem.KeyArgument
		argument bool
		says     string
	}{
		{mcpidem.KeyOptional, true, "for 24 hours when their idempotency_key is the same, or for 10 minutes when they have none"},
		{mcpidem.KeyRequired, true, "for 24 hours when their idempotency_key is the same. Give"},
		{mcpidem.KeyOff, false, "for 10 minutes when their arguments are the same."},
	} {
		b := setup(t, mcpidem.ScopeIs("agent"), &mcpidem.ToolConfig{Key: c.key})
		list, err := b.connect().ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		tool := list.Tools[0]
		properties := tool.InputSchema.(map[string]any)["properties"].(map[string]any)
		if _, ok := properties["idempotency_key"]; ok != c.argument {
			t.Errorf("key %v: the schema has the argument: %v", c.key, ok)
		}
		if !strings.HasPrefix(tool.Description, "Refund an order.\n\n") || !strings.Contains(tool.Description, c.says) {
			t.Errorf("key %v: the description is %q", c.key, tool.Description)
		}
		if tool.OutputSchema == nil {
			t.Errorf("key %v: no output schema", c.key)
		}
	}
}

func TestAddTool_NullStandsForAbsent(t *testing.T) {
	t.Parallel()
	b := setup(t, mcpidem.ScopeIs("agent"), nil)
	mcpidem.AddTool(b.idem, &mcp.Tool{Name: "ping"}, func(context.Context, pgx.Tx, struct{}) (receipt, error) { return receipt{}, nil })
	s := b.connect()
	first := b.call(s, `{"order":"A","cents":1,"idempotency_key":null}`, "")
	if again := b.call(s, `{"order":"A","cents":1}`, ""); first.IsError || !replayed(again) {
		t.Errorf("a key that is null: %s, then %s", text(first), text(again))
	}
	for _, args := range []json.RawMessage{nil, json.RawMessage("null"), json.RawMessage("{}")} {
		r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "ping", Arguments: args})
		if err != nil || r.IsError {
			t.Errorf("arguments %s: %v, %s", args, err, text(r))
		}
	}
}

func TestCall_M05_TextSaysWhoCanChooseAnotherKey(t *testing.T) {
	t.Parallel()
	b := setup(t, mcpidem.ScopeIs("agent"), nil)
	s := b.connect()
	b.call(s, `{"order":"A","cents":1}`, "k")
	if r := b.call(s, `{"order":"B","cents":1}`, "k"); !strings.Contains(text(r), "the program that calls this tool must choose a new idempotency key") {
		t.Errorf("the harness's key: %s", text(r))
	}
	if r := b.call(s, `{"order":"B","cents":1,"idempotency_key":"k"}`, ""); !strings.Contains(text(r), "call again with a new idempotency_key") {
		t.Errorf("the model's key: %s", text(r))
	}
}

func TestAddTool_KeyOffLeavesTheArgumentToTheTool(t *testing.T) {
	t.Parallel()
	b := setup(t, mcpidem.ScopeIs("agent"), nil)
	var got string
	type input struct {
		Key string `json:"idempotency_key"`
	}
	mcpidem.AddToolWith(b.idem, &mcp.Tool{Name: "own"}, &mcpidem.ToolConfig{Key: mcpidem.KeyOff},
		func(_ context.Context, _ pgx.Tx, in input) (receipt, error) { got = in.Key; return receipt{}, nil })
	if _, err := b.connect().CallTool(t.Context(), &mcp.CallToolParams{Name: "own", Arguments: json.RawMessage(`{"idempotency_key":"mine"}`)}); err != nil || got != "mine" {
		t.Errorf("the tool's own argument arrived as %q (%v)", got, err)
	}
}

func TestAddTool_M01_RegistrationErrorsSayWhatToDo(t *testing.T) {
	t.Parallel()
	b := setup(t, mcpidem.ScopeIs("agent"), nil)
	for says, add := range map[string]func(){
		"there is a tool":       func() { mcpidem.AddTool(b.idem, &mcp.Tool{Name: "issue_refund"}, b.refund) },
		"is reserved; remove":   func() { mcpidem.AddTool(b.idem, &mcp.Tool{Name: "x"}, takesKey) },
		"a tool needs a name":   func() { mcpidem.AddTool(b.idem, &mcp.Tool{}, b.refund) },
		`type must be "object"`: func() { mcpidem.AddTool(b.idem, &mcp.Tool{Name: "y"}, takesText) },
		"Policy.Attempts": func() {
			mcpidem.AddToolWith(b.idem, &mcp.Tool{Name: "z"}, &mcpidem.ToolConfig{Policy: &txidem.Policy{Attempts: -1}}, b.refund)
		},
	} {
		func() {
			defer func() {
				if err, ok := recover().(error); !ok || !strings.Contains(err.Error(), says) {
					t.Errorf("want a panic that says %q, got %v", says, err)
				}
			}()
			add()
		}()
	}
}

func takesKey(context.Context, pgx.Tx, struct {
	Key string `json:"idempotency_key"`
},
) (receipt, error) {
	return receipt{}, nil
}

func takesText(context.Context, pgx.Tx, string) (receipt, error) { return receipt{}, nil }

func TestNew_M04_RefusesToStartWithoutACaller(t *testing.T) {
	t.Parallel()
	b := setup(t, mcpidem.ScopeIs("agent"), nil)
	store, err := txidem.New(b.pool, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, cfg := range []*mcpidem.Config{nil, {}, {Scope: mcpidem.ScopeIs("")}} {
		if _, err := mcpidem.New(b.server, store, cfg); err == nil || !strings.Contains(err.Error(), "ScopeFromToken") || !strings.Contains(err.Error(), "ScopeIs") {
			t.Errorf("got %v, want an error that names the remedies", err)
		}
	}
}

func TestScopeFromToken_M04_CallersDoNotMeet(t *testing.T) {
	t.Parallel()
	for label, stateless := range map[string]bool{"stateless": true, "stateful": false} {
		t.Run(label, func(t *testing.T) {
			t.Parallel()
			b := setup(t, mcpidem.ScopeFromToken, nil)
			url := b.serveHTTP(stateless)
			alice, bob := b.connectHTTP(url, "alice"), b.connectHTTP(url, "bob")
			const args = `{"order":"A-1","cents":1}`
			if first, second := b.call(alice, args, "k"), b.call(bob, args, "k"); replayed(first) || replayed(second) {
				t.Error("bob got alice's answer")
			}
			if again := b.call(b.connectHTTP(url, "alice"), args, "k"); !replayed(again) {
				t.Error("alice on a new session did not get her answer")
			}
			if n := b.effects(); n != 2 {
				t.Errorf("%d effects, want 2", n)
			}
		})
	}
}

func TestScopeFromToken_M04_NoTokenNoCall(t *testing.T) {
	t.Parallel()
	b := setup(t, mcpidem.ScopeFromToken, nil)
	r := b.call(b.connect(), `{"order":"A-1","cents":1}`, "k") // in memory there is no token
	if !r.IsError || status(r) != "no_caller" || b.effects() != 0 {
		t.Errorf("got %v %s, %d effects", status(r), text(r), b.effects())
	}
}

func (b *bench) serveHTTP(stateless bool) string {
	b.t.Helper()
	verify := func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
		return &auth.TokenInfo{UserID: token, Expiration: time.Now().Add(time.Hour)}, nil
	}
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return b.server }, &mcp.StreamableHTTPOptions{Stateless: stateless})
	server := httptest.NewServer(auth.RequireBearerToken(verify, nil)(handler))
	b.t.Cleanup(server.Close)
	return server.URL
}

func (b *bench) connectHTTP(url, token string) *mcp.ClientSession {
	b.t.Helper()
	transport := &http.Transport{}
	session, err := mcp.NewClient(&mcp.Implementation{Name: token, Version: "1"}, nil).Connect(b.t.Context(), &mcp.StreamableClientTransport{
		Endpoint: url, HTTPClient: &http.Client{Transport: bearer{token, transport}},
	}, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { session.Close(); transport.CloseIdleConnections() })
	return session
}

type bearer struct {
	token string
	next  http.RoundTripper
}

func (b bearer) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("Authorization", "Bearer "+b.token)
	return b.next.RoundTrip(req)
}

func TestCall_M05_OutcomesAreToldInWordsAndCodes(t *testing.T) {
	t.Parallel()
	b := setup(t, mcpidem.ScopeIs("agent"), nil)
	s := b.connect()
	answer := func(key string, h func(context.Context, pgx.Tx, refund) (receipt, error)) *mcp.CallToolResult {
		b.handle = h
		return b.call(s, `{"order":"A-1","cents":1}`, key)
	}
	fails := func(err error) func(context.Context, pgx.Tx, refund) (receipt, error) {
		return func(context.Context, pgx.Tx, refund) (receipt, error) { return receipt{}, err }
	}
	for _, c := range []struct {
		label  string
		got    *mcp.CallToolResult
		status string
		repeat bool
		says   string
	}{
		{"failed", answer("f", fails(txidem.Fail("closed", "the order is closed"))), "failed", false, "closed: the order is closed (This outcome is recorded"},
		{"failed again", answer("f", nil), "failed", false, "(Recorded outcome of an earlier identical call; it was not tried again."},
		{"released", answer("r", fails(errors.New("printer on fire"))), "not_done", true, "printer on fire (Nothing was changed"},
		{"constraint", answer("u", func(ctx context.Context, tx pgx.Tx, _ refund) (receipt, error) {
			_, err := tx.Exec(ctx, `insert into refund (id) values (1), (1)`) // secret detail
			return receipt{}, fmt.Errorf("secret detail: %w", err)
		}), "tool_fault", false, "Nothing was changed by this call. Do not repeat it"},
		{"serialization", answer("s", func(ctx context.Context, tx pgx.Tx, _ refund) (receipt, error) {
			_, err := tx.Exec(ctx, `do $$ begin raise 'secret detail' using errcode = '40001'; end $$`)
			return receipt{}, err
		}), "unavailable", true, "Wait 5 seconds, then repeat"},
		{"panic", answer("p", func(context.Context, pgx.Tx, refund) (receipt, error) { panic("secret detail") }), "tool_fault", false, "This tool has a fault. Nothing was changed"},
		{"raw commit", answer("c", func(ctx context.Context, tx pgx.Tx, _ refund) (receipt, error) {
			_, err := tx.Exec(ctx, "commit")
			return receipt{}, err
		}), "failed", false, "it is not known what it did; do not repeat the call"},
	} {
		content, _ := c.got.StructuredContent.(map[string]any)
		if !c.got.IsError || content["status"] != c.status || content["repeat_same_call"] != c.repeat || !strings.Contains(text(c.got), c.says) {
			t.Errorf("%s: %v\n%s", c.label, content, text(c.got))
		}
		if strings.Contains(text(c.got), "secret detail") {
			t.Errorf("%s: the model reads what the handler panicked with", c.label)
		}
	}
	if n := strings.Count(b.log.String(), "secret detail"); n < 3 || !strings.Contains(b.log.String(), "ended its transaction") {
		t.Errorf("the log does not say what the model is not told:\n%s", b.log)
	}
	b.handle = nil
	b.call(s, `{"order":"A-1","cents":1}`, "k")
	reused := b.call(s, `{"order":"A-1","cents":2}`, "k")
	if status(reused) != "key_reused" || !strings.Contains(text(reused), "Nothing was done.") {
		t.Errorf("reused: %v %s", status(reused), text(reused))
	}
}

func TestCall_R03_InProgressSaysHowLongToWaitAndToRepeat(t *testing.T) {
	t.Parallel()
	b := setup(t, mcpidem.ScopeIs("agent"), nil)
	there, goOn := make(chan struct{}), make(chan struct{})
	b.handle = func(context.Context, pgx.Tx, refund) (receipt, error) {
		close(there)
		<-goOn
		return receipt{Refund: "R-1"}, nil
	}
	s, first := b.connect(), make(chan *mcp.CallToolResult, 1)
	go func() {
		r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "issue_refund", Arguments: json.RawMessage(`{"order":"A-1","cents":1}`)})
		if err != nil {
			t.Error(err)
		}
		first <- r
	}()
	<-there
	r := b.call(b.connect(), `{"order":"A-1","cents":1}`, "")
	content, _ := r.StructuredContent.(map[string]any)
	if !r.IsError || content["status"] != "in_progress" || content["retry_after_seconds"] != 1.0 || content["repeat_same_call"] != true ||
		!strings.Contains(text(r), "Wait 1 second, then repeat exactly the same call with the same arguments") {
		t.Errorf("%v\n%s", content, text(r))
	}
	close(goOn)
	if r := <-first; r == nil || r.IsError || content["call_id"] != r.Meta[mcpidem.MetaCallID] {
		t.Errorf("the first call: %+v", r)
	}
}

func TestCall_M03_ResultThatDoesNotFitIsRolledBack(t *testing.T) {
	t.Parallel()
	b := setup(t, mcpidem.ScopeIs("agent"), nil)
	mcpidem.AddTool(b.idem, &mcp.Tool{
		Name:         "bad_output",
		OutputSchema: json.RawMessage(`{"type":"object","required":["never"]}`),
	}, b.refund)
	r, err := b.connect().CallTool(t.Context(), &mcp.CallToolParams{Name: "bad_output", Arguments: json.RawMessage(`{"order":"A","cents":1}`)})
	if err != nil || status(r) != "tool_fault" || b.effects() != 0 {
		t.Errorf("%v, %v, %d effects", err, r, b.effects())
	}
}

func TestCall_ArgumentsAreCheckedAndReadExactly(t *testing.T) {
	t.Parallel()
	b := setup(t, mcpidem.ScopeIs("agent"), nil)
	var got refund
	b.handle = func(_ context.Context, _ pgx.Tx, in refund) (receipt, error) {
		got = in
		return receipt{}, nil
	}
	s := b.connect()
	b.call(s, `{"order":"A","cents":9007199254740993}`, "")
	if got.Cents != 9007199254740993 {
		t.Errorf("cents arrived as %d", got.Cents)
	}
	if r := b.call(s, `{"order":"B","cents":1.05e3}`, ""); r.IsError || got.Cents != 1050 {
		t.Errorf("a whole number in another spelling: %s, cents arrived as %d", text(r), got.Cents)
	}
	for label, args := range map[string]string{
		"missing": `{"order":"A"}`, "wrong type": `{"order":"A","cents":"1"}`, "unknown": `{"order":"A","cents":1,"x":1}`, "case": `{"order":"A","CENTS":1}`,
	} {
		if r := b.call(s, args, ""); status(r) != "bad_args" || !strings.Contains(text(r), "Nothing was done") {
			t.Errorf("%s: %v %s", label, status(r), text(r))
		}
	}
	if n := b.effects(); n != 2 {
		t.Errorf("%d effects, want 2", n)
	}
}

func TestCall_DefaultsOfTheSchemaReachTheHandler(t *testing.T) {
	t.Parallel()
	b := setup(t, mcpidem.ScopeIs("agent"), nil)
	var got refund
	b.handle = func(_ context.Context, _ pgx.Tx, in refund) (receipt, error) {
		got = in
		return receipt{}, nil
	}
	mcpidem.AddTool(b.idem, &mcp.Tool{
		Name: "with_default",
		InputSchema: json.RawMessage(`{"type":"object","properties":{"order":{"type":"string"},
			"cents":{"type":"integer"},"memo":{"type":"string","default":"none given"}}}`),
	}, b.refund)
	if _, err := b.connect().CallTool(t.Context(), &mcp.CallToolParams{Name: "with_default", Arguments: json.RawMessage(`{"order":"A","cents":9007199254740993}`)}); err != nil {
		t.Fatal(err)
	}
	if want := (refund{"A", 9007199254740993, "none given"}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestCall_NamesAreMatchedAsTheSchemaMatchesThem(t *testing.T) {
	t.Parallel()
	b := setup(t, mcpidem.ScopeIs("agent"), nil)
	var got refund
	b.handle = func(_ context.Context, _ pgx.Tx, in refund) (receipt, error) {
		got = in
		return receipt{}, nil
	}
	mcpidem.AddTool(b.idem, &mcp.Tool{Name: "lax", InputSchema: json.RawMessage(`{"type":"object","properties":{"cents":{"type":"integer","maximum":10}}}`)}, b.refund)
	if _, err := b.connect().CallTool(t.Context(), &mcp.CallToolParams{Name: "lax", Arguments: json.RawMessage(`{"order":"A","cents":1,"CENTS":1000}`)}); err != nil {
		t.Fatal(err)
	}
	if got.Cents != 1 {
		t.Errorf("cents arrived as %d: past the schema", got.Cents)
	}
}

func TestCall_M01_ReplayIsNotValidatedAgain(t *testing.T) {
	t.Parallel()
	b := setup(t, mcpidem.ScopeIs("agent"), nil)
	b.call(b.connect(), `{"order":"A-1","cents":1}`, "k")

	// The next release wants another argument and promises another result.
	store, err := txidem.New(b.pool, nil)
	if err != nil {
		t.Fatal(err)
	}
	b.server = mcp.NewServer(&mcp.Implementation{Name: "billing", Version: "2"}, nil)
	next, err := mcpidem.New(b.server, store, &mcpidem.Config{Scope: mcpidem.ScopeIs("agent")})
	if err != nil {
		t.Fatal(err)
	}
	mcpidem.AddTool(next, &mcp.Tool{
		Name:        "issue_refund",
		InputSchema: json.RawMessage(`{"type":"object","required":["order","cents","currency"]}`), OutputSchema: json.RawMessage(`{"type":"object","required":["iban"]}`),
	}, b.refund)
	if r := b.call(b.connect(), `{"order":"A-1","cents":1}`, "k"); r.IsError || !replayed(r) {
		t.Errorf("got %s", text(r))
	}
	if n := b.effects(); n != 1 {
		t.Errorf("%d effects", n)
	}
}

func TestCall_DatabaseErrorsStayOnTheServer(t *testing.T) {
	t.Parallel()
	b := setup(t, mcpidem.ScopeIs("agent"), nil)
	s := b.connect()
	if _, err := b.pool.Exec(t.Context(), `drop table txonce.call`); err != nil {
		t.Fatal(err)
	}
	r := b.call(s, `{"order":"A-1","cents":1}`, "k")
	if status(r) != "tool_fault" || strings.Contains(text(r), "txonce") || !strings.Contains(b.log.String(), "migrations.Up") {
		t.Errorf("%v %s; log %s", status(r), text(r), b.log)
	}
}
