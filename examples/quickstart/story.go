package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// story is what happened to one intent, call by call.
type story struct {
	errand *errand
	lines  []*entry
}

// longestStory keeps a story readable.
const longestStory = 12

// newStory picks the intent whose agent asked and had the hardest time, of those that became jobs or of the others: the most
// answers that did not arrive before one did. Intents that failed make no story: there is nothing to see in the database.
func newStory(entries []*entry, errands []*errand, jobs bool) *story {
	calls := make(map[int][]*entry)
	for _, e := range entries {
		calls[e.name.intent] = append(calls[e.name.intent], e)
	}
	var hardest *story
	for _, e := range errands {
		s := &story{errand: e, lines: calls[e.intent.number]}
		if (e.told == done || e.told == accepted) && (e.told == accepted) == jobs && (hardest == nil || s.rank() > hardest.rank()) {
			hardest = s
		}
	}
	return hardest
}

// rank is the trouble of a story that can be read. Those come first whose job was seen at work, then those in which the answer of
// the call was learned by asking. Among those that are too long, the shortest comes first.
func (s *story) rank() int {
	if len(s.lines) > longestStory {
		return -len(s.lines)
	}
	rank := s.trouble()
	if s.errand.told == accepted && slices.ContainsFunc(s.lines, func(e *entry) bool { return e.got.kind == waiting }) {
		rank += 400
	}
	if slices.ContainsFunc(s.lines, (*entry).learns) {
		rank += 100
		if s.errand.intent.way == asking {
			rank += 100
		}
	}
	return rank
}

// trouble counts the answers that were lost before the agent had the first definite one.
func (s *story) trouble() int {
	lost := 0
	for _, e := range s.lines {
		if e.got.definite() {
			break
		}
		lost += e.figures().unheard
	}
	return lost
}

func (s *story) write(w io.Writer) {
	in, title := s.errand.intent, "What happened to one intent"
	if s.errand.told == accepted {
		title = "And to one whose tool is too slow to be waited for"
	}
	_, _ = fmt.Fprintf(w, "\n  %s: %s %s\n  Here %s.\n\n", title, in.tool, worded(in.fields, 0), in.way)
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	_, _ = fmt.Fprintln(t, "  call\t\tthe network\tthe server\tthe agent heard\trows in the database")
	for _, e := range s.lines {
		_, _ = fmt.Fprintf(t, "  %s\t%s\t%s\t%s\t%s\t%d\n", s.numberOf(e), s.reasonOf(e), e.fault, e.served(), e.heard, e.rows)
	}
	_ = t.Flush()
	for _, e := range slices.Backward(s.lines) {
		if e.tool == toolStatus && e.got.kind == done {
			_, _ = fmt.Fprintf(w, "\n  %s answered call %s: %s\n  %s\n", toolStatus, s.numberOf(e), e.got.next, e.got.text)
			return
		}
	}
}

// numberOf numbers the attempts; copies of the same moment get letters.
func (s *story) numberOf(e *entry) string {
	copies := 0
	for _, other := range s.lines {
		if other.name.attempt == e.name.attempt {
			copies++
		}
	}
	if copies == 1 {
		return fmt.Sprint(e.name.attempt)
	}
	return fmt.Sprintf("%d%c", e.name.attempt, 'a'+e.name.copy)
}

// reasonOf says why the agent made the call.
func (s *story) reasonOf(e *entry) string {
	switch {
	case e.tool == toolStatus:
		return "asks"
	case e.name.attempt == 1:
		return "begins"
	case slices.Contains(s.errand.began, e.name.attempt):
		return "comes back"
	default:
		return "repeats"
	}
}

// served is what the server answered, in the order in which the requests came.
func (e *entry) served() string {
	if len(e.arrivals) == 0 {
		return "was not reached"
	}
	said := make([]string, len(e.arrivals))
	for i, a := range e.arrivals {
		said[i] = a.answer.brief()
	}
	return strings.Join(said, " + ")
}
