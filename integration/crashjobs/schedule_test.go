package main

import (
	"testing"

	"github.com/txonce/txonce/integration/internal/lives"
)

// TestSchedule_SplitsTheKills: among the steps, also where processes live that were to die, or die elsewhere.
func TestSchedule_SplitsTheKills(t *testing.T) {
	t.Parallel()
	s := newSchedule(options{kills: 84, seed: 5}, lives.Place{})
	all := proofs()
	stops := 0
	for n := 0; !s.enough(); n++ {
		if n > 1000 {
			t.Fatalf("there is no end: %v", s.deaths)
		}
		var a assignment
		if n%3 == 0 {
			var ok bool
			if a, ok = s.server(true); !ok {
				t.Fatal("a server has nothing to do, and more is wanted")
			}
		} else {
			a = s.worker()
		}
		if a.Stop != nil {
			stops++
		}
		s.settle(a, lifeOf(a, n, all))
	}
	for _, st := range steps() {
		if d := s.deaths[st]; d < 10 || d > 14 {
			t.Errorf("%d deaths at %s: %v", d, st, s.deaths)
		}
	}
	if stops < 10 {
		t.Errorf("%d workers are stopped", stops)
	}
	select {
	case <-s.over:
	default:
		t.Error("it is not over")
	}
}

// lifeOf is a life as it was planned, but for some.
func lifeOf(a assignment, n int, all map[point]mark) life {
	l := life{}
	for i, c := range a.Calls {
		if i < 2 {
			l.told = append(l.told, answer{Intent: c.Task.Intent, Job: "A"})
		}
	}
	switch {
	case a.Death == nil || n%5 == 1: // it lived
	case n%7 == 2 && a.Role == worker: // a job killed it before
		proof := all[computeBegun]
		l.killed, l.mark = true, &proof
	default:
		proof := all[a.Death.Point]
		l.killed, l.mark = true, &proof
	}
	return l
}

// TestSchedule_IntentsAreHandedOutUntilTheyAreTold: by one server at a time, but for repeats.
func TestSchedule_IntentsAreHandedOutUntilTheyAreTold(t *testing.T) {
	t.Parallel()
	s := newSchedule(options{kills: 70, seed: 3}, lives.Place{})
	first, ok := s.server(true)
	if !ok || len(first.Calls) < perLife {
		t.Fatalf("%+v, %v", first, ok)
	}
	if _, ok := s.server(false); ok {
		t.Error("what one server is at is given to another")
	}
	s.settle(first, life{told: []answer{{Intent: 0, Job: "A"}, {Intent: 1, Error: "odd"}}})
	again, ok := s.server(false)
	if !ok || again.Calls[0].Task.Intent != 1 || again.Calls[1].Task.Intent != 2 || !s.untold() {
		t.Fatalf("%+v, %v", again, ok)
	}
	s.settle(again, life{told: []answer{{Intent: 1, Job: "B"}, {Intent: 2, Job: "C"}}})
	if _, ok := s.server(false); ok || s.untold() {
		t.Error("there is something to do when all is told")
	}
	if last := s.last(); len(last.Calls) != perLife || last.Death != nil {
		t.Errorf("the last server makes %+v", last)
	}
}

// TestSchedule_OneWorkerIsStoppedAtATime: others must take over.
func TestSchedule_OneWorkerIsStoppedAtATime(t *testing.T) {
	t.Parallel()
	s := newSchedule(options{kills: 700, seed: 3}, lives.Place{})
	out, seen := []assignment(nil), make(map[point]int)
	for n := range 200 {
		a := s.worker()
		out = append(out, a)
		stopped := 0
		for _, b := range out {
			if b.Stop != nil {
				stopped++
			}
		}
		if stopped > 1 {
			t.Fatal("two workers are to be stopped")
		}
		if a.Stop != nil {
			seen[a.Stop.Point]++
		}
		if n > 2 {
			s.settle(out[0], life{})
			out = out[1:]
		}
	}
	for _, p := range stopPoints() {
		if seen[p] < 10 {
			t.Errorf("%d workers are stopped at %s", seen[p], p)
		}
	}
}

// TestPlant_PlainWorkersDieWhereTheyComeBy: other points would be waited for in vain.
func TestPlant_PlainWorkersDieWhereTheyComeBy(t *testing.T) {
	t.Parallel()
	s := newSchedule(options{kills: 70, seed: 3, plant: completeTx}, lives.Place{})
	for range 40 {
		if a := s.worker(); a.Stop != nil || a.Death != nil && !completeTx.reaches(a.Death.Point) {
			t.Fatalf("%+v, %+v", a.Death, a.Stop)
		}
	}
}
