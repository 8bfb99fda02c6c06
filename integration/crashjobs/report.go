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
	kept      map[point]int // attempts that committed although their worker died there
	states    map[string]int
	rescued   int
	recovered []time.Duration // in order of length
	took      time.Duration
	problems  []string
}

func newReport(o options, h history, b books, recovered []time.Duration, took time.Duration) *report {
	r := &report{
		verdict: judge(h, b), o: o, history: h, byStep: make(map[step]int), byPoint: make(map[point]int), kept: make(map[point]int),
		states: make(map[string]int), rescued: b.rescued, recovered: slices.Sorted(slices.Values(recovered)), took: took,
	}
	committed := make(map[string]bool)
	for _, e := range b.effects {
		committed[e.Attempt] = true
	}
	for _, d := range h.deaths {
		r.byStep[d.Step]++
		r.byPoint[d.Point]++
		if committed[d.Attempt] {
			r.kept[d.Point]++
		}
	}
	for _, j := range b.jobs {
		r.states[j.State]++
	}
	r.problems = slices.Concat(h.problems, r.complaints, r.shortfalls())
	return r
}

// leastShare is the part of the kills, in percent, that each step must have for the run to mean something.
const leastShare = 5

// longestGap is how soon the job of a killed worker must go on (J04).
const longestGap = 15 * time.Second

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
	if longest := r.quantile(1); longest > longestGap {
		found = append(found, fmt.Sprintf("the job of a killed worker went on after %.1f s, and %v is required", longest.Seconds(), longestGap))
	}
	return found
}

// Good reports whether nothing is wrong.
func (r *report) Good() bool {
	return len(r.problems) == 0 && r.duplicates == 0 && r.lost == 0 && r.stuck == 0
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

// writePoints says where processes were killed, and how many of their attempts had committed by then or did so without them.
func (r *report) writePoints(w io.Writer) {
	var all []string
	for _, s := range steps() {
		for i, p := range points(s) {
			switch {
			case slices.Contains(points(s)[:i], p):
			case s == atSubmit || s == atSubmitted || s == atBegin: // no attempt yet
				all = append(all, fmt.Sprintf("%s:%d", p, r.byPoint[p]))
			default:
				all = append(all, fmt.Sprintf("%s:%d/%d", p, r.kept[p], r.byPoint[p]))
			}
		}
	}
	_, _ = fmt.Fprintf(w, "crash-jobs: killed, or committed/killed, at %s\n", strings.Join(all, " "))
}

// writeStory says what else happened.
func (r *report) writeStory(w io.Writer) {
	var played, ended []string
	for _, t := range []trick{retries, deletes, rings, rescues, cancelsRow, cancelsJob, terminates} {
		played = append(played, fmt.Sprintf("%s=%d", t, r.history.tricks[t]))
	}
	for _, state := range []string{"succeeded", "failed", "cancelled"} {
		ended = append(ended, fmt.Sprintf("%s=%d", state, r.states[state]))
	}
	late, replayed, longest := 0, 0, time.Duration(0)
	for _, s := range r.history.stale {
		if s.late {
			late++
		}
		longest = max(longest, s.after)
	}
	for _, t := range r.history.told {
		if t.Replayed {
			replayed++
		}
	}
	_, _ = fmt.Fprintf(w, "crash-jobs: doorbells and sessions: %s, and %d rescued by River\n", strings.Join(played, " "), r.rescued)
	_, _ = fmt.Fprintf(w, "crash-jobs: jobs %s; answers=%d, replayed=%d; stopped workers that came back=%d, of which behind another attempt=%d, after at most %.1f s\n",
		strings.Join(ended, " "), len(r.history.told), replayed, len(r.history.stale), late, longest.Seconds())
	_, _ = fmt.Fprintf(w, "crash-jobs: the last job ended %.1f s after the last kill; %d lives in %.0f s\n",
		r.history.drained.Seconds(), r.history.lives, r.took.Seconds())
}

// killsLine is the last line but one of the output.
func (r *report) killsLine() string {
	var by []string
	for _, s := range steps() {
		by = append(by, fmt.Sprintf("%s:%d", s, r.byStep[s]))
	}
	line := fmt.Sprintf("crash-jobs: kills=%d by_step=%s stopped=%d", lives.Total(r.byStep), strings.Join(by, ","), len(r.history.stale))
	if len(r.recovered) == 0 {
		return line + " recovery=unmeasured"
	}
	return line + fmt.Sprintf(" recovery_max_s=%.1f recovery_p50_s=%.1f recoveries=%d", r.quantile(1).Seconds(), r.quantile(0.5).Seconds(), len(r.recovered))
}

// lastLine is the last line of the output.
func (r *report) lastLine() string {
	return fmt.Sprintf("crash-jobs: jobs=%d executions=%d effects=%d duplicates=%d lost=%d stuck=%d",
		r.jobs, r.executions, r.effects, r.duplicates, r.lost, r.stuck)
}
