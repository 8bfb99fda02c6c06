package main

import (
	"context"
	"fmt"
	"time"

	"github.com/txonce/txonce/integration/internal/lives"
)

// live runs a process to its end, of whatever kind. It returns an error only if there was none to run, if ctx ended, or if the
// process hung.
func (t *torturer) live(ctx context.Context, a assignment, longest time.Duration) error {
	if a.Death == nil && a.Role == worker {
		longest = longestLast
	}
	var left *mark
	var markErr error
	end, err := t.keeper.Live(ctx, string(a.Role), a, longest, func(ctx context.Context, p *lives.Process) {
		left, markErr = lives.Watch(p, func(m mark) bool { return m.Stopped }, func(m mark) { t.hold(ctx, p, m) })
	})
	if err != nil {
		return err
	}
	l := newLife(end, left, markErr)
	t.progress.At(t.schedule.settle(a, l))
	t.note(a, l)
	return nil
}

// spareAll has nobody die any more, but for those whose job kills them.
func (t *torturer) spareAll() {
	t.keeper.Tell(string(worker), spare)
	t.keeper.Tell(string(server), spare)
}

func (t *torturer) leaveAll() { t.keeper.Tell(string(worker), leave) }

func (t *torturer) isSparing() bool { return t.keeper.Told(string(worker), spare) }

func (t *torturer) isLeaving() bool { return t.keeper.Told(string(worker), leave) }

func (t *torturer) note(a assignment, l life) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := &t.history
	for _, said := range l.told {
		h.told = append(h.told, told{answer: said, Life: a.Life})
	}
	if d, ok := l.death(); ok {
		h.deaths = append(h.deaths, d)
	}
	if l.problem != "" {
		h.problems = append(h.problems, fmt.Sprintf("%s %d: %s", a.Role, a.Life, l.problem))
	}
}
