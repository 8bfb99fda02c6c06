package txidemtest

import (
	"fmt"
	"slices"
)

// fault is what is done to a call.
type fault string

const (
	none      fault = ""
	killed    fault = "process killed"
	cut       fault = "connection cut"
	cancelled fault = "context cancelled"
	panicking fault = "panic"
	refused   fault = "refused"
	held      fault = "held" // until somebody lets it go
)

// place is where in a turn it is done.
type place string

const (
	before   place = "before"        // nothing of the turn is written
	partly   place = "before COMMIT" // what is in front of COMMIT is written
	inside   place = "inside"        // all of the turn is written, nothing of the answer is read
	after    place = "after"         // the answer has begun to come in
	returned place = "before the reply"
)

// point is one exact place at which a call is broken.
type point struct {
	Fault fault
	Turn  int // the number of the turn, or of the statement for a panic, from 0
	Place place
	Code  string // the SQLSTATE with which Postgres refuses

	name   string
	commit bool // COMMIT may have been sent when the fault happens
}

func (p point) String() string { return p.name }

// The SQLSTATEs with which Postgres refuses a statement: one that asks for another try, and one that does not.
const (
	codeSerialization = "40001"
	codeDiskFull      = "53100"
)

// edge is how many turns at the beginning and at the end of a call are broken.
const edge = 4

// edges returns the numbers below n that are near its ends.
func edges(n int) []int {
	var numbers []int
	for i := range n {
		if i < edge || i >= n-edge {
			numbers = append(numbers, i)
		}
	}
	return numbers
}

// points returns where a call of this shape is broken.
func (s shape) points(kill bool) []point {
	var all []point
	committed := slices.IndexFunc(s.turns, func(t turn) bool { return t.commits && !t.reads })
	for _, i := range edges(len(s.turns)) {
		all = append(all, s.turns[i].points(i, committed >= 0 && i > committed)...)
	}
	for _, i := range edges(s.statements) {
		all = append(all, point{Fault: panicking, Turn: i, Place: before, name: fmt.Sprintf("panic before statement %d", i+1)})
	}
	if s.ended > 0 {
		all = append(all, point{Fault: panicking, Turn: s.ended - 1, Place: after, name: fmt.Sprintf("panic after statement %d", s.ended)})
	}
	all = append(all, point{Fault: killed, Place: returned, name: "process killed before the reply", commit: true})
	return slices.DeleteFunc(all, func(p point) bool { return p.Fault == killed && !kill })
}

// points returns where turn number i is broken. late is true where an earlier turn has committed.
func (t turn) points(i int, late bool) []point {
	var all []point
	add := func(f fault, pl place, name string) {
		all = append(all, point{Fault: f, Turn: i, Place: pl, name: name, commit: late || t.commits && !t.reads && (pl == inside || pl == after)})
	}
	for _, f := range []fault{killed, cut} {
		add(f, before, fmt.Sprintf("%s before %s", f, t.name))
		if t.commits && t.partly {
			add(f, partly, fmt.Sprintf("%s before COMMIT of %s", f, t.name))
		}
		add(f, inside, fmt.Sprintf("%s inside %s", f, t.name))
		add(f, after, fmt.Sprintf("%s after %s", f, t.name))
	}
	add(cancelled, before, "context cancelled before "+t.name)
	add(cancelled, inside, "context cancelled inside "+t.name)
	for _, code := range t.refusals {
		all = append(all, point{Fault: refused, Turn: i, Place: before, Code: code, name: fmt.Sprintf("%s refused with %s", t.name, code), commit: late})
	}
	return all
}
