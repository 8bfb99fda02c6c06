package outbox

import (
	"testing"
	"time"
)

// TestLanes_O10_WalksPauseWhenTheyAreSlow: a twentieth of the time, and never rarer than each five seconds; quick ones go on.
func TestLanes_O10_WalksPauseWhenTheyAreSlow(t *testing.T) {
	t.Parallel()
	for took, want := range map[time.Duration]time.Duration{
		0: 0, slowWalk: 0, 10 * time.Millisecond: 200 * time.Millisecond, time.Second: 5 * time.Second,
	} {
		if got := paceOfWalks(took); got != want {
			t.Errorf("behind a walk of %v the pause is %v, want %v", took, got, want)
		}
	}
}

// TestLanes_O02_FloorsOnlyRise: a floor that fell would cost time; one that was above a pending message would lose that one's turn.
func TestLanes_O02_FloorsOnlyRise(t *testing.T) {
	t.Parallel()
	l := &lanes{walk: time.Now().Add(time.Hour)}
	for _, seq := range []int64{5, 9, 7} {
		l.first("k", seq)
	}
	l.mind("k", 0)
	l.mind("later", time.Hour)
	keys, floors := l.asks(time.Now())
	if len(keys) != 1 || keys[0] != "k" || floors[0] != 8 {
		t.Errorf("it asks for %v above %v, want k above 8", keys, floors)
	}
	if keys, _ = l.asks(time.Now()); keys != nil {
		t.Errorf("it asks for %v again without a reason", keys)
	}
}

// TestLanes_O10_RemembersNothingWhileWalksAreQuick: nor more than it may.
func TestLanes_O10_RemembersNothingWhileWalksAreQuick(t *testing.T) {
	t.Parallel()
	l := &lanes{}
	l.mind("k", 0)
	if keys, _ := l.asks(time.Now()); keys != nil {
		t.Errorf("it asks for %v", keys)
	}
	l.walk = time.Now().Add(time.Hour)
	for n := range mostKeys + 10 {
		key := string([]byte{byte(n), byte(n >> 8), byte(n >> 16)})
		l.mind(key, 0)
		l.first(key, int64(n))
	}
	if len(l.hot) > mostKeys || len(l.floors) > mostKeys {
		t.Errorf("it remembers %d and %d keys, want at most %d", len(l.hot), len(l.floors), mostKeys)
	}
	if l.walked(time.Millisecond, paceOfWalks); l.slow() || !l.walks(time.Now()) || l.since() != 0 {
		t.Error("behind a quick walk, walks are still slow, or not all messages are new")
	}
}
