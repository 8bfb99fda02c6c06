package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTally_FindsWhatIsWrong proves that the demo can fail.
func TestTally_FindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	errands := []*errand{
		{intent: &intent{number: 1, tool: toolRefund, subject: "fine"}, told: done},
		{intent: &intent{number: 2, tool: toolRefund, subject: "twice too many"}, told: done, differing: 1},
		{intent: &intent{number: 3, tool: toolTicket, subject: "told done, is not"}, told: done},
		{intent: &intent{number: 4, tool: toolTicket, subject: "told failed, is done"}, told: failed},
		{intent: &intent{number: 5, tool: toolLedger, subject: "failed"}, told: failed},
		{intent: &intent{number: 6, tool: toolLedger, subject: "unknown"}},
	}
	rows := map[string]int{"fine": 1, "twice too many": 3, "told failed, is done": 1, "unknown": 1}
	entries := []*entry{
		{name: callName{1, 1, 0}, fault: cutBefore},
		{name: callName{1, 2, 0}, fault: lostAnswer, arrivals: []arrival{{answer{kind: running}}}},
		{name: callName{1, 3, 0}, arrivals: []arrival{{answer{kind: done, replayed: true}}}, got: answer{kind: done}},
		{name: callName{5, 1, 0}, fault: sentTwice, arrivals: []arrival{{}, {}}, got: answer{kind: failed}},
	}
	r := newReport(options{}, entries, &work{errands: errands, reused: "done"}, rows)
	want := figures{
		intents: 6, calls: 4, unheard: 2, replays: 1, inProgress: 1, effects: 6, duplicates: 2,
		lost: 2, differing: 1, done: 3, failed: 2, unknown: 1,
	}
	if diff := cmp.Diff(want, r.total, cmp.AllowUnexported(figures{})); diff != "" {
		t.Error(diff)
	}
	said := strings.Join(r.problems(), "\n")
	for _, problem := range []string{"2 effects", "2 intents", "1 answers", "only 4 calls", `answered "done"`} {
		if !strings.Contains(said, problem) {
			t.Errorf("nothing is said of %q:\n%s", problem, said)
		}
	}
}
