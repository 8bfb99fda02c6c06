package statustool

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/toolcall"
	"github.com/txonce/txonce/txidem"
	"github.com/txonce/txonce/txidem/mcpidem"
)

// The protocol's revisions that matter: with a handshake, and without.
const (
	legacy = "2025-11-25"
	modern = "2026-07-28"
)

// scope is who asks in most tests.
const scope = "alice"

var noon = time.Date(2026, 7, 28, 12, 0, 0, 0, time.UTC)

// callID and jobID are the ids of a call and of jobs.
func callID(tool, key string) toolcall.ID { return toolcall.NewID(scope, tool, "x:"+key) }

func jobID(n byte) toolcall.ID {
	return toolcall.ID{0: 1, 6: 0x70, 8: 0x80, 15: n}
}

// fake is a source that says what it is told to.
type fake struct {
	toolcall.Changes

	mu    sync.Mutex
	is    map[toolcall.Ask]toolcall.Status
	bad   map[toolcall.ID]bool // cannot be read, and fail the whole question
	down  bool
	calls []int // with how many asks
	peak  int   // of questions under way
	busy  int
	gate  func(asks int) // called while a question is under way
	types map[string]reflect.Type
}

func newFake() *fake {
	return &fake{is: make(map[toolcall.Ask]toolcall.Status), bad: make(map[toolcall.ID]bool)}
}

var errDown = errors.New("no database: secret")

func (f *fake) Statuses(ctx context.Context, asks []toolcall.Ask) ([]toolcall.Status, error) {
	f.mu.Lock()
	f.calls = append(f.calls, len(asks))
	f.busy++
	f.peak = max(f.peak, f.busy)
	gate := f.gate
	f.mu.Unlock()
	if gate != nil {
		gate(len(asks))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.busy--
	if f.down {
		return nil, errDown
	}
	statuses := make([]toolcall.Status, len(asks))
	for i, ask := range asks {
		if f.bad[ask.ID] {
			return nil, errors.New("a record that cannot be read: secret")
		}
		statuses[i] = toolcall.Status{ID: ask.ID, State: toolcall.StateNone}
		if s, ok := f.is[ask]; ok {
			statuses[i] = s
		}
	}
	return statuses, ctx.Err()
}

func (f *fake) Results() map[string]reflect.Type { return f.types }

// set changes what is so, and tells nobody.
func (f *fake) set(who string, s toolcall.Status) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.is[toolcall.Ask{Scope: who, ID: s.ID}] = s
}

func (f *fake) asked() []int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.calls)
}

func (f *fake) change(does func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	does()
}

// call and job are statuses in some state.
func call(state toolcall.State) toolcall.Status {
	s := toolcall.Status{ID: callID("issue_refund", "k"), Tool: "issue_refund", State: state}
	switch state {
	case toolcall.StateSucceeded:
		s.Answer = []byte(`{"refund":"R-1"}`)
	case toolcall.StateFailed:
		s.Failure = &toolcall.Failure{Code: "closed", Message: "the order is closed"}
	case toolcall.StateNone:
		s.Tool = ""
	}
	if ended(state) {
		s.FinishedAt = noon.Add(time.Minute)
	}
	return s
}

func job(state toolcall.State) toolcall.Status {
	s := call(state)
	s.ID, s.Tool, s.Job = jobID(1), "build_report", &toolcall.JobStatus{SubmittedAt: noon, MaxAttempts: 5}
	if state == toolcall.StateSucceeded {
		s.Answer = []byte(`{"pages":9007199254740993}`)
	}
	if state != toolcall.StateQueued {
		s.Job.Attempts, s.Job.StartedAt = 1, noon.Add(time.Second)
	}
	return s
}

func ended(state toolcall.State) bool {
	return slices.Contains([]toolcall.State{toolcall.StateSucceeded, toolcall.StateFailed, toolcall.StateCancelled, toolcall.StateExpired}, state)
}

// shop is a server with tools, whose calls are kept in memory.
type shop struct {
	t      *testing.T
	server *mcp.Server
	idem   *mcpidem.Adapter
	store  *txidem.Store
}

type order struct {
	Order string `json:"order"`
}

type receipt struct {
	Refund string `json:"refund"`
}

// ticket is what jobs.Handle is.
type ticket struct {
	JobID string         `json:"job_id"`
	Kind  string         `json:"kind"`
	State toolcall.State `json:"state"`
	Next  string         `json:"next"`
}

type pages struct {
	Pages int64 `json:"pages"`
}

// newShop has a tool that answers and one that submits a job. who says who calls; versions are those that the server speaks, or all.
func newShop(t *testing.T, who mcpidem.ScopeFunc, versions ...string) *shop {
	t.Helper()
	if who == nil {
		who = mcpidem.ScopeIs(scope)
	}
	store, err := txidem.NewMemory(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &shop{t: t, store: store, server: mcp.NewServer(&mcp.Implementation{Name: "shop", Version: "1"}, &mcp.ServerOptions{SupportedProtocolVersions: versions})}
	if s.idem, err = mcpidem.New(s.server, store, &mcpidem.Config{Scope: who}); err != nil {
		t.Fatal(err)
	}
	mcpidem.AddTool(s.idem, &mcp.Tool{Name: "issue_refund", Description: "Refund an order."}, func(_ context.Context, _ pgx.Tx, in order) (receipt, error) {
		if in.Order == "" {
			return receipt{}, txidem.Fail("no_order", "there is no such order")
		}
		return receipt{Refund: "R-" + in.Order}, nil
	})
	mcpidem.AddTool(s.idem, &mcp.Tool{Name: "request_report", Description: "Have a report built."}, func(context.Context, pgx.Tx, order) (ticket, error) {
		return ticket{JobID: jobID(1).String(), Kind: "build_report", State: toolcall.StateQueued, Next: "Ask for the status."}, nil
	})
	return s
}

// add adds the status tool.
func (s *shop) add(cfg *Config, sources ...toolcall.Source) *shop {
	s.t.Helper()
	if err := Add(s.idem, cfg, sources...); err != nil {
		s.t.Fatal(err)
	}
	return s
}

// connect opens a session in memory.
func (s *shop) connect(opts *mcp.ClientOptions) *mcp.ClientSession {
	s.t.Helper()
	here, there := mcp.NewInMemoryTransports()
	serving, err := s.server.Connect(s.t.Context(), there, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, opts).Connect(s.t.Context(), here, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		err := errors.Join(session.Close(), serving.Wait())
		if err != nil && !errors.Is(err, io.ErrClosedPipe) { // the server may have been writing
			s.t.Error(err)
		}
	})
	return session
}

// do calls a tool.
func do(t *testing.T, session *mcp.ClientSession, tool string, args any) *mcp.CallToolResult {
	t.Helper()
	r, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// reportIn reads the text of an answer. The structured content must say the same, but for digits that the client loses.
func reportIn(t *testing.T, r *mcp.CallToolResult) Report {
	t.Helper()
	var report Report
	var same any
	text := []byte(r.Content[0].(*mcp.TextContent).Text)
	if err := errors.Join(json.Unmarshal(text, &report), json.Unmarshal(text, &same)); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	if diff := cmp.Diff(same, r.StructuredContent); diff != "" {
		t.Errorf("the text and the structured content differ (-text +structured):\n%s", diff)
	}
	if report.refused() != r.IsError {
		t.Errorf("%s is an error: %v", report.State, r.IsError)
	}
	return report
}

// args are arguments.
type args = map[string]any

func with(base args, more args) args {
	all := maps.Clone(base)
	maps.Copy(all, more)
	return all
}
