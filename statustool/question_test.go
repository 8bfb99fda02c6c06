package statustool

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/txonce/txonce/toolcall"
)

// TestGet_S04_BadInputIsAnswered in the one shape, and nothing is looked up. testdata/texts.golden has the answers.
func TestGet_S04_BadInputIsAnswered(t *testing.T) {
	t.Parallel()
	f := newFake()
	session := newShop(t, nil).add(nil, f).connect(nil)
	for _, question := range badQuestions() {
		if !json.Valid([]byte(question)) || !strings.HasPrefix(question, "{") || strings.Contains(question, "1e999") {
			continue // the client cannot send it
		}
		r := do(t, session, "get_status", json.RawMessage(question))
		if got := reportIn(t, r); got.State != StateBadArgs || got.ID != "" || !strings.HasSuffix(got.Next, "Correct that and ask again.") {
			t.Errorf("%s: %+v", question, got)
		}
	}
	if n := len(f.asked()); n != 0 {
		t.Errorf("looked up %d times", n)
	}
}

func TestWait_S03_OutOfRangeIsTheNearest(t *testing.T) {
	t.Parallel()
	for seconds, want := range map[float64]time.Duration{
		0: 0, -1: 0, math.Inf(-1): 0, 0.25: 250 * time.Millisecond, 25: defaultWait, 26: defaultWait, math.MaxFloat64: defaultWait, math.Inf(1): defaultWait,
	} {
		if got := waitFor(seconds, defaultWait); got != want {
			t.Errorf("%v: got %v, want %v", seconds, got, want)
		}
	}
}

// TestVariant_S01_AnswersForOneTool and for jobs.
func TestVariant_S01_AnswersForOneTool(t *testing.T) {
	t.Parallel()
	f := newFake()
	session := newShop(t, nil).add(&Config{PerTool: true}, f).connect(nil)
	other := call(toolcall.StateSucceeded)
	other.ID, other.Tool = callID("request_report", "k"), "request_report"
	f.set(scope, call(toolcall.StateSucceeded))
	f.set(scope, job(toolcall.StateRunning))
	f.set(scope, other)
	for label, c := range map[string]struct {
		args args
		want toolcall.State
		says string
	}{
		"by key":          {args{"idempotency_key": "k"}, toolcall.StateSucceeded, "done"},
		"by id":           {args{"id": callID("issue_refund", "k").String()}, toolcall.StateSucceeded, "done"},
		"a job":           {args{"id": jobID(1).String()}, toolcall.StateRunning, "call get_status with"},
		"another tool's":  {args{"id": other.ID.String()}, StateBadArgs, "a call of request_report, not of issue_refund; ask get_status"},
		"both, different": {args{"id": other.ID.String(), "idempotency_key": "k"}, StateBadArgs, "contradict"},
		"with a tool":     {args{"tool": "issue_refund", "idempotency_key": "k"}, StateBadArgs, "the arguments are id, idempotency_key and wait_seconds"},
		"nothing":         {args{}, StateBadArgs, "or give idempotency_key, that of the call"},
	} {
		if got := reportIn(t, do(t, session, "get_issue_refund_status", c.args)); got.State != c.want || !strings.Contains(got.Next, c.says) {
			t.Errorf("%s: %+v", label, got)
		}
	}
}

// TestQuoted_S04_ShowsNotTooMuch: what was given comes back, cut between characters.
func TestQuoted_S04_ShowsNotTooMuch(t *testing.T) {
	t.Parallel()
	if got := quoted(strings.Repeat("é", 31)); got != `"`+strings.Repeat("é", 30)+`…"` {
		t.Error(got)
	}
	if got := quoted(strings.Repeat("€", 31)); got != `"`+strings.Repeat("€", 20)+`…"` {
		t.Error(got)
	}
	for want, names := range map[string][]string{"none": nil, "a": {"a"}, "a and b": {"a", "b"}, "a, b and c": {"a", "b", "c"}} {
		if got := list(names, "and"); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

var _ Canceller = (*canceller)(nil)
