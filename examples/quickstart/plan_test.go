package main

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPlan_FollowsFromTheSeed(t *testing.T) {
	t.Parallel()
	everything := cmp.AllowUnexported(intent{}, field{}, mishap{})
	for seed := range uint64(20) {
		if diff := cmp.Diff(newPlan(seed), newPlan(seed), everything); diff != "" {
			t.Fatalf("seed %d: %s", seed, diff)
		}
	}
	if cmp.Equal(newPlan(1), newPlan(2), everything) {
		t.Error("seeds 1 and 2 make the same plan")
	}
}

// TestPlan_ShowsEverything holds for each seed what the demo says it shows.
func TestPlan_ShowsEverything(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		subjects := make(map[string]bool)
		seen := make(map[string]map[way]int)
		var failing, moody, slow, doubled int
		for _, in := range newPlan(seed) {
			subjects[in.subject] = true
			if seen[in.tool] == nil {
				seen[in.tool] = make(map[way]int)
			}
			seen[in.tool][in.way]++
			count := func(n *int, really bool) {
				if really {
					*n++
				}
			}
			count(&failing, in.failing)
			count(&moody, in.mishap.moody)
			count(&slow, in.mishap.slow > 0)
			count(&doubled, in.copies > 1)
		}
		if len(subjects) != intentCount || failing != failingCount || moody != moodyCount || slow != slowCount || doubled != slowCount+doubledCount {
			t.Errorf("seed %d: %d subjects, %d failing, %d moody, %d slow, %d doubled", seed, len(subjects), failing, moody, slow, doubled)
		}
		for _, tool := range tools() {
			if len(seen[tool]) != int(wayCount) {
				t.Errorf("seed %d: %s is repeated in %d ways only", seed, tool, len(seen[tool]))
			}
		}
	}
}

// TestPlan_MakesEnoughCalls lets a perfect server answer each plan over the network's faults.
func TestPlan_MakesEnoughCalls(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		calls := 0
		for _, in := range newPlan(seed) {
			calls += leastCallsOf(seed, in)
		}
		if calls < leastCalls {
			t.Errorf("seed %d: %d calls, want %d", seed, calls, leastCalls)
		}
	}
}

func leastCallsOf(seed uint64, in *intent) (calls int) {
	attempt := 0
	for range in.rounds {
		answered := false
		for try := 0; try < tries && !answered; try++ {
			attempt++
			copies := 1
			if try == 0 {
				copies = in.copies
			}
			for i := range copies {
				switch faultFor(seed, callName{in.number, attempt, i}) {
				case cutBefore:
				case lostAnswer, cutAnswer, lateAnswer:
					calls++
				case sentTwice:
					calls += 2
					answered = true
				case noFault:
					calls++
					answered = true
				}
			}
		}
	}
	return calls
}

func TestFaults_FollowFromSeedAndName(t *testing.T) {
	t.Parallel()
	met := make(map[fault]int)
	const names = 10_000
	for i := range names {
		name := callName{i % 80, i / 80, i % 3}
		f := faultFor(7, name)
		if again := faultFor(7, name); again != f {
			t.Fatalf("%v: %v, then %v", name, f, again)
		}
		parsed, ok := parseName(name.String())
		if !ok || parsed != name {
			t.Fatalf("%v is read as %v, %v", name, parsed, ok)
		}
		met[f]++
	}
	if share := float64(names-met[noFault]) / names; share < 0.40 || share > 0.50 {
		t.Errorf("%.2f of the calls meet a fault, want 0.40 to 0.50", share)
	}
	for _, f := range []fault{cutBefore, lostAnswer, cutAnswer, lateAnswer, sentTwice} {
		if met[f] < names/20 {
			t.Errorf("%v happened %d times only", f, met[f])
		}
	}
}

func TestWorded_MeansTheSame(t *testing.T) {
	t.Parallel()
	for _, in := range newPlan(5) {
		var want any
		if err := json.Unmarshal(worded(in.fields, 0), &want); err != nil {
			t.Fatal(err)
		}
		spellings := make(map[string]bool)
		for variant := range 6 {
			raw := worded(in.fields, variant)
			spellings[string(raw)] = true
			var got any
			if err := json.Unmarshal(raw, &got); err != nil {
				t.Fatalf("%s: %v", raw, err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: %s", raw, diff)
			}
		}
		if len(spellings) < 3 {
			t.Errorf("%v is spelled in %d ways only", in.fields, len(spellings))
		}
	}
}
