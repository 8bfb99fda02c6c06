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
	o        options
	intents  int
	lives    int
	bySpot   map[spot]int
	byPoint  map[where]int
	told     map[class]int
	replayed int
	torn     int
	waited   int           // calls that wrote turn 1 more than once
	kept     map[where]int // attempts that committed although their worker died there
	shared   map[mode]int  // intents that the mode made a call of
	took     time.Duration
	problems []string
}

// where is a point in a call of a mode.
type where struct {
	mode  mode
	point point
}

func newReport(o options, h history, b books, took time.Duration) *report {
	r := &report{
		verdict: judge(h, b), o: o, intents: len(h.intents), lives: h.lives, torn: h.torn, took: took,
		bySpot: make(map[spot]int), byPoint: make(map[where]int), told: make(map[class]int), kept: make(map[where]int),
		shared: make(map[mode]int),
	}
	committed := make(map[string]bool)
	for _, stored := range b.records {
		committed[attemptIn(stored.Answer)] = true
	}
	for _, d := range h.deaths {
		at := where{d.Mode, d.Point}
		r.bySpot[d.spot()]++
		r.byPoint[at]++
		if d.Attempt != "" && committed[d.Attempt] {
			r.kept[at]++
		}
	}
	r.share(h.told)
	for _, t := range h.told {
		r.told[t.Class]++
		if t.Replayed {
			r.replayed++
		}
		if t.Claims > 1 {
			r.waited++
		}
	}
	r.problems = slices.Concat(h.problems, r.complaints, r.shortfalls())
	return r
}

// share counts the intents of each mode.
func (r *report) share(all []told) {
	type call struct {
		mode   mode
		intent int
	}
	seen := make(map[call]bool)
	for _, t := range all {
		c := call{t.Mode, t.Intent}
		if !seen[c] {
			r.shared[t.Mode]++
		}
		seen[c] = true
	}
}

// byStep returns the kills of some modes at each step.
func (r *report) byStep(modes []mode) map[step]int {
	by := make(map[step]int)
	for _, m := range modes {
		for _, s := range steps() {
			by[s] += r.bySpot[spot{m, s}]
		}
	}
	return by
}

// leastShare is the part of the kills, in percent, that each step must have for the run to mean something. fewKills is how many
// a mode must have for that to be asked of it.
const (
	leastShare = 10
	fewKills   = 10
)

func (r *report) shortfalls() []string {
	var found []string
	all := r.byStep(r.o.modes)
	if lives.Total(all) < r.o.kills {
		found = append(found, fmt.Sprintf("%d kills, %d were asked for", lives.Total(all), r.o.kills))
	}
	found = append(found, short("", all)...)
	for _, m := range r.o.modes {
		by := r.byStep([]mode{m})
		if lives.Total(by) < r.o.share(m) {
			found = append(found, fmt.Sprintf("%s: %d kills, %d were asked for", m, lives.Total(by), r.o.share(m)))
		}
		if lives.Total(by) >= fewKills && len(r.o.modes) > 1 {
			found = append(found, short(string(m)+": ", by)...)
		}
	}
	return found
}

// short says which steps have too few kills.
func short(whose string, by map[step]int) (found []string) {
	kills := lives.Total(by)
	for _, s := range steps() {
		if 100*by[s] < leastShare*kills {
			found = append(found, fmt.Sprintf("%sstep %s has %d of %d kills, less than %d %%", whose, s, by[s], kills, leastShare))
		}
	}
	return found
}

// Good reports whether nothing is wrong.
func (r *report) Good() bool {
	return len(r.problems) == 0 && r.duplicates == 0 && r.lost == 0 && r.wrong == 0
}

// Write writes what is wrong, and the figures.
func (r *report) Write(stdout, stderr io.Writer) {
	lives.WriteProblems(stderr, r.problems)
	for _, m := range r.o.modes {
		r.writePoints(stdout, m)
	}
	r.writeTold(stdout)
	for _, m := range r.o.modes {
		_, _ = fmt.Fprintln(stdout, line(string(m)+": ", r.byStep([]mode{m}), r.shared[m], *r.of(m)))
	}
	_, _ = fmt.Fprintln(stdout, line("", r.byStep(r.o.modes), r.intents, r.tally))
}

// writePoints says where workers were killed in calls of a mode, and how many of their attempts had committed by then or did
// so without them. Of leased calls, it is attempts whose charge is the recorded one.
func (r *report) writePoints(w io.Writer, m mode) {
	var points []string
	for _, s := range steps() {
		for _, p := range m.points(s) {
			at := where{m, p}
			points = append(points, fmt.Sprintf("%s:%d/%d", p, r.kept[at], r.byPoint[at]))
		}
	}
	_, _ = fmt.Fprintf(w, "crash: %s: committed/killed at %s\n", m, strings.Join(points, " "))
}

func (r *report) writeTold(w io.Writer) {
	var classes []string
	for _, c := range []class{done, failed, inProgress, released, blocked, conflict, unknown, reused, other} {
		classes = append(classes, fmt.Sprintf("%s=%d", c, r.told[c]))
	}
	_, _ = fmt.Fprintf(w, "crash: told %s, replayed=%d, after waiting=%d, torn=%d; %d lives in %.1f s\n",
		strings.Join(classes, " "), r.replayed, r.waited, r.torn, r.lives, r.took.Seconds())
}

// line is the last line of the output, or the one of a mode.
func line(whose string, kills map[step]int, intents int, t tally) string {
	var by []string
	for _, s := range steps() {
		by = append(by, fmt.Sprintf("%s:%d", s, kills[s]))
	}
	return fmt.Sprintf("crash: %skills=%d by_step=%s intents=%d effects=%d duplicates=%d lost=%d wrong_answers=%d",
		whose, lives.Total(kills), strings.Join(by, ","), intents, t.effects, t.duplicates, t.lost, t.wrong)
}
