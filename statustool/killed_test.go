package statustool

import (
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/internal/dbtest"
	"github.com/txonce/txonce/toolcall"
)

// until asks until it is so.
func until(t *testing.T, session *mcp.ClientSession, ask args, state toolcall.State) Report {
	t.Helper()
	for range 100_000 { // what happens in another process gives no signal here
		if got := reportIn(t, do(t, session, "get_status", ask)); got.State == state {
			return got
		}
	}
	t.Fatalf("never %s: %v", state, ask)
	return Report{}
}

// killedIn calls a tool of a process that does not answer, kills it by -9 once another process sees the state, and returns what
// that then says of the call.
func killedIn(t *testing.T, p process, asking *mcp.ClientSession, tool, label string, at toolcall.State) Report {
	t.Helper()
	session, cmd := p.connect(t)
	var over sync.WaitGroup
	over.Go(func() {
		r, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args{"order": label, "idempotency_key": label}})
		if err == nil {
			t.Errorf("%s was answered: %+v", label, r)
		}
	})
	ask := args{"tool": tool, "idempotency_key": label}
	until(t, asking, ask, at)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	over.Wait()
	// What the backend of a killed process holds goes when it notices. Until then the call runs, and the question waits.
	return reportIn(t, do(t, asking, "get_status", with(ask, args{"wait_seconds": 25})))
}

// TestGet_S02_ServerKilledBetweenCommitAndReply: another process tells what became of the call, and of the job that it submitted.
func TestGet_S02_ServerKilledBetweenCommitAndReply(t *testing.T) {
	t.Parallel()
	url := dbtest.URL(t)
	f := newFirm(t, dbtest.PoolAt(t, url, nil), Config{}, true)
	asking := f.shop(t).connect(nil)
	got := killedIn(t, process{URL: url, Mute: true}, asking, "issue_refund", "A", toolcall.StateSucceeded)
	if got.State != toolcall.StateSucceeded || string(got.Result) != `{"refund":"R-A"}` || f.effects(t, "A") != 1 {
		t.Errorf("%+v, %d effects", got, f.effects(t, "A"))
	}
	got = obey(t, asking, do(t, asking, "get_status", args{"id": got.ID}))
	if got.State != toolcall.StateSucceeded {
		t.Errorf("%+v", got)
	}
	killedIn(t, process{URL: url, Mute: true}, asking, "request_report", "B", toolcall.StateSucceeded)
	got = obey(t, asking, do(t, asking, "get_status", args{"tool": "request_report", "idempotency_key": "B"}))
	if got.State != toolcall.StateSucceeded || got.Tool != "build_report" || f.effects(t, "B") != 1 {
		t.Errorf("%+v, %d effects", got, f.effects(t, "B"))
	}
}

// TestGet_S02_ServerKilledInItsHandler: nothing is left of the call, and the same call, made again as the answer says, is done once.
func TestGet_S02_ServerKilledInItsHandler(t *testing.T) {
	t.Parallel()
	url := dbtest.URL(t)
	f := newFirm(t, dbtest.PoolAt(t, url, nil), Config{}, false)
	asking := f.shop(t).connect(nil)
	got := killedIn(t, process{URL: url, Mute: true}, asking, "issue_refund", "hold A", toolcall.StateRunning)
	if got.State != toolcall.StateNone || f.effects(t, "hold A") != 0 {
		t.Fatalf("%+v, %d effects", got, f.effects(t, "hold A"))
	}
	close(f.goOn)
	if r := do(t, asking, "issue_refund", args{"order": "hold A", "idempotency_key": "hold A"}); r.IsError || f.effects(t, "hold A") != 1 {
		t.Errorf("%+v, %d effects", r, f.effects(t, "hold A"))
	}
}

// TestGet_S02_WorkerKilledInItsJob: the job is told of as one that goes on, never as one that is not there, and ends once.
func TestGet_S02_WorkerKilledInItsJob(t *testing.T) {
	t.Parallel()
	url := dbtest.URL(t)
	f := newFirm(t, dbtest.PoolAt(t, url, nil), Config{}, false)
	session, cmd := process{URL: url, Works: true}.connect(t)
	handle := do(t, session, "request_report", args{"order": "hold A", "idempotency_key": "k"}).StructuredContent.(map[string]any)
	asking := f.shop(t).connect(nil)
	ask := args{"id": handle["job_id"]}
	until(t, asking, ask, toolcall.StateRunning)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if got := reportIn(t, do(t, asking, "get_status", ask)); got.State != toolcall.StateRunning && got.State != toolcall.StateQueued {
		t.Errorf("behind the kill: %+v", got)
	}
	(&office{t: t, runner: f.runner}).start()
	close(f.goOn)
	got := obey(t, asking, do(t, asking, "get_status", ask))
	if got.State != toolcall.StateSucceeded || got.Attempts != 2 || f.effects(t, "hold A") != 1 {
		t.Errorf("%+v, %d effects", got, f.effects(t, "hold A"))
	}
}
