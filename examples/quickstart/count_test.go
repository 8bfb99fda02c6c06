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
		{intent: &intent{number: 7, tool: toolStatement, subject: "built"}, told: accepted, jobEnded: done},
		{intent: &intent{number: 8, tool: toolStatement, subject: "told built, is not"}, told: accepted, jobEnded: done},
		{intent: &intent{number: 9, tool: toolStatement, subject: "not told whether it was built"}, told: accepted},
		{intent: &intent{number: 10, tool: toolStatement, subject: "told that the job failed"}, told: accepted, jobEnded: failed},
	}
	rows := map[string]int{"fine": 1, "twice too many": 3, "told failed, is done": 1, "unknown": 1, "built": 1}
	entries := []*entry{
		{name: callName{1, 1, 0}, tool: toolRefund, fault: cutBefore},
		{name: callName{1, 2, 0}, tool: toolRefund, fault: lostAnswer, arrivals: []arrival{{answer{kind: running}}}},
		{name: callName{1, 3, 0}, tool: toolRefund, arrivals: []arrival{{answer{kind: done, replayed: true}}}, got: answer{kind: done}},
		{name: callName{5, 1, 0}, tool: toolLedger, fault: sentTwice, arrivals: []arrival{{}, {}}, got: answer{kind: failed}},
		{name: callName{7, 1, 0}, tool: toolStatement, arrivals: []arrival{{answer{kind: accepted}}}, got: answer{kind: accepted}},
		{name: callName{7, 2, 0}, tool: toolStatus, arrivals: []arrival{{answer{kind: done}}}, got: answer{kind: done, job: "j"}},
	}
	r := newReport(options{}, entries, &work{errands: errands, reused: "done", jobs: 5}, rows, notices{webhooks: 4, attempts: 5, accepted: 5, duplicates: 7, lost: 8, forged: 9, confused: 10})
	want := figures{
		intents: 10, calls: 6, unheard: 2, replays: 1, inProgress: 1, effects: 7, duplicates: 2,
		lost: 3, differing: 1, done: 5, failed: 3, unknown: 2,
	}
	if diff := cmp.Diff(want, r.total, cmp.AllowUnexported(figures{})); diff != "" {
		t.Error(diff)
	}
	said := strings.Join(r.problems(), "\n")
	for _, problem := range []string{
		"2 effects", "3 intents", "1 answers", "only 6 calls", "no answer was learned", "5 jobs", `answered "done"`,
		"took 5 webhooks for 4", "told of 7 refunds", "not told of 8", "9 webhooks", "10 webhooks", "no webhook was sent again",
	} {
		if !strings.Contains(said, problem) {
			t.Errorf("nothing is said of %q:\n%s", problem, said)
		}
	}
}
