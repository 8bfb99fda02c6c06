package statustool

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/internal/dbtest"
	"github.com/txonce/txonce/jobs"
	"github.com/txonce/txonce/toolcall"
	"github.com/txonce/txonce/txidem"
	"github.com/txonce/txonce/txidem/httpidem"
	"github.com/txonce/txonce/txidem/mcpidem"
)

// TestHandler_S08_BesideHTTPIdem: a program that has lost a response asks, by the id of a refusal or by one that it makes itself, and gets
// the response as it was, a failure likewise, and nothing of another's.
func TestHandler_S08_BesideHTTPIdem(t *testing.T) {
	t.Parallel()
	f := newFirm(t, dbtest.Pool(t, nil), Config{}, false)
	caller := func(r *http.Request) (string, error) { return r.Header.Get("Caller"), nil }
	idem, err := httpidem.New(f.store, &httpidem.Config{Scope: caller})
	if err != nil {
		t.Fatal(err)
	}
	status, err := Handler(&HandlerConfig{Scope: caller}, f.store, f.runner)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /status/{id}", status)
	mux.Handle("POST /refunds", idem.Handler(func(w http.ResponseWriter, r *http.Request, tx pgx.Tx) error {
		if r.Header.Get("Idempotency-Key") == `"closed"` {
			return txidem.Fail("closed", "the order is closed")
		}
		w.WriteHeader(http.StatusCreated)
		_, err := fmt.Fprint(w, `{"refund":"R-1"}`)
		return err
	}))
	ids := make(map[string]string)
	for _, key := range []string{"done", "closed"} {
		r := httptest.NewRequest(http.MethodPost, "/refunds", strings.NewReader(`{"order":"A"}`))
		r.Header.Set("Idempotency-Key", `"`+key+`"`)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Caller", scope)
		mux.ServeHTTP(httptest.NewRecorder(), r)
		ids[key] = toolcall.NewID(scope, "POST /refunds", "x:"+key).String()
	}
	w, got := get(mux, http.MethodGet, scope, "/status/"+ids["done"]+"?wait=25")
	var response struct {
		Status int             `json:"status"`
		Body   json.RawMessage `json:"body"`
	}
	if err := json.Unmarshal(got.Result, &response); err != nil || w.Code != http.StatusOK || got.State != toolcall.StateSucceeded || response.Status != http.StatusCreated || !strings.Contains(string(response.Body), "R-1") {
		t.Errorf("%d %s, %v", w.Code, w.Body, err)
	}
	if w, got := get(mux, http.MethodGet, scope, "/status/"+ids["closed"]); w.Code != http.StatusOK || got.State != toolcall.StateFailed || got.Failure.Code != "http_422" || !strings.Contains(got.Failure.Message, "the order is closed") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w, got := get(mux, http.MethodGet, "bob", "/status/"+ids["done"]); w.Code != http.StatusNotFound || got.Result != nil {
		t.Errorf("another caller: %d %s", w.Code, w.Body)
	}
}

// TestGet_S02_ServerOfALaterDeploy has none of the tools and kinds of jobs that made the records: they are told of all the same, by id.
func TestGet_S02_ServerOfALaterDeploy(t *testing.T) {
	t.Parallel()
	url := dbtest.URL(t)
	f := newFirm(t, dbtest.PoolAt(t, url, nil), Config{}, true)
	picture := &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "a & b"}, &mcp.ImageContent{Data: []byte("pixels"), MIMEType: "image/png"}}}
	mcpidem.AddToolRaw(f.idem, &mcp.Tool{Name: "draw", InputSchema: json.RawMessage(`{"type":"object"}`)}, nil,
		func(context.Context, pgx.Tx, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return picture, nil })
	session := f.shop(t).connect(nil)
	do(t, session, "draw", args{"idempotency_key": "k"})
	do(t, session, "issue_refund", args{"order": "A", "idempotency_key": "k"})
	handle := do(t, session, "request_report", args{"order": "B", "idempotency_key": "k"}).StructuredContent.(map[string]any)
	obey(t, session, do(t, session, "get_status", args{"id": handle["job_id"]}))

	pool := dbtest.PoolAt(t, url, nil)
	store, err := txidem.New(pool, nil)
	if err != nil {
		t.Fatal(err)
	}
	other := jobs.Define("other", func(context.Context, *jobs.Job[order]) (jobs.Commit[pages], error) { return nil, nil }, nil)
	runner, err := jobs.New(pool, firmJobs(), other)
	if err != nil {
		t.Fatal(err)
	}
	later := &shop{t: t, store: store, server: mcp.NewServer(&mcp.Implementation{Name: "later", Version: "2"}, nil)}
	if later.idem, err = mcpidem.New(later.server, store, &mcpidem.Config{Scope: mcpidem.ScopeIs(scope)}); err != nil {
		t.Fatal(err)
	}
	later.add(nil, store, runner)
	asking := later.connect(nil)
	for label, c := range map[string]struct {
		id           any
		tool, result string
		blocks       int
	}{
		"a call":          {callID("issue_refund", "k").String(), "issue_refund", `{"refund":"R-A"}`, 1},
		"one that drew":   {callID("draw", "k").String(), "draw", `{"content":[{"type":"text","text":"a & b"}]}`, 2},
		"a job":           {handle["job_id"], "build_report", `{"pages": 12}`, 1},
		"the call of one": {callID("request_report", "k").String(), "request_report", "", 1},
	} {
		r := do(t, asking, "get_status", args{"id": c.id})
		got := reportIn(t, r)
		compact := strings.ReplaceAll(string(got.Result), ": ", ":")
		if got.State != toolcall.StateSucceeded || got.Tool != c.tool || len(r.Content) != c.blocks || c.result != "" && compact != strings.ReplaceAll(c.result, ": ", ":") {
			t.Errorf("%s: %+v, %s, %d blocks", label, got, got.Result, len(r.Content))
		}
	}
	if got := reportIn(t, do(t, asking, "get_status", args{"tool": "issue_refund", "idempotency_key": "k"})); got.State != StateBadArgs || !strings.Contains(got.Next, "the tools are none") {
		t.Errorf("by a tool that is gone: %+v", got)
	}
}

// TestGet_S02_WithoutProtectionNothingIsNone: a call that left no record, since protection is off, is never told of as one that was not
// made, to be made again.
func TestGet_S02_WithoutProtectionNothingIsNone(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, nil)
	off := &txidem.Policy{Disabled: true}
	for label, policies := range map[string][2]*txidem.Policy{"of the store": {off, nil}, "of the tool": {nil, off}} {
		store, err := txidem.New(pool, &txidem.Config{Policy: policies[0]})
		if err != nil {
			t.Fatal(err)
		}
		memory, err := txidem.NewMemory(&txidem.Config{Policy: policies[0]}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, store := range []*txidem.Store{store, memory} {
			s := &shop{t: t, store: store, server: mcp.NewServer(&mcp.Implementation{Name: "shop", Version: "1"}, nil)}
			if s.idem, err = mcpidem.New(s.server, store, &mcpidem.Config{Scope: mcpidem.ScopeIs(scope)}); err != nil {
				t.Fatal(err)
			}
			mcpidem.AddToolWith(s.idem, &mcp.Tool{Name: "issue_refund"}, &mcpidem.ToolConfig{Policy: policies[1]}, func(context.Context, pgx.Tx, order) (receipt, error) { return receipt{"R"}, nil })
			session := s.add(nil, store).connect(nil)
			if r, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "issue_refund", Arguments: args{"order": "A"}, Meta: mcp.Meta{mcpidem.MetaKey: "k"}}); err != nil || r.IsError {
				t.Fatalf("%v, %+v", err, r)
			}
			if got := reportIn(t, do(t, session, "get_status", args{"tool": "issue_refund", "idempotency_key": "k"})); got.State != StateBadArgs || !strings.Contains(got.Next, "no protected tool") {
				t.Errorf("%s, by key: %+v", label, got)
			}
			if got := reportIn(t, do(t, session, "get_status", args{"id": callID("issue_refund", "k").String()})); policies[0] != nil && got.State != StateUnavailable {
				t.Errorf("%s, by id: %+v", label, got)
			}
		}
	}
}

// TestGet_S04_ToolThatIsNotTheCalls: an id that comes with the name of another tool is a mix-up that is better told.
func TestGet_S04_ToolThatIsNotTheCalls(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.set(scope, call(toolcall.StateSucceeded))
	f.set(scope, job(toolcall.StateRunning))
	session := newShop(t, nil).add(nil, f).connect(nil)
	id := callID("issue_refund", "k").String()
	for tool, want := range map[string]toolcall.State{"issue_refund": toolcall.StateSucceeded, "request_report": StateBadArgs, strings.Repeat("x", 1<<20): StateBadArgs} {
		got := reportIn(t, do(t, session, "get_status", args{"id": id, "tool": tool}))
		if got.State != want || len(got.Next) > 500 || (want == StateBadArgs) != strings.Contains(got.Next, "a call of issue_refund, not of") {
			t.Errorf("%.20s: %+v", tool, got)
		}
	}
	if got := reportIn(t, do(t, session, "get_status", args{"id": jobID(1).String(), "tool": "request_report"})); got.State != toolcall.StateRunning {
		t.Errorf("a job with the tool that submitted it: %+v", got)
	}
}

// TestGet_S04_PanicLeadsNowhereWrong: an order that names no id would be refused.
func TestGet_S04_PanicLeadsNowhereWrong(t *testing.T) {
	t.Parallel()
	session := newShop(t, func(context.Context, *mcp.CallToolRequest) (string, error) { panic("secret") }).add(nil, newFake()).connect(nil)
	if got := reportIn(t, do(t, session, "get_status", args{"id": jobID(1).String()})); got.State != StateUnavailable || !strings.Contains(got.Next, "then ask the same again.") {
		t.Errorf("%+v", got)
	}
}

// TestFollow_S03_FirstLookIsPartOfTheWait: with a database that hangs, too, an answer takes no longer than a client was told.
func TestFollow_S03_FirstLookIsPartOfTheWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.set(scope, running(0))
		f.gate = func(int) { time.Sleep(8 * time.Second) }
		begun := time.Now()
		if s, err := readerOf(time.Second, f).follow(t.Context(), askFor(0), 10*time.Second, nil); err != nil || s.State != toolcall.StateRunning || time.Since(begun) != 10*time.Second {
			t.Errorf("%+v, %v, after %v", s, err, time.Since(begun))
		}
		time.Sleep(time.Minute) // the last look ends by itself here
	})
}
