package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/txonce/txonce/integration/internal/lives"
)

// result is all that a run found out.
type result struct {
	verdict
	opinion
	o         options
	events    events
	intents   int
	calls     int
	stormed   int // calls that were begun while there was a storm
	told      int // and of these, those of which a server said something
	said      map[kind]int
	did       map[act]int
	lives     int
	recovered []time.Duration // in order of length
	problems  []string
}

// result judges what is left of a storm.
func (s *storm) result(b books) *result {
	arrivals, problems := s.receiver.all()
	e := evidence{intents: s.board.intents(), ops: s.history.all(), jobsSaid: s.jobsSaid, arrivals: arrivals, books: b}
	seen := check(e.ops, s.o.pictures)
	r := &result{
		verdict: judge(e, seen), opinion: seen, o: s.o, events: s.events, intents: len(e.intents), said: make(map[kind]int), did: make(map[act]int),
		lives: s.lives, recovered: recoveries(s.events.db, e.ops),
	}
	for _, o := range e.ops {
		if o.Asked.Question {
			continue
		}
		r.calls++
		r.said[o.Said.Kind]++
		if o.Call < s.events.over {
			r.stormed++
			if o.Said.Kind.tells() {
				r.told++
			}
		}
	}
	for _, a := range arrivals {
		r.did[a.Act]++
	}
	r.problems = slices.Concat(s.problems, problems, r.complaints, r.shortfalls())
	return r
}

// recoveries are the times from each kill of the database until a call was answered that was made behind it.
func recoveries(kills []time.Duration, ops []op) (all []time.Duration) {
	for _, at := range kills {
		first := time.Duration(0)
		for _, o := range ops {
			if o.Call >= at && o.Said.Kind.ends() && !o.Asked.Question && (first == 0 || o.Return < first) {
				first = o.Return
			}
		}
		if first > 0 {
			all = append(all, first-at)
		}
	}
	slices.Sort(all)
	return all
}

// leastRate is how many calls a second the agents must make for the run to mean something.
const leastRate = 50

// leastTold is the part of the calls of which a server must say something: one that is dead refuses many calls in a second.
const leastTold = 0.25

// rate is how many calls were made in a second.
func (r *result) rate() float64 {
	return float64(r.stormed) / (r.events.over - r.events.begun).Seconds()
}

func (r *result) shortfalls() (found []string) {
	few := func(what string, n int) {
		if n < r.o.least() {
			found = append(found, fmt.Sprintf("%d kills of %s; there must be %d", n, what, r.o.least()))
		}
	}
	for _, role := range inOrder() {
		few(string(role)+"s", r.events.kills[role])
	}
	few("the database", len(r.events.db))
	if r.o.time >= wholeTime { // a shorter run has too little of each, and one that is part of the tests shares its machine
		for _, role := range inOrder() {
			if r.events.stops[role] == 0 {
				found = append(found, fmt.Sprintf("no %s was stopped and went on", role))
			}
			if r.events.leaves[role] == 0 {
				found = append(found, fmt.Sprintf("no %s left in good order", role))
			}
		}
		for _, a := range acts() {
			if r.did[a] == 0 {
				found = append(found, fmt.Sprintf("no delivery was %s", a))
			}
		}
		if want := min(leastRate, r.o.rate*2/3); r.rate() < want {
			found = append(found, fmt.Sprintf("%.1f calls a second; there must be %.0f", r.rate(), want))
		}
		if share := float64(r.told) / float64(max(r.stormed, 1)); share < leastTold {
			found = append(found, fmt.Sprintf("a server said something of %.0f %% of the calls; there must be %.0f %%", 100*share, 100*leastTold))
		}
	}
	if r.told == 0 {
		found = append(found, "no server said anything of a call while the storm lasted")
	}
	return found
}

// Good reports whether nothing is wrong.
func (r *result) Good() bool {
	return len(r.problems) == 0 && r.duplicates+r.lost+r.wrongAnswers+r.jobsStuck+r.messagesLost == 0
}

// Write writes what is wrong, and the figures.
func (r *result) Write(stdout, stderr io.Writer) {
	lives.WriteProblems(stderr, r.problems)
	var answers, deliveries []string
	for _, k := range kinds() {
		answers = append(answers, fmt.Sprintf("%s=%d", strings.ReplaceAll(string(k), " ", "_"), r.said[k]))
	}
	for _, a := range acts() {
		deliveries = append(deliveries, fmt.Sprintf("%s=%d", a, r.did[a]))
	}
	_, _ = fmt.Fprintf(stdout, "chaos: calls came to: %s\n", strings.Join(answers, " "))
	_, _ = fmt.Fprintf(stdout, "chaos: deliveries: %s; %d lives of processes in %.0f s; all was settled %.1f s after the last kill\n",
		strings.Join(deliveries, " "), r.lives, (r.events.over - r.events.begun).Seconds(), r.events.settled.Seconds())
	_, _ = fmt.Fprintln(stdout, r.storyLine())
	_, _ = fmt.Fprintln(stdout, r.lastLine())
}

// storyLine is the last line but one of the output.
func (r *result) storyLine() string {
	line := fmt.Sprintf("chaos: calls_per_s=%.1f stops=%s leaves=%s porcupine=%s operations=%d",
		r.rate(), ofRoles(r.events.stops), ofRoles(r.events.leaves), r.opinion.result, r.operations)
	if len(r.recovered) == 0 {
		return line + " recovery=unmeasured"
	}
	return line + fmt.Sprintf(" recovery_p50_s=%.2f recovery_max_s=%.2f recoveries=%d",
		r.recovered[len(r.recovered)/2].Seconds(), r.recovered[len(r.recovered)-1].Seconds(), len(r.recovered))
}

// lastLine is the last line of the output.
func (r *result) lastLine() string {
	return fmt.Sprintf("chaos: intents=%d calls=%d kills=%s,db:%d effects=%d duplicates=%d lost=%d wrong_answers=%d jobs_stuck=%d messages_lost=%d",
		r.intents, r.calls, ofRoles(r.events.kills), len(r.events.db), r.effects, r.duplicates, r.lost, r.wrongAnswers, r.jobsStuck, r.messagesLost)
}

// ofRoles are the figures of all roles.
func ofRoles(counts map[role]int) string {
	var all []string
	for _, r := range inOrder() {
		all = append(all, fmt.Sprintf("%s:%d", r, counts[r]))
	}
	return strings.Join(all, ",")
}
