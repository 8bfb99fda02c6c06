package faults

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/txonce/txonce/integration/internal/servers"
	"github.com/txonce/txonce/txidem"
)

// frost is how long the server is frozen: longer than any call waits, shorter than the library has patience with silence.
const frost = 20 * time.Second

// TestServerFrozen_R08_R15_CallsHearNoAnswer stops the server where it is. Calls have deadlines that are shorter than that.
func TestServerFrozen_R08_R15_CallsHearNoAnswer(t *testing.T) {
	servers.Everywhere(t, func(t *testing.T, p servers.Place) {
		s := p.ForTest(t, nil)
		w := newWorld(t, s, &txidem.Policy{CommitTimeout: 2 * time.Second}, nil)
		var frozen atomic.Bool
		l := newLoad(w, doubting(&frozen, byRun), doubting(&frozen, byBatch))
		l.deadline = 3 * time.Second
		l.start()
		l.answered(12)
		if err := s.Freeze(t.Context()); err != nil {
			t.Fatal(err)
		}
		frozen.Store(true)
		over := time.After(frost)
		l.hears("deadline", 2*lanesOfLoad)
		<-over
		frozen.Store(false)
		if err := s.Thaw(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.answered(12)
		l.end()
		w.clean()
	})
}

// doubting is a way to call in which nothing is believed that is said to have been done while the server was frozen.
func doubting(frozen *atomic.Bool, by way) way {
	return func(ctx context.Context, w *world, a *attempt) (string, error) {
		before := frozen.Load()
		answer, err := by(ctx, w, a)
		if before && frozen.Load() && err == nil {
			w.t.Errorf("I5: %s was answered %q by a frozen server", a.key, answer)
		}
		return answer, err
	}
}
