package main

import (
	"testing"

	"github.com/txonce/txonce/integration/internal/lives"
)

// TestSchedule_SplitsTheKills: among the steps, also where processes live that were to die, or die elsewhere.
func TestSchedule_SplitsTheKills(t *testing.T) {
	t.Parallel()
	s := newSchedule(options{kills: 84, seed: 5}, lives.Place{}, "")
	all := proofs()
	stops := 0
	for n := 0; !s.enough(); n++ {
		if n > 1000 {
			t.Fatalf("there is no end: %v", s.deaths)
		}
		a := s.relay()
		if n%3 == 0 {
			var ok bool
			s.settle(a, life{})
			if a, ok = s.server(true); !ok {
				t.Fatal("a server has nothing to do, and more is wanted")
			}
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
		t.Errorf("%d relays are stopped", stops)
	}
	select {
	case <-s.over:
	default:
		t.Error("it is not over")
	}
}

// lifeOf is a life as it was planned, but for some that lived.
func lifeOf(a assignment, n int, all map[point]mark) life {
	l := life{}
	for i, c := range a.Calls {
		if i < 2 {
			l.told = append(l.told, answer{Intent: c.N, Run: "1.1"})
		}
	}
	if a.Death != nil && n%5 != 1 {
		proof := all[a.Death.Point]
		l.killed, l.mark = true, &proof
	}
	return l
}

// TestSchedule_IntentsAreHandedOutUntilTheyAreTold: by one server at a time, but for repeats, of which plain transactions have none.
func TestSchedule_IntentsAreHandedOutUntilTheyAreTold(t *testing.T) {
	t.Parallel()
	s := newSchedule(options{kills: 70, seed: 3}, lives.Place{}, "")
	first, ok := s.server(true)
	if !ok || len(first.Calls) != perLife {
		t.Fatalf("%+v, %v", first, ok)
	}
	if _, ok := s.server(false); ok {
		t.Error("what one server is at is given to another")
	}
	var said []answer
	for _, i := range first.Calls[2:] {
		said = append(said, answer{Intent: i.N, Run: "1.1", Failed: i.Fails})
	}
	s.settle(first, life{told: append(said, answer{Intent: first.Calls[1].N, Error: "odd"})})
	again, ok := s.server(false)
	if !ok || again.Calls[0].N != 0 || again.Calls[1].N != 1 || !s.untold() {
		t.Fatalf("%+v, %v", again, ok)
	}
	s.settle(again, life{told: []answer{{Intent: 0, Run: "1.1"}, {Intent: 1, Failed: true}}})
	if _, ok := s.server(false); ok || s.untold() {
		t.Error("there is something to do when all is told")
	}
	for range 50 {
		a, ok := s.server(true)
		for _, i := range a.Calls {
			if !ok || i.Way == plainTx && s.told[i.N] {
				t.Fatalf("%v: what was done in a plain transaction is done again: %+v", ok, i)
			}
		}
		var said []answer
		for _, i := range a.Calls {
			said = append(said, answer{Intent: i.N, Run: "1.1"})
		}
		s.settle(a, life{told: said})
	}
	plain := 0
	for _, i := range s.intents {
		if i.Way == plainTx {
			plain++
		}
	}
	if last := s.last(); len(last.Calls) != len(s.intents)-plain || last.Death != nil {
		t.Errorf("the last server makes %+v", last)
	}
}

// TestSchedule_OneRelayIsStoppedAtATime: others must take over.
func TestSchedule_OneRelayIsStoppedAtATime(t *testing.T) {
	t.Parallel()
	s := newSchedule(options{kills: 700, seed: 3}, lives.Place{}, "")
	out, seen := []assignment(nil), make(map[point]int)
	for n := range 400 {
		a := s.relay()
		out = append(out, a)
		stopped := 0
		for _, b := range out {
			if b.Stop != nil {
				stopped++
			}
		}
		if stopped > 1 {
			t.Fatal("two relays are to be stopped")
		}
		if a.Stop != nil {
			seen[a.Stop.Point]++
		}
		if n > 8 {
			s.settle(out[0], life{})
			out = out[1:]
		}
	}
	for _, p := range stopPoints() {
		if seen[p] < 10 {
			t.Errorf("%d relays are stopped at %s", seen[p], p)
		}
	}
}

// TestPlant_PlainRelaysDieWhereTheyComeBy: other points would be waited for in vain.
func TestPlant_PlainRelaysDieWhereTheyComeBy(t *testing.T) {
	t.Parallel()
	s := newSchedule(options{kills: 70, seed: 3, plant: deleteFirst}, lives.Place{}, "")
	for range 40 {
		if a := s.relay(); a.Stop != nil || a.Death != nil && !deleteFirst.reaches(a.Death.Point) {
			t.Fatalf("%+v, %+v", a.Death, a.Stop)
		}
	}
}

// TestReceiver_PlanEndsWell: each delivery is drawn, each message is taken in the end, and each act is there.
func TestReceiver_PlanEndsWell(t *testing.T) {
	t.Parallel()
	seen := make(map[act]int)
	for n := range 2000 {
		name := bodyOf("")[:1+n%7]
		for before := range mostBad {
			what := actOn(uint64(n), string(name), before)
			if what != actOn(uint64(n), string(name), before) {
				t.Fatal("it is drawn anew")
			}
			seen[what]++
		}
		if what := actOn(uint64(n), string(name), mostBad); what != accepts {
			t.Fatalf("in the end it is %s", what)
		}
	}
	for _, what := range acts() {
		if seen[what] == 0 {
			t.Errorf("none is %s", what)
		}
	}
}
