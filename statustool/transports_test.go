package statustool

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/internal/dbtest"
	"github.com/txonce/txonce/toolcall"
)

// told is a call or a job and what is to be said of it.
type told struct {
	id    string
	state toolcall.State
}

// cast brings calls and jobs into states, and knows them by a name for it.
type cast struct {
	t       *testing.T
	session *mcp.ClientSession
	all     map[string]told
}

func (c *cast) add(label, id string, state toolcall.State) {
	c.t.Helper()
	until(c.t, c.session, args{"id": id}, state)
	c.all[label] = told{id, state}
}

func (c *cast) call(label, tool, name string, state toolcall.State) string {
	c.t.Helper()
	do(c.t, c.session, tool, args{"order": name, "idempotency_key": label})
	id := callID(tool, label).String()
	c.add(label, id, state)
	return id
}

func (c *cast) job(label, name string, state toolcall.State) string {
	c.t.Helper()
	h := do(c.t, c.session, "request_report", args{"order": name, "idempotency_key": label}).StructuredContent.(map[string]any)
	id := h["job_id"].(string)
	c.add(label, id, state)
	return id
}

// hold begins a call that waits until the test ends.
func (c *cast) hold(f *firm) {
	over := make(chan struct{})
	go func() {
		defer close(over)
		_, _ = c.session.CallTool(c.t.Context(), &mcp.CallToolParams{Name: "issue_refund", Arguments: args{"order": orderHold, "idempotency_key": "hold"}})
	}()
	c.t.Cleanup(func() { close(f.goOn); <-over })
}

// become brings calls and jobs into each state that they can have.
func become(t *testing.T, f *firm) map[string]told {
	t.Helper()
	c := &cast{t: t, session: f.shop(t).connect(nil), all: make(map[string]told)}
	c.hold(f)
	c.add("a call that runs", callID("issue_refund", "hold").String(), toolcall.StateRunning)
	c.add("no call", callID("issue_refund", "never").String(), toolcall.StateNone)
	c.call("a call that was done", "issue_refund", "A", toolcall.StateSucceeded)
	c.call("a call that failed", "issue_refund", orderClosed, toolcall.StateFailed)
	c.call("a call that was cut off", "charge_card", orderCut, toolcall.StateUnknown)
	c.call("a call that submitted a job", "request_report", orderLater, toolcall.StateSucceeded)
	old := c.call("a call that has expired", "issue_refund", "B", toolcall.StateSucceeded)
	if _, err := f.pool.Exec(t.Context(), `update txonce.call set expires_at = now() - interval '1 s' where id = $1::text::uuid`, old); err != nil {
		t.Fatal(err)
	}
	c.add("a call that has expired", old, toolcall.StateExpired)
	c.add("no job", jobID(1).String(), toolcall.StateNone)
	c.job("a job that waits", orderLater, toolcall.StateQueued)
	runs := c.job("a job that runs", orderHold, toolcall.StateRunning)
	for got := (Report{}); got.Progress == nil; { // else it may report in the middle of the test
		got = until(t, c.session, args{"id": runs}, toolcall.StateRunning)
	}
	c.job("a job that is done", "C", toolcall.StateSucceeded)
	c.job("a job that failed", orderClosed, toolcall.StateFailed)
	again := c.job("a job that is tried again", orderAgain, toolcall.StateQueued)
	for got := (Report{}); got.State != toolcall.StateQueued || got.Attempts != 1; {
		got = until(t, c.session, args{"id": again}, toolcall.StateQueued)
	}
	cancelled := c.job("a job that was cancelled", orderLater+" not", toolcall.StateQueued)
	do(t, c.session, "cancel_job", args{"id": cancelled})
	c.add("a job that was cancelled", cancelled, toolcall.StateCancelled)
	return c.all
}

// TestGet_S02_S08_RealStatesOverEachTransport: a real store and runner, each state, and one report whatever lies between.
func TestGet_S02_S08_RealStatesOverEachTransport(t *testing.T) {
	t.Parallel()
	url := dbtest.URL(t)
	f := newFirm(t, dbtest.PoolAt(t, url, nil), Config{}, true)
	all := become(t, f)
	h, err := Handler(&HandlerConfig{Scope: func(*http.Request) (string, error) { return scope, nil }}, f.store, f.runner)
	if err != nil {
		t.Fatal(err)
	}
	s := f.shop(t)
	overStdio, _ := process{URL: url}.connect(t)
	sessions := map[string]*mcp.ClientSession{
		"in memory": s.connect(nil), "stdio": overStdio, "stateless HTTP": s.overHTTP(nil), "stateful HTTP": s.overStateful(),
	}
	for label, c := range all {
		want := plain(t, f, c.id)
		if want["state"] != string(c.state) || len(all) != 14 {
			t.Errorf("%s: %v, in %d cases", label, want, len(all))
		}
		for over, session := range sessions {
			r := do(t, session, "get_status", args{"id": c.id})
			reportIn(t, r) // the text says the same
			if diff := cmp.Diff(want, r.StructuredContent); diff != "" {
				t.Errorf("%s, %s (-want +got):\n%s", over, label, diff)
			}
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/status/"+c.id, nil))
		var got map[string]any
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Error(err)
		}
		if got["next"] == "" || (w.Code == http.StatusNotFound) != (c.state == toolcall.StateNone) {
			t.Errorf("%s: %d, %s", label, w.Code, w.Body)
		}
		got["next"] = want["next"] // it asks over HTTP
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("plain HTTP, %s (-want +got):\n%s", label, diff)
		}
	}
}

// plain is the report that a tool makes of what the store and the runner say themselves.
func plain(t *testing.T, f *firm, text string) map[string]any {
	t.Helper()
	id, err := toolcall.ParseID(text)
	if err != nil {
		t.Fatal(err)
	}
	var source toolcall.Source = f.store
	if isJob(id) {
		source = f.runner
	}
	ask := toolcall.Ask{Scope: scope, ID: id}
	statuses, err := source.Statuses(t.Context(), []toolcall.Ask{ask})
	if err != nil {
		t.Fatal(err)
	}
	about := &tool{host: f.idem, words: wordsOfTool("get_status", defaultWait)}
	r, _, err := about.report(t.Context(), ask, statuses[0])
	if err != nil {
		t.Fatal(err)
	}
	raw, err := marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(raw, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// overStateful opens a session over Streamable HTTP that the server remembers.
func (s *shop) overStateful() *mcp.ClientSession {
	s.t.Helper()
	server := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s.server }, nil))
	s.t.Cleanup(server.Close)
	client := &http.Client{Transport: &http.Transport{}}
	s.t.Cleanup(client.CloseIdleConnections)
	session, err := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, nil).
		Connect(s.t.Context(), &mcp.StreamableClientTransport{Endpoint: server.URL, HTTPClient: client, DisableStandaloneSSE: true}, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = session.Close() })
	return session
}
