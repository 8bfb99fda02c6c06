package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/txonce/txonce/toolcall"
)

// worker makes calls one after the other.
type worker struct {
	rng   *rand.Rand
	known []string        // keys of calls that were made before
	took  []time.Duration // how long the calls of the last run took
}

func newWorkers(n int, known []string) []*worker {
	workers := make([]*worker, n)
	for i := range workers {
		workers[i] = &worker{
			rng:   rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())),
			known: known,
			took:  make([]time.Duration, 0, 1<<14), // room that is not to count as an allocation of a call
		}
	}
	return workers
}

// drive lets all workers make calls for a while. The rate is the sum of the workers' own, so that those who have
// finished and wait for the last one do not count.
func drive(ctx context.Context, workers []*worker, s shape, l *link, length time.Duration) (calls int, rate float64, err error) {
	began := time.Now()
	rates := make([]float64, len(workers))
	err = together(len(workers), func(i int) error {
		err := workers[i].run(ctx, s, l, began.Add(length))
		rates[i] = float64(len(workers[i].took)) / time.Since(began).Seconds()
		return err
	})
	for i, w := range workers {
		calls += len(w.took)
		rate += rates[i]
	}
	return calls, rate, err
}

// run makes calls until the time has come, at least one.
func (w *worker) run(ctx context.Context, s shape, l *link, until time.Time) error {
	w.took = w.took[:0]
	for began := time.Now(); ; {
		if err := s.call(ctx, l, w.keyFor(s)); err != nil {
			return fmt.Errorf("%s, %s: %w", s.name, l.name, err)
		}
		ended := time.Now()
		w.took = append(w.took, ended.Sub(began))
		if !ended.Before(until) {
			return nil
		}
		began = ended
	}
}

func (w *worker) keyFor(s shape) string {
	if s.replays {
		return w.known[w.rng.IntN(len(w.known))]
	}
	return w.newKey()
}

// newKey returns a key that looks like a UUID.
func (w *worker) newKey() string {
	var id toolcall.ID // for its text
	for i := range id {
		id[i] = byte(w.rng.Uint32())
	}
	return id.String()
}

// makeKnown makes n calls of ours and returns their keys.
func makeKnown(ctx context.Context, l *link, n int) ([]string, error) {
	keys, work := make([]string, n), make(chan string, n)
	w := newWorkers(1, nil)[0]
	for i := range keys {
		keys[i] = w.newKey()
		work <- keys[i]
	}
	close(work)
	return keys, together(int(l.pool.Config().MaxConns), func(int) error {
		for key := range work {
			if err := callOurs(ctx, l, key); err != nil {
				return err
			}
		}
		return nil
	})
}

// together runs n functions at once and returns what went wrong.
func together(n int, do func(i int) error) error {
	errs := make([]error, n)
	var running sync.WaitGroup
	for i := range n {
		running.Go(func() { errs[i] = do(i) })
	}
	running.Wait()
	return errors.Join(errs...)
}
