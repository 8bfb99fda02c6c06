package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// report is all that a run found out.
type report struct {
	seed        uint64
	unprotected bool
	work        *work
	entries     []*entry
	perTool     map[string]*figures
	total       figures
	notices     notices
}

// Least figures of a run that shows something.
const (
	leastCalls      = 200
	leastReplays    = 1
	leastInProgress = 1
)

func newReport(o options, entries []*entry, w *work, rows map[string]int, n notices) *report {
	r := &report{
		seed: o.seed, unprotected: o.unprotected,
		work: w, entries: entries, perTool: tally(entries, w.errands, rows), notices: n,
	}
	for _, f := range r.perTool {
		r.total.add(*f)
	}
	return r
}

// problems says why the run is not what it should be, in one line each.
func (r *report) problems() []string {
	var found []string
	complain := func(bad bool, format string, args ...any) {
		if bad {
			found = append(found, fmt.Sprintf(format, args...))
		}
	}
	t := r.total
	complain(t.duplicates > 0, "%d effects in the database are duplicates of another", t.duplicates)
	complain(t.lost > 0, "%d intents ended otherwise than the agent was told", t.lost)
	complain(t.differing > 0, "%d answers contradict an earlier answer to the same intent", t.differing)
	n := r.notices
	complain(n.accepted != n.webhooks, "the merchant took %d webhooks for %d refunds", n.accepted, n.webhooks)
	complain(n.duplicates > 0, "the merchant was told of %d refunds that it knew", n.duplicates)
	complain(n.lost > 0, "the merchant was not told of %d refunds", n.lost)
	complain(n.forged > 0, "%d webhooks had no good signature", n.forged)
	complain(n.confused > 0, "%d webhooks came again under another idempotency key", n.confused)
	if r.unprotected {
		complain(t.duplicates == 0, "no duplicates without protection: this run shows nothing, try another seed")
		return found
	}
	complain(t.calls < leastCalls, "only %d calls, a run should have %d", t.calls, leastCalls)
	complain(t.replays < leastReplays, "no answer was replayed")
	complain(t.inProgress < leastInProgress, "no call was answered in progress")
	complain(t.learned == 0, "no answer was learned by asking for it")
	complain(n.attempts <= n.accepted, "no webhook was sent again: this run shows nothing of them, try another seed")
	complain(r.work.jobs != r.statements(), "%d jobs were submitted for %d statements", r.work.jobs, r.statements())
	complain(r.work.reused != "key_reused", "a key that came back with other arguments was answered %q, not refused as key_reused", r.work.reused)
	return found
}

// statements counts the intents that were to become jobs.
func (r *report) statements() int {
	f := r.perTool[toolStatement]
	return f.intents - f.failed
}

func (r *report) write(w io.Writer) {
	_, _ = fmt.Fprintln(w)
	r.writeTable(w)
	r.writeTold(w)
	for _, jobs := range []bool{false, true} {
		if s := newStory(r.entries, r.work.errands, jobs); s != nil {
			s.write(w)
		}
	}
	_, _ = fmt.Fprint(w, "\n  a, b, c: sent at the same moment. rows: as counted when the agent's attempt had ended.\n")
	if !r.unprotected {
		_, _ = fmt.Fprintf(w, "\n  The same intents and faults without protection: make demo SEED=%d UNPROTECTED=1\n", r.seed)
	}
	problems := r.problems()
	if len(problems) > 0 {
		_, _ = fmt.Fprintln(w)
	}
	for _, problem := range problems {
		_, _ = fmt.Fprintf(w, "! %s\n", problem)
	}
	t, n := r.total, r.notices
	_, _ = fmt.Fprintf(w, "\ndemo: webhooks=%d attempts=%d accepted=%d duplicates=%d lost=%d", n.webhooks, n.attempts, n.accepted, n.duplicates, n.lost)
	_, _ = fmt.Fprintf(w, "\ndemo: calls=%d intents=%d effects=%d replays=%d in_progress=%d duplicates=%d lost=%d\n",
		t.calls, t.intents, t.effects, t.replays, t.inProgress, t.duplicates, t.lost)
}

func (r *report) writeTable(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', tabwriter.AlignRight)
	row := func(name string, f figures) {
		_, _ = fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t\n",
			name, f.intents, f.calls, f.unheard, f.replays, f.inProgress, f.effects, f.duplicates)
	}
	_, _ = fmt.Fprintln(t, "tool\tintents\tcalls\tanswers lost\treplays\tin progress\teffects\tduplicates\t")
	for _, tool := range tools() {
		row(tool, *r.perTool[tool])
	}
	if !r.unprotected {
		row(toolStatus, *r.perTool[toolStatus])
	}
	row("all", r.total)
	_ = t.Flush()
	_, _ = fmt.Fprint(w, `
  calls: tools/call requests that reached the server. answers lost: those of its answers that did not reach the agent.
  replays, in progress: as the server answered, lost or not. effects: rows in the database.
`)
}

func (r *report) writeTold(w io.Writer) {
	t := r.total
	_, _ = fmt.Fprintf(w, "\n  %d intents were done and %d failed for good, as the agent was told", t.done, t.failed)
	if t.unknown > 0 {
		_, _ = fmt.Fprintf(w, "; it does not know of %d", t.unknown)
	}
	_, _ = fmt.Fprintln(w, ".")
	if t.learned > 0 {
		_, _ = fmt.Fprintf(w, "  %d times it did not call again for an answer: it asked get_status, which changes nothing, and got the answer of the first call.\n", t.learned)
	}
	_, _ = fmt.Fprintf(w, "  %d jobs were submitted, for %d statements.\n", r.work.jobs, r.statements())
	_, _ = fmt.Fprintf(w, "  The merchant was to be told of %d refunds, by webhook. %d attempts reached its endpoint, which often fails, and it took %d.\n",
		r.notices.webhooks, r.notices.attempts, r.notices.accepted)
	if r.work.unsettled > 0 {
		_, _ = fmt.Fprintf(w, "  After its usual tries the agent still did not know the outcome of %d; it went on until it did.\n", r.work.unsettled)
	}
	if r.work.reused != "" {
		_, _ = fmt.Fprintf(w, "  A key that came back with another amount: %s, nothing done.\n", strings.ReplaceAll(r.work.reused, "_", " "))
	}
}
