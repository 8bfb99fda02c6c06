package main

import (
	"sync"
	"sync/atomic"
	"time"
)

// soakBooks is what the operations of a run came to.
type soakBooks struct {
	done      atomic.Int64 // operations that ended well
	underWay  atomic.Int64
	effects   atomic.Int64 // of calls and jobs
	tidied    atomic.Int64 // effects that are no longer in the table
	submitted atomic.Int64 // jobs
	worked    atomic.Int64
	published atomic.Int64 // messages

	mu     sync.Mutex
	errors int
	first  error
	took   histogram // since the last sample
}

// fail notes what went wrong, if anything did.
func (b *soakBooks) fail(err error) {
	if err == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.errors++; b.first == nil {
		b.first = err
	}
}

func (b *soakBooks) failures() (n int, first error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.errors, b.first
}

// end notes the end of an operation.
func (b *soakBooks) end(took time.Duration, err error) {
	if err != nil {
		b.fail(err)
		return
	}
	b.done.Add(1)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.took.add(took)
}

// since returns the times of the operations that ended since it was asked last.
func (b *soakBooks) since() histogram {
	b.mu.Lock()
	defer b.mu.Unlock()
	took := b.took
	b.took = histogram{}
	return took
}
