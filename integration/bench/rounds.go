package main

import (
	"context"
	"errors"
	"sync"
	"time"
)

// turn is what one turn of a size found out.
type turn struct {
	p50   time.Duration
	calls int // beside the sweeper
	swept int // beside these calls
	wal   int64
	// Of the short part without a sweeper.
	quietCalls int
	quietWAL   int64
}

// A turn of a size is short, so that what else the machine does hits all sizes alike, and long enough for the sweeper to
// come by several times. A part of it goes without the sweeper: its WAL is that of calls alone.
const (
	turnTime   = 3 * time.Second
	quietPart  = 6 // of the turn's time, its reciprocal
	leadIn     = 10
	sweepEvery = 500 * time.Millisecond
)

// measure lets the sizes take turns.
func (g *growth) measure(ctx context.Context) error {
	length := min(turnTime, g.options.time)
	rounds := max(1, int(g.options.time/length))
	workers := newWorkers(g.options.workers, nil)
	if err := g.largest().db.writeOut(ctx); err != nil {
		return err
	}
	for _, s := range g.sizes { // plans and caches
		if _, err := s.call(ctx, workers, s.brief, length); err != nil {
			return err
		}
	}
	g.markHeap("before the turns")
	for round := range rounds {
		for i := range g.sizes {
			s := g.sizes[(i+round)%len(g.sizes)]
			if err := s.turn(ctx, workers, length); err != nil {
				return err
			}
		}
		g.sayRound(round, rounds)
	}
	g.markHeap("after the turns")
	return nil
}

func (g *growth) sayRound(round, rounds int) {
	first, last := g.sizes[0], g.largest()
	g.say("round %d of %d: p50 %s at %s, %s at %s", round+1, rounds,
		micro(first.turns[round].p50), first.name, micro(last.turns[round].p50), last.name)
}

// turn measures one size for a while. What has expired since its last turn goes first: a sweeper would not have let it
// lie.
func (s *size) turn(ctx context.Context, workers []*worker, length time.Duration) error {
	if _, err := s.sweep(ctx); err != nil {
		return err
	}
	if _, err := s.call(ctx, workers, s.brief, length/leadIn); err != nil {
		return err
	}
	var t turn
	var err error
	t.wal, err = s.written(ctx, func() (err error) {
		stop := s.sweepBeside(ctx)
		t.calls, err = s.call(ctx, workers, s.brief, length)
		swept, sweepErr := stop()
		t.swept = swept
		return errors.Join(err, sweepErr)
	})
	if err != nil {
		return err
	}
	var took []time.Duration
	for _, w := range workers {
		took = append(took, w.took...)
	}
	for _, d := range took {
		s.all.add(d)
	}
	t.p50 = median(took)
	t.quietWAL, err = s.written(ctx, func() (err error) {
		t.quietCalls, err = s.call(ctx, workers, s.brief, length/quietPart)
		return err
	})
	s.turns = append(s.turns, t)
	return err
}

// written returns the bytes of WAL that the server wrote meanwhile.
func (s *size) written(ctx context.Context, do func() error) (bytes int64, err error) {
	before, err := s.db.written(ctx)
	if err != nil {
		return 0, err
	}
	if err := do(); err != nil {
		return 0, err
	}
	after, err := s.db.written(ctx)
	return after - before, err
}

// sweepBeside sweeps at intervals until it is stopped, which lets a sweep that runs come to its end: what it deletes is
// to be counted.
func (s *size) sweepBeside(ctx context.Context) (stop func() (deleted int, err error)) {
	var running sync.WaitGroup
	var deleted int
	var failed error
	stopped := make(chan struct{})
	running.Go(func() {
		tick := time.NewTicker(sweepEvery)
		defer tick.Stop()
		for failed == nil {
			var n int
			n, failed = s.sweep(ctx)
			deleted += n
			select {
			case <-tick.C:
			case <-stopped:
				return
			}
		}
	})
	return func() (int, error) {
		close(stopped)
		running.Wait()
		return deleted, failed
	}
}
