package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/txonce/txonce/toolcall"
)

// wakeCell is many who wait, each for what it is told to, and what was found out about them.
type wakeCell struct {
	name  string
	near  bool // what they wait for ends in the process in which they wait
	calls bool // they wait for calls, not for jobs

	took   []time.Duration // from the end to the answer
	lasted time.Duration   // how long it was measured
	looks  int             // questions to the sources meanwhile
	look   time.Duration   // the mean of these
	conns  int             // most that were open at a time, of those who wait
}

func wakeCells() []wakeCell {
	return []wakeCell{
		{name: "jobs of another process"},
		{name: "calls of another process", calls: true},
		{name: "jobs of the same process", near: true},
		{name: "calls of the same process", near: true, calls: true},
	}
}

// errand is what somebody waits for.
type errand struct {
	id   toolcall.ID
	over chan struct{} // closed when it has ended
	at   time.Time     // when its COMMIT had been answered, from then on
	err  error
}

func newErrand() *errand { return &errand{over: make(chan struct{})} }

func (e *errand) ended(err error) {
	e.at, e.err = time.Now(), err
	close(e.over)
}

// leadTime is how long all have waited before the first one hears of an end.
const leadTime = time.Second

// measureWakes measures one cell after the other.
func (s *statusBench) measureWakes(ctx context.Context) (err error) {
	w, err := openWorld(ctx, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close(context.WithoutCancel(ctx))) }()
	s.wakes = wakeCells()
	for i := range s.wakes {
		c := &s.wakes[i]
		s.say("%d wait for %s, of which %d end in a second", s.options.waiters, c.name, s.options.perSec)
		if err := s.measureWake(ctx, w, c); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return nil
}

func (s *statusBench) measureWake(ctx context.Context, w *world, c *wakeCell) error {
	ctx, cancel := context.WithTimeoutCause(ctx, leadTime+s.options.time+2*hangs, errHangs)
	defer cancel()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	r := &wakeRun{gate: make(chan struct{})}
	next, rest, err := w.errands(ctx, c, r)
	if err != nil {
		return err
	}
	if err := s.settle(ctx); err != nil {
		return err
	}
	e := w.ears(c)
	var waiting sync.WaitGroup
	for range s.options.waiters {
		waiting.Go(func() {
			if err := r.waitAlways(ctx, e, next); err != nil {
				fail(err) // the others need not go on
			}
		})
	}
	c.lasted = s.endSome(ctx, r, e)
	c.looks, c.look = e.looks.since(r.counted)
	waiting.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := rest(ctx); err != nil {
		return err
	}
	c.took, c.conns = r.took, e.conns()
	return nil
}

// wakeRun is one run of a cell.
type wakeRun struct {
	gate    chan struct{}             // one ends for each that is sent; all do once it is closed
	open    atomic.Pointer[time.Time] // when it was closed
	counted lookCount                 // before the first end

	mu   sync.Mutex
	took []time.Duration
}

// heard is how many have heard of an end that counts.
func (r *wakeRun) heard() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.took)
}

// hears counts an end that was heard of, unless it came when all were to end.
func (r *wakeRun) hears(ended, woken time.Time) {
	if open := r.open.Load(); open != nil && !ended.Before(*open) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.took = append(r.took, woken.Sub(ended))
}

// endSome has errands end at random times, as many a second as the options say, and in the end all of them. On a machine that
// is too busy for one of them it goes on until somebody has heard of one. It returns how long that took.
func (s *statusBench) endSome(ctx context.Context, r *wakeRun, e *ears) (lasted time.Duration) {
	defer func() {
		now := time.Now()
		r.open.Store(&now)
		close(r.gate)
	}()
	if !pause(ctx, min(leadTime, s.options.time)) {
		return 0
	}
	r.counted = e.looks.now()
	mean := float64(time.Second) / float64(s.options.perSec)
	begin := time.Now()
	at := begin
	for until := at.Add(s.options.time); at.Before(until) || r.heard() == 0; {
		at = at.Add(time.Duration(rand.ExpFloat64() * mean)) // ends that keep step with the looks would tell nothing
		if !pause(ctx, time.Until(at)) {
			return 0
		}
		select {
		case r.gate <- struct{}{}:
		case <-time.After(time.Second): // all may have ended before anybody heard of it
		case <-ctx.Done():
			return 0
		}
	}
	return time.Since(begin)
}

func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// waitAlways waits for one errand after the other, until there are none. What ends when all do does not count.
func (r *wakeRun) waitAlways(ctx context.Context, e *ears, next func(context.Context) (*errand, error)) error {
	for {
		job, err := next(ctx)
		if job == nil || err != nil {
			return err
		}
		if err := e.wait(ctx, job.id); err != nil {
			return err
		}
		woken := time.Now()
		select {
		case <-job.over:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if job.err != nil {
			return job.err
		}
		r.hears(job.at, woken)
	}
}
