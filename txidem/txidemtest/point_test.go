package txidemtest

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEdges_OfALongCallOnly(t *testing.T) {
	t.Parallel()
	for n, want := range map[int][]int{
		0: nil, 1: {0}, 8: {0, 1, 2, 3, 4, 5, 6, 7}, 10: {0, 1, 2, 3, 6, 7, 8, 9},
	} {
		if diff := cmp.Diff(want, edges(n)); diff != "" {
			t.Errorf("of %d (-want +got):\n%s", n, diff)
		}
	}
}

func TestPattern_MatchesOneTest(t *testing.T) {
	t.Parallel()
	if got, want := pattern("TestA/b_(c)/d#01"), `^TestA$/^b_\(c\)$/^d#01$`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestPoints_SayWhetherCommitWasSent: behind it, a process that died may have left its effect, and before it not.
func TestPoints_SayWhetherCommitWasSent(t *testing.T) {
	t.Parallel()
	s := shape{turns: []turn{
		{name: "the claim", commits: true, reads: true}, {name: "the record and commit", commits: true, partly: true}, {name: "what follows"},
	}}
	got := map[string]bool{}
	for _, p := range s.points(true) {
		if p.Fault == killed {
			got[p.name] = p.commit
		}
	}
	want := map[string]bool{
		"process killed before the claim": false, "process killed inside the claim": false, "process killed after the claim": false,
		"process killed before the record and commit": false, "process killed before COMMIT of the record and commit": false,
		"process killed inside the record and commit": true, "process killed after the record and commit": true,
		"process killed before what follows": true, "process killed inside what follows": true, "process killed after what follows": true,
		"process killed before the reply": true,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
