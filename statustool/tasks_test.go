package statustool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/toolcall"
	"github.com/txonce/txonce/txidem/mcpidem"
)

// wire is a client that writes what goes over the wire itself, over stateless HTTP.
type wire struct {
	t   *testing.T
	url string
	log strings.Builder
}

func (s *shop) wire() *wire {
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s.server }, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
	server := httptest.NewServer(handler)
	s.t.Cleanup(server.Close)
	return &wire{t: s.t, url: server.URL}
}

const (
	declaring = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	silent    = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}`
)

// finishedAt is another time in each run.
var finishedAt = regexp.MustCompile(`"dev.txonce/finished-at":"[^"]*"`)

// send sends a request whose params have the members and the _meta, and returns the answer.
func (w *wire) send(label, method, members, meta string, header ...string) string {
	w.t.Helper()
	params := strings.Trim(members+`,"_meta":{`+meta+`}`, ",")
	body := `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params + `}}`
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, w.url, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Mcp-Method": {method}}
	if version := regexp.MustCompile(`Version":"([^"]*)"`).FindStringSubmatch(meta); version != nil {
		req.Header.Set("Mcp-Protocol-Version", version[1])
	} else {
		req.Header.Set("Mcp-Protocol-Version", legacy)
	}
	var named struct{ Name, TaskID any }
	if err := json.Unmarshal([]byte("{"+params+"}"), &named); err != nil {
		w.t.Fatal(err)
	}
	if name := or(named.Name, named.TaskID); name != nil {
		req.Header.Set("Mcp-Name", fmt.Sprint(name))
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	said := finishedAt.ReplaceAllString(strings.TrimSpace(string(answer)), `"dev.txonce/finished-at":"…"`)
	fmt.Fprintf(&w.log, "## %s\n> %s\n< %d %s\n\n", label, body, resp.StatusCode, said)
	return said
}

func taskParam(id toolcall.ID) string { return `"taskId":"` + id.String() + `"` }

const (
	report = `"name":"request_report","arguments":{"order":"A","idempotency_key":"k"}`
	refund = `"name":"issue_refund","arguments":{"order":"%s","idempotency_key":"k-%[1]s"}`
)

// TestTasks_S06_WhatGoesOverTheWire is frozen in testdata/tasks.golden. The messages are those of the extension's specification.
func TestTasks_S06_WhatGoesOverTheWire(t *testing.T) {
	t.Parallel()
	f, c := newFake(), &canceller{}
	stopping := job(toolcall.StateRunning)
	stopping.Job.CancelRequested = true
	c.does = ends(stopping)(f)
	s := newShop(t, nil).add(&Config{Tasks: true, Canceller: c}, f)
	w := s.wire()
	w.send("the server says that it speaks the extension", "server/discover", "", silent)
	f.set(scope, job(toolcall.StateQueued))
	w.send("a client that does not declare it gets the handle", "tools/call", report, silent)
	created := w.send("a client that does gets a task", "tools/call", report, declaring)
	f.set(scope, job(toolcall.StateRunning))
	again := w.send("the same call again: the same task", "tools/call", report, declaring)
	if id := taskParam(jobID(1)); !strings.Contains(created, id) || !strings.Contains(again, id) {
		t.Errorf("%s\n%s", created, again)
	}
	w.send("an answer that is no handle stays as it is", "tools/call", fmt.Sprintf(refund, "A"), declaring)
	w.send("and so does an error", "tools/call", fmt.Sprintf(refund, ""), declaring)
	for _, c := range cases() {
		if c.status.Job != nil {
			f.set(scope, c.status)
			w.send("tasks/get: "+c.label, "tasks/get", taskParam(jobID(1)), declaring)
		}
	}
	f.set(scope, job(toolcall.StateQueued))
	w.send("tasks/update: no job asks for input", "tasks/update", taskParam(jobID(1))+`,"inputResponses":{"name":{"action":"accept"}}`, declaring)
	w.send("tasks/cancel", "tasks/cancel", taskParam(jobID(1)), declaring)
	w.send("tasks/cancel, twice", "tasks/cancel", taskParam(jobID(1)), declaring)
	f.set(scope, job(toolcall.StateSucceeded))
	w.send("tasks/cancel, behind the end", "tasks/cancel", taskParam(jobID(1)), declaring)
	if len(c.asked) != 2 {
		t.Errorf("cancelled %v", c.asked)
	}
	golden(t, "tasks.golden", w.log.String())
}

// TestTasks_S06_Refusals have the codes that the extension wants. testdata/tasks_refused.golden has them.
func TestTasks_S06_Refusals(t *testing.T) {
	t.Parallel()
	f, c := newFake(), &canceller{}
	f.set(scope, call(toolcall.StateRunning))
	f.set("bob", job(toolcall.StateRunning))
	who := func(_ context.Context, req *mcp.CallToolRequest) (string, error) {
		switch req.Extra.Header.Get("Caller") {
		case "":
			return scope, nil
		case "panics":
			panic("secret")
		}
		return "", errors.New("secret")
	}
	s := newShop(t, who).add(&Config{Tasks: true, Canceller: c}, f)
	w := s.wire()
	for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
		unknown := w.send(method+": another caller's", method, taskParam(jobID(1)), declaring)
		f.change(func() { delete(f.is, toolcall.Ask{Scope: "bob", ID: jobID(1)}) })
		if foreign := w.send(method+": unknown", method, taskParam(jobID(1)), declaring); foreign != unknown {
			t.Errorf("%s\n%s", foreign, unknown)
		}
		f.set("bob", job(toolcall.StateRunning))
		w.send(method+": a call", method, taskParam(callID("issue_refund", "k")), declaring)
		w.send(method+": no id", method, `"taskId":"7"`, declaring)
		w.send(method+": no id at all", method, "", declaring)
		w.send(method+": a number", method, `"taskId":7`, declaring)
		w.send(method+": a client that does not declare it", method, taskParam(jobID(1)), silent)
		w.send(method+": another revision", method, taskParam(jobID(1)), strings.Replace(declaring, modern, legacy, 1))
		w.send(method+": another name in the header", method, taskParam(jobID(1)), declaring, "Mcp-Name", jobID(2).String())
		w.send(method+": no caller", method, taskParam(jobID(1)), declaring, "Caller", "nobody")
		w.send(method+": a panic", method, taskParam(jobID(1)), declaring, "Caller", "panics")
	}
	for _, method := range []string{"tasks/list", "tasks/result"} { // of an earlier draft
		w.send(method, method, taskParam(jobID(1)), declaring)
	}
	f.set(scope, broken())
	w.send("a result that cannot be read", "tasks/get", taskParam(jobID(1)), declaring)
	f.change(func() { f.down = true })
	w.send("no database", "tasks/get", taskParam(jobID(1)), declaring)
	w.send("no database, behind the commit: the handle", "tools/call", report, declaring)
	if text := w.log.String(); strings.Contains(text, "secret") || len(c.asked) > 0 {
		t.Errorf("a client reads what it should not, or cancelled %v", c.asked)
	}
	golden(t, "tasks_refused.golden", w.log.String())
}

// TestTasks_S06_OnlyWhereTheyAreTurnedOn: a client that declares what it does not handle sees nothing new.
func TestTasks_S06_OnlyWhereTheyAreTurnedOn(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.set(scope, job(toolcall.StateQueued))
	w := newShop(t, nil).add(nil, f).wire()
	if said := w.send("", "server/discover", "", declaring); strings.Contains(said, extension) {
		t.Error(said)
	}
	if said := w.send("", "tools/call", report, declaring); strings.Contains(said, `"task"`) || !strings.Contains(said, `"job_id"`) {
		t.Error(said)
	}
	if said := w.send("", "tasks/get", taskParam(jobID(1)), declaring); !strings.Contains(said, "-32601") {
		t.Error(said)
	}
}

// TestTasks_S06_HandleThatLeadsNowhereStays, and one of a tool that is not protected does too.
func TestTasks_S06_HandleThatLeadsNowhereStays(t *testing.T) {
	t.Parallel()
	f := newFake()
	s := newShop(t, nil).add(&Config{Tasks: true}, f)
	mcp.AddTool(s.server, &mcp.Tool{Name: "bare"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, ticket, error) {
		return nil, ticket{JobID: jobID(1).String(), Kind: "build_report", State: toolcall.StateQueued}, nil
	})
	w := s.wire()
	if said := w.send("", "tools/call", report, declaring); !strings.Contains(said, `"job_id"`) || strings.Contains(said, `"taskId"`) {
		t.Errorf("there is no such job: %s", said)
	}
	f.set(scope, job(toolcall.StateQueued))
	if said := w.send("", "tools/call", `"name":"bare","arguments":{}`, declaring); !strings.Contains(said, `"job_id"`) || strings.Contains(said, `"taskId"`) {
		t.Errorf("the tool is not protected: %s", said)
	}
	if said := w.send("", "tasks/cancel", taskParam(jobID(1)), declaring); !strings.Contains(said, `"complete"`) {
		t.Errorf("nobody cancels jobs here, and it is acknowledged all the same: %s", said)
	}
}

// TestTasks_S06_WhatTheSessionSaidDoesNotCount: each request declares the extension, or does not.
func TestTasks_S06_WhatTheSessionSaidDoesNotCount(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.set(scope, job(toolcall.StateQueued))
	s := newShop(t, nil).add(&Config{Tasks: true}, f)
	here, there := mcp.NewInMemoryTransports()
	serving, err := s.server.Connect(t.Context(), there, nil)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := here.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ask := func(id, method, params, meta string) string {
		msg, err := jsonrpc.DecodeMessage([]byte(`{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":{` + params + `,"_meta":{` + meta + `}}}`))
		if err == nil {
			err = conn.Write(t.Context(), msg)
		}
		if err != nil {
			t.Fatal(err)
		}
		answer, err := conn.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		raw, err := jsonrpc.EncodeMessage(answer)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	if said := ask("1", "tools/call", report, declaring); !strings.Contains(said, `"taskId"`) {
		t.Errorf("declared: %s", said)
	}
	if said := ask("2", "tools/call", report, ""); strings.Contains(said, `"taskId"`) || !strings.Contains(said, `"job_id"`) {
		t.Errorf("declared before: %s", said)
	}
	if said := ask("3", "tasks/get", taskParam(jobID(1)), ""); !strings.Contains(said, "-32021") {
		t.Errorf("declared before: %s", said)
	}
	if err := errors.Join(conn.Close(), serving.Wait()); err != nil {
		t.Error(err)
	}
}

// TestTasks_S06_GoClientFollowsOne to the end, with the SDK's own means.
func TestTasks_S06_GoClientFollowsOne(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.set(scope, job(toolcall.StateQueued))
	s := newShop(t, mcpidem.ScopeIs(scope)).add(&Config{Tasks: true}, f)
	client := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{Extensions: map[string]any{extension: map[string]any{}}},
	})
	if err := mcp.AddSendingCustomMethod[*taskParams, *task](client, methodGet); err != nil {
		t.Fatal(err)
	}
	here, there := mcp.NewInMemoryTransports()
	serving, err := s.server.Connect(t.Context(), there, nil)
	if err != nil {
		t.Fatal(err)
	}
	session, err := client.Connect(t.Context(), here, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r := do(t, session, "request_report", args{"order": "A"}); r.StructuredContent != nil || len(r.Content) != 0 {
		t.Errorf("the SDK's client reads tasks by now; say so in the documentation of Config.Tasks: %+v", r)
	}
	for _, want := range []toolcall.State{toolcall.StateQueued, toolcall.StateRunning, toolcall.StateSucceeded} {
		f.set(scope, job(want))
		got, err := mcp.CallCustomMethod[*taskParams, *task](t.Context(), session, methodGet, &taskParams{TaskID: jobID(1).String()})
		if err != nil {
			t.Fatal(err)
		}
		ended := want == toolcall.StateSucceeded
		if (got.Status == "completed") != ended || (got.Result != nil) != ended || got.CreatedAt != noon {
			t.Errorf("%s: %+v", want, got)
		}
		if last := map[bool]time.Time{false: noon.Add(time.Second), true: noon.Add(time.Minute)}[ended]; want != toolcall.StateQueued && !cmp.Equal(got.LastUpdatedAt, last) {
			t.Errorf("%s: updated %v, want %v", want, got.LastUpdatedAt, last)
		}
	}
	if err := errors.Join(session.Close(), serving.Wait()); err != nil {
		t.Error(err)
	}
}
