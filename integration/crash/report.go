package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// report is all that a run found out.
type report struct {
	verdict
	o        options
	intents  int
	lives    int
	byStep   map[step]int
	byPoint  map[point]int
	told     map[class]int
	replayed int
	torn     int
	waited   int           // calls that wrote turn 1 more than once
	kept     map[point]int // attempts that committed although their worker died there
	took     time.Duration
	problems []string
}

func newReport(o options, h history, b books, took time.Duration) *report {
	r := &report{
		verdict: judge(h, b), o: o, intents: len(h.intents), lives: h.lives, torn: h.torn, took: took,
		byStep: make(map[step]int), byPoint: make(map[point]int), told: make(map[class]int), kept: make(map[point]int),
	}
	committed := make(map[string]bool)
	for _, stored := range b.records {
		committed[attemptIn(stored.Answer)] = true
	}
	for _, d := range h.deaths {
		r.byStep[d.Step]++
		r.byPoint[d.Point]++
		if committed[d.Attempt] {
			r.kept[d.Point]++
		}
	}
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

// leastShare is the part of the kills, in percent, that each step must have for the run to mean something.
const leastShare = 10

func (r *report) shortfalls() []string {
	var found []string
	kills := total(r.byStep)
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

func (r *report) good() bool {
	return len(r.problems) == 0 && r.duplicates == 0 && r.lost == 0 && r.wrong == 0
}

// mostProblems is how many problems are printed. The figures count all of them.
const mostProblems = 20

func (r *report) write(stdout, stderr io.Writer) {
	for _, problem := range r.problems[:min(len(r.problems), mostProblems)] {
		_, _ = fmt.Fprintln(stderr, "!", problem)
	}
	if more := len(r.problems) - mostProblems; more > 0 {
		_, _ = fmt.Fprintf(stderr, "! and %d more\n", more)
	}
	r.writePoints(stdout)
	r.writeTold(stdout)
	_, _ = fmt.Fprintln(stdout, r.line())
}

// writePoints says where workers were killed, and how many of their attempts had committed by then or did so without
// them.
func (r *report) writePoints(w io.Writer) {
	var points []string
	for _, s := range steps() {
		for _, p := range s.points() {
			points = append(points, fmt.Sprintf("%s:%d/%d", p, r.kept[p], r.byPoint[p]))
		}
	}
	_, _ = fmt.Fprintf(w, "crash: committed/killed at %s\n", strings.Join(points, " "))
}

func (r *report) writeTold(w io.Writer) {
	var classes []string
	for _, c := range []class{done, failed, inProgress, released, conflict, unknown, reused, other} {
		classes = append(classes, fmt.Sprintf("%s=%d", c, r.told[c]))
	}
	_, _ = fmt.Fprintf(w, "crash: told %s, replayed=%d, after waiting=%d, torn=%d; %d lives in %.1f s\n",
		strings.Join(classes, " "), r.replayed, r.waited, r.torn, r.lives, r.took.Seconds())
}

// line is the last line of the output.
func (r *report) line() string {
	var by []string
	for _, s := range steps() {
		by = append(by, fmt.Sprintf("%s:%d", s, r.byStep[s]))
	}
	return fmt.Sprintf("crash: kills=%d by_step=%s intents=%d effects=%d duplicates=%d lost=%d wrong_answers=%d",
		total(r.byStep), strings.Join(by, ","), r.intents, r.effects, r.duplicates, r.lost, r.wrong)
}
