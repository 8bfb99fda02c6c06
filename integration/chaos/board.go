package main

import (
	"math/rand/v2"
	"sync"
)

// board has the intents that agents know of: each may work on any of them.
type board struct {
	seed uint64

	mu       sync.Mutex
	all      []intent
	answered map[int]said // the first answer that anybody saw
	open     []int
	tries    int
}

func newBoard(seed uint64) *board { return &board{seed: seed, answered: make(map[int]said)} }

// next draws a new intent.
func (b *board) next() intent {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := newIntent(b.seed, len(b.all))
	b.all = append(b.all, i)
	b.open = append(b.open, i.N)
	return i
}

// anOpen returns an intent that nobody has seen an answer of, if there is one.
func (b *board) anOpen(rng *rand.Rand) (i intent, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.open) > 0 {
		at := rng.IntN(len(b.open))
		n := b.open[at]
		if _, over := b.answered[n]; !over {
			return b.all[n], true
		}
		b.open[at] = b.open[len(b.open)-1]
		b.open = b.open[:len(b.open)-1]
	}
	return i, false
}

// any returns one of the intents, if there is one.
func (b *board) any(rng *rand.Rand) (i intent, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.all) == 0 {
		return i, false
	}
	return b.all[rng.IntN(len(b.all))], true
}

// try gives a call a number of its own.
func (b *board) try() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tries++
	return b.tries
}

// heard notes the answer of an intent.
func (b *board) heard(n int, s said) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, before := b.answered[n]; !before {
		b.answered[n] = s
	}
}

// answer returns the first answer that anybody saw of an intent.
func (b *board) answer(n int) (said, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, ok := b.answered[n]
	return s, ok
}

// intents returns those that there are.
func (b *board) intents() []intent {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]intent(nil), b.all...)
}
