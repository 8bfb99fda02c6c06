package statustool

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/internal/dbtest"
	"github.com/txonce/txonce/toolcall"
)

// message is an answer over the wire.
type message struct {
	JSONRPC string         `json:"jsonrpc"`
	Result  map[string]any `json:"result"`
	Error   map[string]any `json:"error"`
}

func (w *wire) ask(method, members string) message {
	w.t.Helper()
	var m message
	if err := json.Unmarshal([]byte(w.send("", method, members, declaring)), &m); err != nil {
		w.t.Fatal(err)
	}
	return m
}

// members are the names of what is in a task, but for what the SDK adds.
func members(m map[string]any) string {
	names := maps.Clone(m)
	delete(names, "_meta")
	return strings.Join(slices.Sorted(maps.Keys(names)), " ")
}

// request calls the tool that submits jobs.
func request(label string) string {
	return `"name":"request_report","arguments":{"order":"` + label + `","idempotency_key":"` + label + `"}`
}

const working = "createdAt lastUpdatedAt pollIntervalMs resultType status statusMessage taskId ttlMs"

// TestTasks_S06_OfARealRunnerOverStatelessHTTP: create, get and cancel from the rows that get_status tells of.
func TestTasks_S06_OfARealRunnerOverStatelessHTTP(t *testing.T) {
	t.Parallel()
	f := newFirm(t, dbtest.Pool(t, nil), Config{Tasks: true}, true)
	w := f.shop(t).wire()
	asking := f.shop(t).connect(nil)
	created := w.ask("tools/call", request(orderHold)).Result
	if created["resultType"] != "task" || members(created) != working || created["ttlMs"] != nil || created["status"] != "working" || created["pollIntervalMs"] != 1000.0 {
		t.Errorf("created: %v", created)
	}
	id := created["taskId"].(string)
	until(t, asking, args{"id": id}, toolcall.StateRunning)
	again := w.ask("tools/call", request(orderHold)).Result
	if again["taskId"] != id || again["createdAt"] != created["createdAt"] || again["resultType"] != "task" || members(again) != working {
		t.Errorf("the same call again: %v", again)
	}
	get := func(id string) map[string]any {
		t.Helper()
		return w.ask("tasks/get", `"taskId":"`+id+`"`).Result
	}
	eventually(t, "it reports", func() bool { return get(id)["statusMessage"] == "50 %: half" })
	if got := get(id); got["resultType"] != "complete" || members(got) != working {
		t.Errorf("it runs: %v", got)
	}
	close(f.goOn)
	until(t, asking, args{"id": id}, toolcall.StateSucceeded)
	got := get(id)
	result, _ := got["result"].(map[string]any)
	if got["status"] != "completed" || got["createdAt"] != created["createdAt"] || result["isError"] != false || !cmp.Equal(result["structuredContent"], any(map[string]any{"pages": 12.0})) {
		t.Errorf("it is done: %v", got)
	}
	if behind := w.ask("tools/call", request(orderHold)).Result; behind["taskId"] != id || behind["status"] != "completed" || f.effects(t, orderHold) != 1 {
		t.Errorf("the same call again, behind its end: %v, %d effects", behind, f.effects(t, orderHold))
	}
	w.failsAndIsCancelled(asking)
}

// failsAndIsCancelled has a job that fails and one that is cancelled, twice.
func (w *wire) failsAndIsCancelled(asking *mcp.ClientSession) {
	t := w.t
	t.Helper()
	id := w.ask("tools/call", request(orderClosed)).Result["taskId"].(string)
	until(t, asking, args{"id": id}, toolcall.StateFailed)
	got := w.ask("tasks/get", `"taskId":"`+id+`"`).Result
	if result, _ := got["result"].(map[string]any); got["status"] != "completed" || result["isError"] != true {
		t.Errorf("it failed: %v", got)
	}
	id = w.ask("tools/call", request(orderLater)).Result["taskId"].(string)
	for range 2 {
		if ack := w.ask("tasks/cancel", `"taskId":"`+id+`"`); ack.Error != nil || members(ack.Result) != "resultType" || ack.Result["resultType"] != "complete" {
			t.Errorf("cancelled: %+v", ack)
		}
		if got := w.ask("tasks/get", `"taskId":"`+id+`"`).Result; got["status"] != "cancelled" || got["result"] != nil || members(got) != "createdAt lastUpdatedAt resultType status statusMessage taskId ttlMs" {
			t.Errorf("cancelled: %v", got)
		}
	}
	if got := w.ask("tools/call", request(orderLater)).Result; got["taskId"] != id || got["status"] != "cancelled" {
		t.Errorf("the same call again: %v", got)
	}
	if unknown := w.ask("tasks/get", taskParam(jobID(9))); unknown.Error["code"] != -32602.0 {
		t.Errorf("of nobody: %+v", unknown)
	}
}
