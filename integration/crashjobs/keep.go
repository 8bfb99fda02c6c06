package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/txonce/txonce/integration/internal/lives"
)

// live runs a process to its end, of whatever kind. It returns an error only if there was none to run, if ctx ended, or if the
// process hung.
func (t *torturer) live(ctx context.Context, a assignment, longest time.Duration) error {
	if a.Death == nil && a.Role == worker {
		longest = longestLast
	}
	hung := fmt.Errorf("%s %d lived longer than %v", a.Role, a.Life, longest)
	limited, cancel := context.WithTimeoutCause(ctx, longest, hung)
	defer cancel()
	p, err := lives.Start(limited, processEnv, a, t.alive)
	if err != nil {
		return err
	}
	defer p.Close()
	t.enlist(p, a.Role)
	last := make(chan *mark, 1)
	var markErr error
	go func() {
		var left *mark
		left, markErr = t.watch(limited, p)
		last <- left
	}()
	end := p.Wait()
	died := time.Now()
	left := <-last
	t.discharge(p, end, died)
	if limited.Err() != nil {
		return context.Cause(limited)
	}
	l := newLife(end, left, markErr)
	t.progress.At(t.schedule.settle(a, l))
	t.note(a, l)
	return nil
}

// watch reads what a process leaves, until it is gone, stops it where it asks for that, and returns its last mark.
func (t *torturer) watch(ctx context.Context, p *lives.Process) (*mark, error) {
	marks := json.NewDecoder(p.Marks())
	for {
		var m mark
		switch err := marks.Decode(&m); {
		case errors.Is(err, io.EOF):
			return nil, nil
		case err != nil:
			return nil, err
		case !m.Stopped:
			_, err := io.Copy(io.Discard, p.Marks())
			return &m, err
		}
		t.hold(ctx, p, m)
	}
}

// enlist takes note of a process that is there, and tells it what all have been told.
func (t *torturer) enlist(p *lives.Process, r role) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running[p] = r
	if t.sparing {
		p.Say(spare)
	}
	if t.leaving && r == worker {
		p.Say(leave)
	}
}

func (t *torturer) discharge(p *lives.Process, end lives.End, died time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.running, p)
	if end.Killed() {
		t.lastKill = died
	}
}

// spareAll has nobody die any more, but for those whose job kills them.
func (t *torturer) spareAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sparing = true
	for p := range t.running {
		p.Say(spare)
	}
}

func (t *torturer) leaveAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.leaving = true
	for p, r := range t.running {
		if r == worker {
			p.Say(leave)
		}
	}
}

func (t *torturer) isSparing() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sparing
}

func (t *torturer) isLeaving() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.leaving
}

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
