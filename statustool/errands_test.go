package statustool

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/internal/dbtest"
	"github.com/txonce/txonce/toolcall"
)

// agent has errands done by a server that fails all the time. It knows nothing but what answers say, and that one whose answer was lost is
// to be asked for.
type agent struct {
	t       *testing.T
	server  process
	session *mcp.ClientSession
	calls   int // of tools
	lives   int // of servers
}

// call calls a tool once. The answer is nil if it was lost.
func (a *agent) call(tool string, with any) *mcp.CallToolResult {
	a.calls++
	if a.session == nil {
		a.lives++
		a.server.Fault += 1000
		a.session, _ = a.server.connect(a.t)
	}
	r, err := a.session.CallTool(a.t.Context(), &mcp.CallToolParams{Name: tool, Arguments: with})
	if err == nil {
		return r
	}
	if !strings.Contains(err.Error(), errLost.Error()) { // it has died
		_ = a.session.Close()
		a.session = nil
	}
	return nil
}

// said is what the answers have in common.
type said struct {
	State      toolcall.State  `json:"state"`
	Next       string          `json:"next"`
	Message    string          `json:"message"` // of a refusal
	RetryAfter int             `json:"retry_after_seconds"`
	Repeat     bool            `json:"repeat_same_call"`
	JobID      string          `json:"job_id"`
	Result     json.RawMessage `json:"result"`
}

var (
	callThis  = regexp.MustCompile(`call (\w+) with (\{.*?\})`)
	callAgain = regexp.MustCompile(`(?i)(make|repeat) exactly the same call`)
)

// errand does one, and returns the last that was said of it.
func (a *agent) errand(tool string, with args) said {
	a.t.Helper()
	next, given := tool, any(with)
	for range 1000 {
		r := a.call(next, given)
		if r == nil {
			if next == tool {
				next, given = "get_status", args{"tool": tool, "idempotency_key": with["idempotency_key"]}
			}
			continue // a question is asked again
		}
		var s said
		if err := json.Unmarshal(mustMarshal(a.t, r.StructuredContent), &s); err != nil {
			a.t.Fatal(err)
		}
		words := s.Next + s.Message
		switch order := callThis.FindStringSubmatch(words); {
		case order != nil:
			next, given = order[1], json.RawMessage(order[2])
		case next == tool && s.JobID != "":
			next, given = "get_status", json.RawMessage(`{"id":"`+s.JobID+`","wait_seconds":25}`)
		case s.Repeat, callAgain.MatchString(words):
			next, given = tool, with
		default:
			return s
		}
		if s.RetryAfter > 0 && !strings.Contains(words, "wait_seconds") { // which waits in the question
			<-time.After(time.Duration(s.RetryAfter) * 10 * time.Millisecond) // a hundred times as fast as it says
		}
	}
	a.t.Errorf("%v: the answers lead in a circle", with)
	return said{}
}

// TestGet_S04_ErrandsOfAnAgentAmongFaults: calls and answers are lost, and servers die in front of commits and behind them. Each errand ends
// known, and has had its effect once, or not at all where it failed.
func TestGet_S04_ErrandsOfAnAgentAmongFaults(t *testing.T) {
	t.Parallel()
	const agents = 4
	n := 200
	if testing.Short() {
		n = 50
	}
	url := dbtest.URL(t)
	f := newFirm(t, dbtest.PoolAt(t, url, func(cfg *pgxpool.Config) { cfg.MaxConns = 10 }), Config{}, true)
	var calls, lives atomic.Int64
	var all sync.WaitGroup
	for i := range agents {
		all.Go(func() {
			a := &agent{t: t, server: process{URL: url, Fault: uint64(i + 1)}}
			for k := i; k < n; k += agents {
				label := fmt.Sprintf("errand %d", k)
				tool := []string{"issue_refund", "request_report"}[k/agents%2]
				want, effects := toolcall.StateSucceeded, 1
				if k%10 == 9 {
					label, want, effects = orderClosed+label, toolcall.StateFailed, 0
				}
				got := a.errand(tool, args{"order": label, "idempotency_key": label})
				answered := tool == "issue_refund" && got.State == "" // by the tool itself
				if got.State != want && !answered || f.effects(t, label) != effects {
					t.Errorf("%s of %s: %+v, and %d effects", tool, label, got, f.effects(t, label))
				}
			}
			calls.Add(int64(a.calls))
			lives.Add(int64(a.lives))
		})
	}
	all.Wait()
	var effects int
	if err := f.pool.QueryRow(t.Context(), `select count(*)::int from effect`).Scan(&effects); err != nil || effects != n-n/10 {
		t.Errorf("%d effects of %d errands, %v", effects, n, err)
	}
	t.Logf("%d errands in %d calls of tools, by %d lives of servers", n, calls.Load(), lives.Load())
}
