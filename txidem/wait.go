package txidem

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/txonce/txonce/toolcall"
)

// waits lets the duplicates that wait in this process do so together: per identity one of them at a time asks the
// database, without a connection in between, and the others are told (I6). A thousand duplicates cost what one does.
type waits struct {
	mu sync.Mutex
	of map[toolcall.ID]*wait
}

// wait is the wait for one identity.
type wait struct {
	waiting int           // guarded by waits.mu
	lead    chan struct{} // holds the right to ask, at most one
	nudge   chan struct{} // the claim has just been given up in this process: ask now
	done    chan struct{} // closed when record is known
	record  *record
}

// waiter is the place of one call in a wait. The zero value waits for nothing yet.
type waiter struct {
	waits *waits
	id    toolcall.ID
	until time.Time
	pause time.Duration

	wait    *wait
	leading bool
}

// The pauses between two questions grow from shortest to longest. A call that just ended elsewhere is seen soon, and
// one that takes its time costs four short reads a second.
const (
	shortestPause = 5 * time.Millisecond
	longestPause  = 250 * time.Millisecond
)

var errWaitOver = errors.New("txidem: waited for as long as the policy allows")

// next returns the record when somebody else got it, or nil when it is time to ask the database again. It returns
// errWaitOver when this call has waited for as long as it may.
func (w *waiter) next(ctx context.Context) (*record, error) {
	left := time.Until(w.until)
	if left <= 0 {
		return nil, errWaitOver
	}
	w.join()
	var lead chan struct{}
	nudge := w.wait.nudge
	if w.leading {
		left = min(left, w.grow())
	} else {
		lead, nudge = w.wait.lead, nil
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return nil, contextError(ctx)
	case <-w.wait.done:
		return w.wait.record, nil
	case <-lead:
		w.leading = true
		return nil, nil
	case <-nudge:
		return nil, nil
	case <-timer.C:
		if w.leading {
			return nil, nil // once more, also at the very end
		}
		return nil, errWaitOver
	}
}

// grow returns the next pause, with jitter so that processes do not ask in step.
func (w *waiter) grow() time.Duration {
	w.pause = min(max(w.pause*8/5, shortestPause), longestPause)
	return w.pause/2 + rand.N(w.pause/2+1)
}

func (w *waiter) join() {
	if w.wait != nil {
		return
	}
	w.waits.mu.Lock()
	defer w.waits.mu.Unlock()
	if w.waits.of == nil {
		w.waits.of = make(map[toolcall.ID]*wait)
	}
	found, ok := w.waits.of[w.id]
	if !ok {
		found = &wait{lead: make(chan struct{}, 1), nudge: make(chan struct{}, 1), done: make(chan struct{})}
		w.waits.of[w.id] = found
		w.leading = true
	}
	found.waiting++
	w.wait = found
}

// leave hands the lead to the next one and forgets a wait that nobody is in.
func (w *waiter) leave() {
	if w.wait == nil {
		return
	}
	w.waits.mu.Lock()
	defer w.waits.mu.Unlock()
	if w.leading {
		w.leading = false
		w.wait.lead <- struct{}{} // never blocks: there is one lead, and it was here
	}
	if w.wait.waiting--; w.wait.waiting == 0 && w.waits.of[w.id] == w.wait {
		delete(w.waits.of, w.id)
	}
	w.wait = nil
}

// settle tells all who wait in this process what the record is.
func (ws *waits) settle(id toolcall.ID, r *record) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if found, ok := ws.of[id]; ok {
		shared := *r
		shared.answer = bytes.Clone(r.answer) // the other one is its caller's, to do with as it likes
		found.record = &shared
		close(found.done)
		delete(ws.of, id)
	}
}

// release tells the one who leads that the claim is free again.
func (ws *waits) release(id toolcall.ID) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if found, ok := ws.of[id]; ok {
		select {
		case found.nudge <- struct{}{}:
		default:
		}
	}
}
