package outbox

import (
	"testing"
	"time"
)

// TestTurn_O02_WhereTheNextWalkBegins: behind the last key that was served, or else visited, so that each has its turn; at the
// beginning when there is none behind.
func TestTurn_O02_WhereTheNextWalkBegins(t *testing.T) {
	t.Parallel()
	served := func(keys ...string) (found []*claimed) {
		for _, key := range keys {
			m := of(func(*claimed) {})
			m.OrderingKey = key
			found = append(found, m)
		}
		return found
	}
	for label, c := range map[string]struct {
		from    string
		found   []*claimed
		more    bool
		next    string
		walking bool
	}{
		"all slots are taken":           {"", served("b", "d"), false, "d", true},
		"all are taken, and more wait":  {"", served("d", "b"), true, "d", true},
		"there are more keys":           {"", served("b"), true, "k", true},
		"it went through all":           {"", served("b"), false, "", false},
		"it began in the middle":        {"b", served("c"), false, "", true},
		"it began in the middle, again": {"b", nil, true, "k", true},
	} {
		s := &slots{key: c.from, pace: paceOfWalks}
		l := &look{slots: s, keyed: 2, found: c.found, more: c.more, lastKey: "k", sent: time.Now().Add(time.Minute)} // a quick walk, however slow the machine
		if walking := l.turn(len(c.found)); s.key != c.next || walking != c.walking {
			t.Errorf("%s: the next one begins behind %q, want %q; it goes on: %v", label, s.key, c.next, walking)
		}
	}
}
