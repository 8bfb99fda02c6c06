package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/txonce/txonce/outbox"
)

// mostUndelivered is how many messages may wait at a time: who publishes waits for room. So what is published is delivered in
// the same time, and a backlog near this number says that the relay is what holds the others up.
const mostUndelivered = 2000

// rateCell is one setting in which messages are published and delivered at the same time.
type rateCell struct {
	name    string
	publish publishing
	keys    int // ordering keys; 0 for none
	relays  int // the first is in the process that publishes
	samples []rateSample
}

// rateSample is what one slice of a cell's time found out.
type rateSample struct {
	rate    float64 // messages delivered per second
	backlog float64 // messages that were published and not delivered, on average
	left    float64 // and at the end
	cpu     float64 // of client and server, nanoseconds per message
	wal     float64 // bytes per message
}

func rateCells() []*rateCell {
	call, one, ten := publishing{calls: true, each: 1}, publishing{each: 1}, publishing{each: 10}
	cell := func(order string, keys int, of string, p publishing, relays int) *rateCell {
		return &rateCell{name: fmt.Sprintf("%s, %s, %s", order, of, []string{"1 relay", "2 relays"}[relays-1]), publish: p, keys: keys, relays: relays}
	}
	var all []*rateCell
	for _, o := range []struct {
		name string
		keys int
	}{{"unordered", 0}, {"1000 keys", 1000}, {"10 keys", 10}} {
		all = append(all,
			cell(o.name, o.keys, "calls", call, 1), cell(o.name, o.keys, "1 a tx", one, 1), cell(o.name, o.keys, "10 a tx", ten, 1),
			cell(o.name, o.keys, "calls", call, 2), cell(o.name, o.keys, "10 a tx", ten, 2))
	}
	return all
}

// The cells of the goals, in the order of rateCells.
const (
	unorderedCalls = 0
	orderedCalls   = 5
)

// measureRates has the cells take turns.
func (b *outboxBench) measureRates(ctx context.Context) error {
	b.rates = rateCells()
	for round := range b.options.rounds {
		for turn := range b.rates {
			c := b.rates[(turn+round)%len(b.rates)]
			b.say("round %d of %d: %s", round+1, b.options.rounds, c.name)
			if err := b.sampleRates(ctx, c); err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
		}
	}
	return nil
}

// sampleRates measures one slice, from empty tables to empty ones: what is published is delivered, once.
func (b *outboxBench) sampleRates(ctx context.Context, c *rateCell) (err error) {
	if err := b.empty(ctx); err != nil {
		return err
	}
	s := &stream{bench: b, cell: c, room: make(chan struct{}, mostUndelivered)}
	processes, err := s.open()
	if err != nil {
		return err
	}
	runtime.GC() // each cell collects its own garbage
	stop := startAll(ctx, processes)
	defer func() { err = errors.Join(err, stop()) }()
	sample, published, err := s.run(ctx, processes[0])
	if err != nil {
		return err
	}
	if err := await(ctx, published, func() int { return int(s.delivered.Load()) }); err != nil {
		return err
	}
	if err := stop(); err != nil {
		return err
	}
	c.samples = append(c.samples, sample)
	return b.verify(ctx, published)
}

// stream is messages that are published and delivered for a while.
type stream struct {
	bench     *outboxBench
	cell      *rateCell
	room      chan struct{} // has something in it for each message that is not delivered
	delivered atomic.Int64
}

func (s *stream) deliver(context.Context, outbox.Delivery) (outbox.Outcome, error) {
	s.delivered.Add(1)
	<-s.room
	return outbox.Outcome{Class: outbox.Delivered}, nil
}

// open makes the processes. The first is the one that publishes.
func (s *stream) open() (all []*process, err error) {
	links := []*link{s.bench.here, s.bench.there}
	for _, l := range links[:s.cell.relays] {
		p, err := s.bench.newProcess(l.pool, s.deliver)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// run publishes for as long as is measured.
func (s *stream) run(ctx context.Context, p *process) (sample rateSample, published int, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.bench.options.time+hangs, errLost)
	defer cancel()
	var over atomic.Bool
	counts := make([]int, mostWorkers+1)
	workers := newWorkers(mostWorkers, nil)
	err = together(len(counts), func(i int) (err error) {
		defer func() {
			if err != nil {
				cancel() // the others need not go on
			}
		}()
		if i == mostWorkers {
			defer over.Store(true)
			sample, err = s.measure(ctx)
			return err
		}
		counts[i], err = s.publishAlways(ctx, p, workers[i], &over)
		return err
	})
	for _, n := range counts {
		published += n
	}
	return sample, published, err
}

func (s *stream) publishAlways(ctx context.Context, p *process, w *worker, over *atomic.Bool) (published int, err error) {
	for !over.Load() {
		for range s.cell.publish.each {
			select {
			case s.room <- struct{}{}:
			case <-ctx.Done():
				return published, context.Cause(ctx)
			}
		}
		key := keyOf(w.rng.IntN(max(1, s.cell.keys)), s.cell.keys)
		if err := s.cell.publish.do(ctx, s.bench.here, p, w, key); err != nil {
			return published, err
		}
		published += s.cell.publish.each
	}
	return published, nil
}

// measure says what happens behind a lead-in.
func (s *stream) measure(ctx context.Context) (sample rateSample, err error) {
	if !pause(ctx, s.bench.options.time/leadPart) {
		return sample, context.Cause(ctx)
	}
	walBefore, err := s.bench.db.written(ctx)
	if err != nil {
		return sample, err
	}
	cpuBefore, before, began := cpuOf(s.bench.pids), s.delivered.Load(), time.Now()
	looks := 0
	for ; time.Since(began) < s.bench.options.time; looks++ {
		if !pause(ctx, 5*time.Millisecond) {
			return sample, context.Cause(ctx)
		}
		sample.backlog += float64(len(s.room))
	}
	n, took, spent := float64(max(1, s.delivered.Load()-before)), time.Since(began), cpuOf(s.bench.pids).since(cpuBefore)
	sample.left = float64(len(s.room))
	walAfter, err := s.bench.db.written(ctx)
	sample.rate, sample.backlog = n/took.Seconds(), sample.backlog/float64(looks)
	sample.cpu, sample.wal = float64(spent)/n, float64(walAfter-walBefore)/n
	return sample, err
}
