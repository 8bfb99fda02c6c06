package outbox

import (
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// lanes is what a relay remembers of a destination's ordering keys, for the time in which a walk from key to key is slow. Rows that
// are gone stay in the index while somebody holds an old snapshot, and a walk goes through all of them (O10): then a walk may
// take a twentieth of the time, and between two of them the relay looks at the keys that have something new, and at those that
// it has just delivered a message of. What it does not see so, such as the message of a relay that has died, the next walk finds.
type lanes struct {
	mu     sync.Mutex
	hot    map[string]time.Time // keys that may have a message to claim, and from when on
	floors map[string]int64     // nothing of the key with this number or a lower one is pending
	newest int64                // the highest number that was seen
	from   int64                // what is new has a higher one: the highest that was seen a second ago
	turned time.Time
	walk   time.Time // when the next walk begins
}

const (
	// slowWalk is what a walk may take without being made less often.
	slowWalk = 5 * time.Millisecond
	// mostNews bounds how many new messages one statement finds.
	mostNews = 500
	// mostKeys bounds how many keys are remembered.
	mostKeys = 100_000
)

// walks reports whether it is time for a walk.
func (l *lanes) walks(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !now.Before(l.walk)
}

// walked notes how long a walk took.
func (l *lanes) walked(took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.walk = time.Time{}
	if took > slowWalk {
		l.walk = time.Now().Add(min(20*took, 5*time.Second))
	}
}

// slow reports whether walks are slow.
func (l *lanes) slow() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.walk.IsZero()
}

// first notes that the message of that number is the first one of its key: who comes before it has ended, and numbers are in the
// order of commits.
func (l *lanes) first(key string, seq int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.floors == nil || len(l.floors) >= mostKeys {
		l.floors = make(map[string]int64)
	}
	l.floors[key] = max(l.floors[key], seq-1)
	l.seen(seq)
}

// seen moves what counts as new. Messages of one second are looked at more than once: who has the lower number may commit later.
func (l *lanes) seen(seq int64) {
	if now := time.Now(); now.Sub(l.turned) > time.Second {
		l.from, l.turned = l.newest, now
	}
	l.newest = max(l.newest, seq)
}

// mind has the key looked at after the wait, if walks are slow.
func (l *lanes) mind(key string, wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.walk.IsZero() {
		return
	}
	l.heat(key, time.Now().Add(wait))
}

func (l *lanes) heat(key string, at time.Time) {
	if l.hot == nil || len(l.hot) >= mostKeys {
		l.hot = make(map[string]time.Time)
	}
	l.hot[key] = at
}

// asks returns what to look at: keys whose time has come, each with its floor.
func (l *lanes) asks(now time.Time) (keys []string, floors []int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, at := range l.hot {
		if at.After(now) {
			continue
		}
		if keys = append(keys, key); len(keys) == mostVisits {
			break
		}
	}
	for _, key := range keys {
		delete(l.hot, key) // it comes back if there is something to come back for
		floors = append(floors, l.floors[key])
	}
	return keys, floors
}

// readNews reads the keys of messages that are new. A key that is known to wait for something waits on.
func (l *lanes) readNews(rows pgx.Rows) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for ; rows.Next(); n++ {
		var key string
		var seq int64
		if err := rows.Scan(&key, &seq); err != nil {
			return err
		}
		if _, known := l.hot[key]; !known {
			l.heat(key, time.Time{})
		}
		l.seen(seq)
	}
	if n == mostNews { // go on behind the last one
		l.from = l.newest
	}
	return rows.Err()
}

// since returns the number behind which messages are new.
func (l *lanes) since() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.from
}
