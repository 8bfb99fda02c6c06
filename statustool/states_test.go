package statustool

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/jobs"
	"github.com/txonce/txonce/toolcall"
	"github.com/txonce/txonce/txidem/mcpidem"
)

// overHTTP opens a session over stateless Streamable HTTP.
func (s *shop) overHTTP(opts *mcp.ClientOptions, front ...func(http.Handler) http.Handler) *mcp.ClientSession {
	s.t.Helper()
	var handler http.Handler = mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s.server }, &mcp.StreamableHTTPOptions{Stateless: true})
	for _, f := range front {
		handler = f(handler)
	}
	server := httptest.NewServer(handler)
	s.t.Cleanup(server.Close)
	client := &http.Client{Transport: &http.Transport{}}
	s.t.Cleanup(client.CloseIdleConnections)
	session, err := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, opts).
		Connect(s.t.Context(), &mcp.StreamableClientTransport{Endpoint: server.URL, HTTPClient: client, DisableStandaloneSSE: true}, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = session.Close() })
	return session
}

// TestGet_S02_EachStateOverEachTransport: what the source knows reaches the client, whatever lies between.
func TestGet_S02_EachStateOverEachTransport(t *testing.T) {
	t.Parallel()
	for label, connect := range map[string]func(t *testing.T, f *fake) *mcp.ClientSession{
		"in memory, " + modern: func(t *testing.T, f *fake) *mcp.ClientSession {
			return newShop(t, nil, modern).add(nil, f).connect(nil)
		},
		"in memory, " + legacy: func(t *testing.T, f *fake) *mcp.ClientSession {
			return newShop(t, nil, legacy).add(nil, f).connect(nil)
		},
		"stateless HTTP, " + modern: func(t *testing.T, f *fake) *mcp.ClientSession {
			return newShop(t, nil, modern).add(nil, f).overHTTP(nil)
		},
		"stateless HTTP, " + legacy: func(t *testing.T, f *fake) *mcp.ClientSession {
			return newShop(t, nil, legacy).add(nil, f).overHTTP(nil)
		},
	} {
		t.Run(label, func(t *testing.T) {
			t.Parallel()
			f := newFake()
			session := connect(t, f)
			for _, c := range cases() {
				f.change(func() { clear(f.is) })
				if c.status.State != toolcall.StateNone {
					f.set(scope, c.status)
				}
				got := reportIn(t, do(t, session, "get_status", args{"id": strings.ToUpper(c.status.ID.String())}))
				want := reportOf(c.status)
				want.Next, want.RetryAfter, want.Result = got.Next, got.RetryAfter, c.status.Answer
				if diff := cmp.Diff(*want, got); diff != "" || got.Next == "" {
					t.Errorf("%s (-want +got):\n%s", c.label, diff)
				}
				if waits := got.State == toolcall.StateQueued || got.State == toolcall.StateRunning; waits != (got.RetryAfter > 0) {
					t.Errorf("%s: ask again after %d seconds", c.label, got.RetryAfter)
				}
			}
		})
	}
}

// TestGet_S02_ByToolAndKey finds real calls, by the caller's key, wherever that stood.
func TestGet_S02_ByToolAndKey(t *testing.T) {
	t.Parallel()
	s := newShop(t, nil)
	s.add(nil, s.store)
	session := s.connect(nil)
	ask := args{"tool": "issue_refund", "idempotency_key": "k-1"}
	if got := reportIn(t, do(t, session, "get_status", ask)); got.State != toolcall.StateNone || got.ID != callID("issue_refund", "k-1").String() {
		t.Errorf("before the call: %+v", got)
	}
	made := do(t, session, "issue_refund", args{"order": "A", "idempotency_key": "k-1"})
	got := reportIn(t, do(t, session, "get_status", ask))
	if got.State != toolcall.StateSucceeded || string(got.Result) != `{"refund":"R-A"}` || got.ID != made.Meta[mcpidem.MetaCallID] || got.Tool != "issue_refund" || got.FinishedAt.IsZero() {
		t.Errorf("behind the call: %+v", got)
	}
	if byID := reportIn(t, do(t, session, "get_status", args{"id": got.ID})); !cmp.Equal(got, byID) {
		t.Errorf("by id: %s", cmp.Diff(got, byID))
	}
	if both := reportIn(t, do(t, session, "get_status", with(ask, args{"id": got.ID, "wait_seconds": nil}))); !cmp.Equal(got, both) {
		t.Errorf("by both: %s", cmp.Diff(got, both))
	}
	if _, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "issue_refund", Arguments: args{"order": ""}, Meta: mcp.Meta{mcpidem.MetaKey: "k-2"}}); err != nil {
		t.Fatal(err)
	}
	if got := reportIn(t, do(t, session, "get_status", args{"tool": "issue_refund", "idempotency_key": "k-2"})); got.State != toolcall.StateFailed || got.Failure.Code != "no_order" {
		t.Errorf("a failure under the harness's key: %+v", got)
	}
	do(t, session, "request_report", args{"order": "A", "idempotency_key": "k-1"})
	if got := reportIn(t, do(t, session, "get_status", args{"tool": "request_report", "idempotency_key": "k-1"})); !strings.Contains(got.Next, jobID(1).String()) {
		t.Errorf("the handle of a job is not pointed to: %+v", got)
	}
}

// TestGet_S04_RefusalsPointHere: the texts of the protected tools name the tool and the id that it takes.
func TestGet_S04_RefusalsPointHere(t *testing.T) {
	t.Parallel()
	s := newShop(t, nil)
	s.add(&Config{Name: "ask"}, s.store)
	running, end := make(chan struct{}), make(chan struct{})
	mcpidem.AddTool(s.idem, &mcp.Tool{Name: "slow"}, func(context.Context, pgx.Tx, order) (receipt, error) {
		close(running)
		<-end
		return receipt{Refund: "R"}, nil
	})
	session, other := s.connect(nil), s.connect(nil)
	over := make(chan struct{})
	go func() {
		defer close(over)
		_, _ = session.CallTool(t.Context(), &mcp.CallToolParams{Name: "slow", Arguments: args{"order": "A", "idempotency_key": "k"}})
	}()
	<-running
	said := do(t, other, "slow", args{"order": "A", "idempotency_key": "k"}).StructuredContent.(map[string]any)
	if said["status"] != "in_progress" || said["status_tool"] != "ask" {
		t.Fatalf("%v", said)
	}
	if got := reportIn(t, do(t, other, "ask", args{"id": said["call_id"]})); got.State != toolcall.StateRunning || !strings.Contains(got.Next, "call ask with") {
		t.Errorf("%+v", got)
	}
	close(end)
	if got := reportIn(t, do(t, other, "ask", args{"id": said["call_id"], "wait_seconds": 25})); got.State != toolcall.StateSucceeded {
		t.Errorf("behind its end: %+v", got)
	}
	<-over
}

// TestGet_S05_ForeignAndUnknownAreTheSame, byte for byte, for calls and for jobs.
func TestGet_S05_ForeignAndUnknownAreTheSame(t *testing.T) {
	t.Parallel()
	f := newFake()
	session := newShop(t, nil).add(&Config{PerTool: true}, f).connect(nil)
	for _, c := range cases() {
		ask := args{"id": c.status.ID.String()}
		answers := func() (texts []string) {
			for _, tool := range []string{"get_status", "get_issue_refund_status"} {
				r := do(t, session, tool, ask)
				texts = append(texts, r.Content[0].(*mcp.TextContent).Text)
			}
			return texts
		}
		f.change(func() { clear(f.is) })
		unknown := answers()
		f.set("bob", c.status)
		if foreign := answers(); !cmp.Equal(unknown, foreign) {
			t.Errorf("%s: %s", c.label, cmp.Diff(unknown, foreign))
		}
		if strings.Contains(unknown[0], "bob") {
			t.Error(unknown[0])
		}
	}
}

// TestGet_S05_CallersOfOneServer see their own calls, by the same key.
func TestGet_S05_CallersOfOneServer(t *testing.T) {
	t.Parallel()
	s := newShop(t, mcpidem.ScopeFromToken)
	s.add(nil, s.store)
	verify := auth.RequireBearerToken(func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
		return &auth.TokenInfo{UserID: token, Expiration: noon.AddDate(100, 0, 0)}, nil
	}, nil)
	as := func(who string) *mcp.ClientSession {
		return s.overHTTP(nil, func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				r.Header.Set("Authorization", "Bearer "+who)
				verify(next).ServeHTTP(w, r)
			})
		})
	}
	alice, bob := as("alice"), as("bob")
	do(t, alice, "issue_refund", args{"order": "A", "idempotency_key": "k"})
	ask := args{"tool": "issue_refund", "idempotency_key": "k"}
	hers := reportIn(t, do(t, alice, "get_status", ask))
	if hers.State != toolcall.StateSucceeded {
		t.Errorf("her own: %+v", hers)
	}
	for label, q := range map[string]args{"by the same key": ask, "by her id": {"id": hers.ID}} {
		if got := reportIn(t, do(t, bob, "get_status", q)); got.State != toolcall.StateNone || got.Result != nil || got.Tool != "" {
			t.Errorf("%s: %+v", label, got)
		}
	}
	if got := reportIn(t, do(t, bob, "get_status", with(ask, args{"id": hers.ID}))); got.State != StateBadArgs {
		t.Errorf("by both, which contradict each other for him: %+v", got)
	}
	nobody := s.connect(nil) // in memory there is no token
	if got := reportIn(t, do(t, nobody, "get_status", ask)); got.State != StateNoCaller {
		t.Errorf("nobody: %+v", got)
	}
}

// TestGet_S02_RecordsOfTheFullForm are shown as the tool gave them.
func TestGet_S02_RecordsOfTheFullForm(t *testing.T) {
	t.Parallel()
	s := newShop(t, nil)
	s.add(nil, s.store)
	image := &mcp.ImageContent{Data: []byte("pixels"), MIMEType: "image/png"}
	for name, r := range map[string]*mcp.CallToolResult{
		"texts":      {Content: []mcp.Content{&mcp.TextContent{Text: "a < b"}, &mcp.TextContent{Text: "c"}}},
		"structured": {Content: []mcp.Content{&mcp.TextContent{Text: "a"}}, StructuredContent: json.RawMessage(`{"n":9007199254740993}`)},
		"picture":    {Content: []mcp.Content{image}},
		"handle":     {Content: []mcp.Content{}, StructuredContent: ticket{JobID: jobID(1).String(), Kind: "build_report", State: toolcall.StateQueued}},
	} {
		mcpidem.AddToolRaw(s.idem, &mcp.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)}, nil,
			func(context.Context, pgx.Tx, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return r, nil })
	}
	session := s.connect(nil)
	for name, want := range map[string]struct {
		result, says string
		blocks       int
	}{
		"texts":      {`{"content":[{"type":"text","text":"a < b"},{"type":"text","text":"c"}]}`, "Its answer stands in result", 1},
		"structured": {`{"n":9007199254740993}`, "Its answer stands in result", 1},
		"picture":    {"", "stands in the content behind this", 2},
		"handle":     {`{"job_id":"` + jobID(1).String() + `","kind":"build_report","state":"queued","next":""}`, jobID(1).String(), 1},
	} {
		do(t, session, name, args{"idempotency_key": "k"})
		r := do(t, session, "get_status", args{"tool": name, "idempotency_key": "k"})
		got := reportIn(t, r)
		if string(got.Result) != want.result || !strings.Contains(got.Next, want.says) || len(r.Content) != want.blocks {
			t.Errorf("%s: %s, %s, %d blocks", name, got.Result, got.Next, len(r.Content))
		}
		if want.blocks > 1 && len(r.Content) > 1 && !cmp.Equal(r.Content[1], mcp.Content(image)) {
			t.Errorf("%s: %s", name, cmp.Diff(mcp.Content(image), r.Content[1]))
		}
	}
}

// TestHandle_S06_IsWhatJobsSubmitted, and not each object that has an id of some job.
func TestHandle_S06_IsWhatJobsSubmitted(t *testing.T) {
	t.Parallel()
	raw, err := json.Marshal(jobs.Handle{JobID: jobID(1).String(), Kind: "build_report", State: toolcall.StateQueued, Next: "Wait."})
	if err != nil {
		t.Fatal(err)
	}
	if id, ok := handleIn(raw); !ok || id != jobID(1) {
		t.Errorf("%s is %v, %v", raw, id, ok)
	}
	for _, other := range []string{
		``, `null`, `[]`, `{}`, `"job_id"`, `{"job_id":"7","kind":"k","state":"queued"}`, `{"job_id":7,"kind":"k","state":"queued"}`,
		`{"job_id":"` + jobID(1).String() + `","kind":"k","state":"succeeded"}`, `{"job_id":"` + jobID(1).String() + `","state":"queued"}`,
		`{"jobs":[{"job_id":"` + jobID(1).String() + `","kind":"k","state":"queued"}]}`,
	} {
		if id, ok := handleIn([]byte(other)); ok {
			t.Errorf("%s is the handle of %v", other, id)
		}
	}
}
