package main

import (
	"math/rand/v2"
	"sync"
	"time"
)

// recent remembers the last calls that succeeded, no more of them in a long run than in a short one.
type recent struct {
	mu    sync.Mutex
	calls [1024]knownCall
	n     int // calls so far
}

// knownCall is a call and its answer.
type knownCall struct {
	key    string
	answer receipt
	at     time.Time // a moment before it was recorded
}

func (r *recent) add(c knownCall) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls[r.n%len(r.calls)] = c
	r.n++
}

// pick returns one that is younger than the age, if there is one among two: any, and the last.
func (r *recent) pick(age time.Duration) (knownCall, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.n == 0 {
		return knownCall{}, false
	}
	for _, i := range [2]int{rand.IntN(min(r.n, len(r.calls))), (r.n - 1) % len(r.calls)} {
		if time.Since(r.calls[i].at) < age {
			return r.calls[i], true
		}
	}
	return knownCall{}, false
}
