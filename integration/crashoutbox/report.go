package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/txonce/txonce/integration/internal/lives"
)

// report is all that a run found out.
type report struct {
	verdict
	o         options
	history   history
	byStep    map[step]int
	byPoint   map[point]int
	recovered []time.Duration // in order of length
	took      time.Duration
	problems  []string
}

func newReport(o options, h history, b books, took time.Duration) *report {
	r := &report{
		verdict: judge(h, b), o: o, history: h, byStep: make(map[step]int), byPoint: make(map[point]int),
		recovered: slices.Sorted(slices.Values(h.recoveries())), took: took,
	}
	for _, d := range h.deaths {
		r.byStep[d.Step]++
		r.byPoint[d.Point]++
	}
	r.problems = slices.Concat(h.problems, r.complaints, r.shortfalls())
	return r
}

// recoveries are the times from the kill of a relay until a message that it had was seen again: as it arrived, or with another
// relay that was killed. Those that were not, for their results were written, are left out.
func (h history) recoveries() (all []time.Duration) {
	seen := make(map[string][]time.Time)
	for _, a := range h.arrivals {
		seen[a.ID] = append(seen[a.ID], a.sentAt())
	}
	for _, d := range h.deaths {
		for _, id := range d.Has {
			seen[id] = append(seen[id], d.at)
		}
	}
	for _, d := range h.deaths {
		for _, id := range d.Has {
			next := time.Time{}
			for _, at := range seen[id] {
				if at.After(d.at.Add(leastGap)) && (next.IsZero() || at.Before(next)) {
					next = at
				}
			}
			if !next.IsZero() {
				all = append(all, next.Sub(d.at))
			}
		}
	}
	return all
}

// leastGap is how long after the kill of a relay its own last request may still come along.
const leastGap = time.Second

// sentAt is when a delivery was sent: one that is late was on its way for a while.
func (a arrival) sentAt() time.Time {
	if a.Act == late {
		return a.At.Add(-lateness)
	}
	return a.At
}

// leastShare is the part of the kills, in percent, that each step must have for the run to mean something.
const leastShare = 5

func (r *report) shortfalls() (found []string) {
	kills := lives.Total(r.byStep)
	if kills < r.o.kills {
		found = append(found, fmt.Sprintf("%d kills, %d were asked for", kills, r.o.kills))
	}
	for _, s := range steps() {
		if 100*r.byStep[s] < leastShare*kills {
			found = append(found, fmt.Sprintf("step %s has %d of %d kills, less than %d %%", s, r.byStep[s], kills, leastShare))
		}
	}
	return found
}

// Good reports whether nothing is wrong.
func (r *report) Good() bool {
	return len(r.problems) == 0 && r.lost == 0 && r.outOfOrder == 0 && r.wrongKey == 0
}

// quantile returns a time of recovery: that part of them is no longer.
func (r *report) quantile(part float64) time.Duration {
	if len(r.recovered) == 0 {
		return 0
	}
	return r.recovered[int(part*float64(len(r.recovered)-1))]
}

// Write writes what is wrong, and the figures.
func (r *report) Write(stdout, stderr io.Writer) {
	lives.WriteProblems(stderr, r.problems)
	r.writePoints(stdout)
	r.writeStory(stdout)
	_, _ = fmt.Fprintln(stdout, r.killsLine())
	_, _ = fmt.Fprintln(stdout, r.lastLine())
}

// writePoints says where processes were killed.
func (r *report) writePoints(w io.Writer) {
	var all []string
	for _, s := range steps() {
		for _, p := range points(s) {
			all = append(all, fmt.Sprintf("%s:%d", p, r.byPoint[p]))
		}
	}
	_, _ = fmt.Fprintf(w, "crash-outbox: killed at %s\n", strings.Join(all, " "))
}

// writeStory says what else happened.
func (r *report) writeStory(w io.Writer) {
	did, again := make(map[act]int), 0
	for _, a := range r.history.arrivals {
		did[a.Act]++
	}
	for _, t := range r.history.told {
		if t.Replayed {
			again++
		}
	}
	var all []string
	for _, what := range acts() {
		all = append(all, fmt.Sprintf("%s=%d", what, did[what]))
	}
	longest := time.Duration(0)
	for _, d := range r.history.stopped {
		longest = max(longest, d)
	}
	_, _ = fmt.Fprintf(w, "crash-outbox: the receiver: %s\n", strings.Join(all, " "))
	_, _ = fmt.Fprintf(w, "crash-outbox: answers=%d, replayed=%d; stopped relays that went on=%d, after at most %.1f s; sessions ended=%d\n",
		len(r.history.told), again, len(r.history.stopped), longest.Seconds(), r.history.terminated)
	_, _ = fmt.Fprintf(w, "crash-outbox: the last message ended %.1f s after the last kill; %d lives in %.0f s\n",
		r.history.drained.Seconds(), r.history.lives, r.took.Seconds())
}

// killsLine is the last line but one of the output.
func (r *report) killsLine() string {
	var by []string
	for _, s := range steps() {
		by = append(by, fmt.Sprintf("%s:%d", s, r.byStep[s]))
	}
	line := fmt.Sprintf("crash-outbox: kills=%d by_step=%s stopped=%d", lives.Total(r.byStep), strings.Join(by, ","), len(r.history.stopped))
	if len(r.recovered) == 0 {
		return line + " recovery=unmeasured"
	}
	return line + fmt.Sprintf(" recovery_max_s=%.1f recovery_p50_s=%.1f recoveries=%d", r.quantile(1).Seconds(), r.quantile(0.5).Seconds(), len(r.recovered))
}

// lastLine is the last line of the output.
func (r *report) lastLine() string {
	return fmt.Sprintf("crash-outbox: messages=%d deliveries=%d distinct=%d lost=%d out_of_order=%d wrong_key=%d",
		r.messages, r.deliveries, r.distinct, r.lost, r.outOfOrder, r.wrongKey)
}
