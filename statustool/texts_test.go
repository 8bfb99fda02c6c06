package statustool

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/toolcall"
)

// TestTexts_S04_WhatAModelReadsIsAContract has the answer about each state, and to each question that is refused.
func TestTexts_S04_WhatAModelReadsIsAContract(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	w := wordsOfTool("get_status", defaultWait)
	say := func(label string, r *Report) {
		raw, err := marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "## %s\n%s\n\n", label, raw)
	}
	for _, c := range cases() {
		r := reportOf(c.status)
		if c.status.State == toolcall.StateSucceeded {
			r.Result = c.status.Answer
		}
		w.write(r, c.status, noon)
		say(c.label, r)
	}
	for _, c := range []toolcall.Status{call(toolcall.StateRunning), call(toolcall.StateNone), {ID: jobID(1), State: toolcall.StateNone}, job(toolcall.StateSucceeded), job(toolcall.StateCancelled)} {
		r := reportOf(c)
		w.write(r, c, noon)
		w.writeCancel(r, c)
		say(fmt.Sprintf("cancel: %s, job %v", c.State, c.Job != nil), r)
	}
	for _, m := range mails() {
		r := m.report()
		if len(r.Messages) > len(messageStates) {
			r.Messages = nil // they would fill the page
		}
		say(m.label, r)
	}
	say("not to be found out", w.unavailable(callID("issue_refund", "k").String()))
	say("nobody knows who asks", noCaller())
	for _, c := range badQuestions() {
		a := &arguments{}
		problem := a.read([]byte(c), []string{argID, argTool, argKey, argWait})
		if problem == "" {
			_, problem = a.ask(scope, []string{"issue_refund", "request_report"}, defaultWait)
		}
		if problem == "" {
			t.Errorf("%s is taken for a question", c)
		}
		say("asked with "+c, badArgs(problem))
	}
	fmt.Fprintf(&b, "## an answer that cannot be read\n%s\n\n## an answer with more than text\n%s\n", noResult, besideText)
	golden(t, "texts.golden", b.String())
}

type state struct {
	label  string
	status toolcall.Status
}

// cases are all that a source may say.
func cases() []state {
	changed := func(s toolcall.Status, change func(*toolcall.Status)) toolcall.Status {
		change(&s)
		return s
	}
	return []state{
		{"no call", call(toolcall.StateNone)},
		{"no job", toolcall.Status{ID: jobID(1), State: toolcall.StateNone}},
		{"a call that runs", call(toolcall.StateRunning)},
		{"a call that was done", call(toolcall.StateSucceeded)},
		{"a call that submitted a job", changed(call(toolcall.StateSucceeded), func(s *toolcall.Status) {
			s.Tool, s.Answer = "request_report", []byte(`{"job_id":"`+jobID(1).String()+`","kind":"build_report","state":"queued","next":"Ask for the status."}`)
		})},
		{"a call that failed", call(toolcall.StateFailed)},
		{"a call that ended its transaction", changed(call(toolcall.StateFailed), func(s *toolcall.Status) {
			s.Failure = &toolcall.Failure{Code: "handler_ended_tx", Message: "the handler ended its transaction"}
		})},
		{"a call that was cut off", call(toolcall.StateUnknown)},
		{"a call that has expired", call(toolcall.StateExpired)},
		{"a job that waits", job(toolcall.StateQueued)},
		{"a job that waits for its time", changed(job(toolcall.StateQueued), func(s *toolcall.Status) { s.Job.NextAttemptAt = noon.Add(30 * time.Second) })},
		{"a job that waits to be tried again", changed(job(toolcall.StateQueued), func(s *toolcall.Status) {
			s.Job.Attempts, s.Job.StartedAt, s.Job.NextAttemptAt = 2, noon, noon.Add(5*time.Minute)
		})},
		{"a job that runs", job(toolcall.StateRunning)},
		{"a job that reports", changed(job(toolcall.StateRunning), func(s *toolcall.Status) {
			s.Job.Progress = &toolcall.Progress{Fraction: 0.25, Message: "page 3 of 12", At: noon.Add(2 * time.Second)}
			s.Job.Deadline = noon.Add(time.Hour)
		})},
		{"a job that was asked to stop", changed(job(toolcall.StateRunning), func(s *toolcall.Status) { s.Job.CancelRequested = true })},
		{"a job that is done", job(toolcall.StateSucceeded)},
		{"a job that failed", job(toolcall.StateFailed)},
		{"a job that was cancelled", job(toolcall.StateCancelled)},
	}
}

func badQuestions() []string {
	id, key := callID("issue_refund", "k").String(), strings.Repeat("k", 256)
	return []string{
		`[]`, `{`, `{}`, `null`, `{"id":null}`,
		`{"id":7}`, `{"id":""}`, `{"id":"7"}`, `{"id":"` + strings.Repeat("a", 100) + `"}`, `{"id":"` + id + `x"}`,
		`{"call_id":"` + id + `"}`, `{"ID":"` + id + `"}`,
		`{"tool":"issue_refund"}`, `{"idempotency_key":"k"}`, `{"id":"` + id + `","idempotency_key":"k"}`,
		`{"tool":"drop_tables","idempotency_key":"k"}`, `{"tool":7,"idempotency_key":"k"}`,
		`{"tool":"issue_refund","idempotency_key":""}`, `{"tool":"issue_refund","idempotency_key":"` + key + `"}`, `{"tool":"issue_refund","idempotency_key":"a\nb"}`,
		`{"id":"` + id + `","tool":"issue_refund","idempotency_key":"other"}`,
		`{"id":"` + id + `","wait_seconds":"10"}`, `{"id":"` + id + `","wait_seconds":1e999}`, `{"id":"` + id + `","wait_seconds":[1]}`,
	}
}

// TestDefinitions_S01_AreFrozen has what a client lists, with each option on.
func TestDefinitions_S01_AreFrozen(t *testing.T) {
	t.Parallel()
	source := newFake()
	source.types = map[string]reflect.Type{"build_report": reflect.TypeFor[pages](), "count": reflect.TypeFor[int](), "odd": reflect.TypeFor[func()]()}
	s := newShop(t, nil).add(&Config{PerTool: true, Canceller: &canceller{}}, source)
	list, err := s.connect(nil).ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var own []*mcp.Tool
	for _, tool := range list.Tools {
		if tool.Name != "issue_refund" && tool.Name != "request_report" {
			own = append(own, tool)
		}
	}
	raw, err := json.MarshalIndent(own, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "tools.golden", string(raw)+"\n")
}

// TestDefinitions_S01_SchemaTakesEachAnswer: a client that checks answers never refuses one.
func TestDefinitions_S01_SchemaTakesEachAnswer(t *testing.T) {
	t.Parallel()
	s := newShop(t, nil)
	kinds := map[string]reflect.Type{"build_report": reflect.TypeFor[pages]()}
	schema, err := outputSchema(resultSchema(s.idem.Tools(), kinds), false).Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	w := wordsOfTool("get_status", defaultWait)
	reports := []*Report{noCaller(), badArgs("No."), w.unavailable("")}
	for _, c := range cases() {
		r := reportOf(c.status)
		r.Result = c.status.Answer
		w.write(r, c.status, noon)
		reports = append(reports, r)
	}
	old := reportOf(call(toolcall.StateSucceeded))
	old.Result = []byte(`["an answer of an earlier version"]`)
	for _, r := range append(reports, old) {
		raw, err := marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		var value any
		if err := json.Unmarshal(raw, &value); err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(value); err != nil {
			t.Errorf("%s: %v", raw, err)
		}
	}
}

// TestDefinitions_S01_ResultsAreTyped: what cannot be moved into another schema is left out, and nothing else.
func TestDefinitions_S01_ResultsAreTyped(t *testing.T) {
	t.Parallel()
	tools := []*mcp.Tool{
		{Name: "plain", OutputSchema: &jsonschema.Schema{Type: "object"}},
		{Name: "raw", OutputSchema: json.RawMessage(`{"type":"array"}`)},
		{Name: "none"},
		{Name: "nil", OutputSchema: (*jsonschema.Schema)(nil)},
		{Name: "referring", OutputSchema: json.RawMessage(`{"$ref":"#/$defs/a","$defs":{"a":{}}}`)},
	}
	var titles []string
	for _, s := range resultSchema(tools, map[string]reflect.Type{"n": reflect.TypeFor[int](), "odd": reflect.TypeFor[chan int]()}).AnyOf {
		titles = append(titles, s.Title)
	}
	if got, want := strings.Join(titles, ", "), "answer of plain, answer of raw, result of the job n, another"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
