package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/txonce/txonce/integration/internal/lives"
)

// TestSchedule_SplitsTheKills: among the modes and, in each of them, among the steps. Workers that live are replaced.
func TestSchedule_SplitsTheKills(t *testing.T) {
	t.Parallel()
	for name, modes := range map[string][]mode{"all": allModes(), "two": {batchMode, leasedMode}, "one": {txMode}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := options{kills: 83, seed: 5, modes: modes, isolations: allIsolations()}
			s := newSchedule(o, lives.Place{})
			got, want := make(map[mode]int), make(map[mode]int)
			for n := 0; ; n++ {
				a, more := s.next()
				if !more {
					break
				}
				if len(a.Calls) < openIntents {
					t.Fatalf("a worker that is to die in %s makes %d calls", a.Death.Mode, len(a.Calls))
				}
				for _, c := range a.Calls {
					if c.Mode.leased() != a.Death.Mode.leased() || c.Mode.leased() != (c.Lost != "") {
						t.Fatalf("a worker that is to die in %s makes %+v", a.Death.Mode, c)
					}
				}
				l := life{}
				if n%4 > 0 {
					proof := proofs(a.Death.Mode)[a.Death.Point]
					l = life{killed: true, mark: &proof}
					got[a.Death.Mode]++
				}
				s.settle(a, l)
			}
			for _, m := range modes {
				want[m] = o.share(m)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			for at, n := range s.deaths {
				if even := o.share(at.mode) / len(steps()); n < even || n > even+1 {
					t.Errorf("%d deaths at %+v of %d", n, at, o.share(at.mode))
				}
			}
		})
	}
}
