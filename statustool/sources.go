package statustool

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/txonce/txonce/toolcall"
)

// sources are asked one after the other, each for what those before it do not have.
type sources []toolcall.Source

// inOrder puts those that know kinds of jobs first: such a one sees by the form of an id that it is none of a job's, and asks
// nobody; the store of calls would look for the locks of jobs.
func inOrder(given []toolcall.Source) sources {
	rank := func(s toolcall.Source) int {
		if _, knowsKinds := s.(typed); knowsKinds {
			return 0
		}
		return 1
	}
	ordered := slices.Clone(given)
	slices.SortStableFunc(ordered, func(a, b toolcall.Source) int { return rank(a) - rank(b) })
	return ordered
}

// finding is what was found out about one question.
type finding struct {
	status toolcall.Status
	err    error // it could not be found out
	alone  bool  // others could: waiting does not help
}

const (
	// mostAsks bounds how many questions travel in one statement.
	mostAsks = 1000
	// mostMisses ends the search for the one record that cannot be read: a source that fails so often in a row fails for all.
	mostMisses = 12
)

// ask answers each question, in order. An id that no source has is StateNone; one that a source failed to look for, and no other
// has, is an error, for that is not to be told of as one that does not exist.
func (s sources) ask(ctx context.Context, asks []toolcall.Ask) []finding {
	found := make([]finding, len(asks))
	open := make([]int, len(asks))
	for i, ask := range asks {
		found[i].status, open[i] = toolcall.Status{ID: ask.ID, State: toolcall.StateNone}, i
	}
	for _, source := range s {
		var rest []int
		for _, some := range byForm(asks, open) {
			for part := range slices.Chunk(some, mostAsks) {
				rest = append(rest, askSome(ctx, source, asks, part, found)...)
			}
		}
		open = rest
	}
	return found
}

// byForm takes those of calls and those of jobs apart. A source answers about ids that have not its form without looking, which
// says nothing of whether it can look.
func byForm(asks []toolcall.Ask, open []int) [2][]int {
	var forms [2][]int
	for _, at := range open {
		form := 0
		if isJob(asks[at].ID) {
			form = 1
		}
		forms[form] = append(forms[form], at)
	}
	return forms
}

// askSome asks one source and returns what it does not have.
func askSome(ctx context.Context, source toolcall.Source, asks []toolcall.Ask, part []int, found []finding) (open []int) {
	some := make([]toolcall.Ask, len(part))
	for i, at := range part {
		some[i] = asks[at]
	}
	l := &look{ctx: ctx, source: source}
	for i, f := range l.all(some) {
		at := part[i]
		switch {
		case f.err == nil && f.status.State != toolcall.StateNone:
			found[at] = f
			continue
		case f.err != nil:
			found[at].err, found[at].alone = f.err, f.alone
		}
		open = append(open, at)
	}
	return open
}

// look is one look at one source. One record that cannot be read fails the whole of a question: it is found by halving, so that
// nobody else goes without an answer.
type look struct {
	ctx    context.Context
	source toolcall.Source
	misses int   // in a row
	err    error // of the last of them
	hits   int
}

// all answers each ask. What fails beside others that do not is asked for once more: a connection that broke fails once, and a
// record that cannot be read does each time.
func (l *look) all(asks []toolcall.Ask) []finding {
	found := l.some(asks)
	for i := range found {
		switch {
		case found[i].err == nil:
		case l.hits == 0: // it is not about this record
			return found
		default:
			again := l.some(asks[i : i+1])
			found[i], found[i].alone = again[0], again[0].err != nil && !l.lost()
		}
	}
	return found
}

// lost reports whether it makes no sense to go on.
func (l *look) lost() bool { return l.misses >= mostMisses || l.ctx.Err() != nil }

func (l *look) some(asks []toolcall.Ask) []finding {
	found := make([]finding, len(asks))
	if !l.lost() || l.err == nil {
		statuses, err := l.statuses(asks)
		if err == nil {
			l.misses, l.hits = 0, l.hits+1
			for i, status := range statuses {
				found[i].status = status
			}
			return found
		}
		l.misses, l.err = l.misses+1, err
	}
	if len(asks) == 1 || l.lost() {
		for i := range found {
			found[i].err = l.err
		}
		return found
	}
	half := len(asks) / 2
	return append(l.some(asks[:half]), l.some(asks[half:])...)
}

// statuses asks, and outlives a hook of the user's that panics: nobody else would stop that here.
func (l *look) statuses(asks []toolcall.Ask) (statuses []toolcall.Status, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("statustool: a source panicked: %v\n%s", v, debug.Stack())
		}
	}()
	statuses, err = l.source.Statuses(l.ctx, asks)
	if err == nil && len(statuses) != len(asks) {
		err = errors.New("statustool: a source gave another number of answers than it was asked for; see toolcall.Source")
	}
	return statuses, err
}

// changed returns a channel for each source, which is closed at its next change.
func (s sources) changed() []<-chan struct{} {
	channels := make([]<-chan struct{}, len(s))
	for i, source := range s {
		channels[i] = source.Changed()
	}
	return channels
}

// anyClosed reports whether there was a change since the channels were taken.
func anyClosed(channels []<-chan struct{}) bool {
	for _, c := range channels {
		select {
		case <-c:
			return true
		default:
		}
	}
	return false
}
