package main

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"time"
)

// bench is a run of the benchmark.
type bench struct {
	db       *database
	options  options
	shapes   []shape
	links    []*link
	turns    []float64 // of each shape
	samples  map[cell][]sample
	progress io.Writer
	pids     []uint32 // of the server, where its CPU time is wanted
}

// setting is what is held fixed while the shapes take turns.
type setting struct{ link, workers int }

// settings returns them in the order of the table.
func settings() []setting {
	return []setting{{direct, 1}, {direct, mostWorkers}, {distant, 1}, {distant, mostWorkers}}
}

// cell is one shape in one setting.
type cell struct {
	shape int
	setting
}

// sample is what one slice of a cell's time found out.
type sample struct {
	p50    time.Duration // of a call
	rate   float64       // calls per second
	wal    float64       // bytes per call
	allocs float64       // per call, in the client
	cpu    float64       // of client and server, nanoseconds per call; without the server's where bench.pids is empty
}

// slice is the time that a shape has before it is the next one's turn: long enough for the median of some thirty calls over a
// millisecond of network, short enough that what else goes on in the machine hits all shapes alike.
const slice = 100 * time.Millisecond

func (b *bench) measureAll(ctx context.Context) error {
	for round := range b.options.rounds {
		for _, set := range settings() {
			fmt.Fprintf(b.progress, "bench: round %d of %d: %s, %d worker(s)\n",
				round+1, b.options.rounds, b.links[set.link].name, set.workers)
			if err := b.measure(ctx, set, round); err != nil {
				return err
			}
		}
	}
	return nil
}

// measure is one round of one setting: from empty tables, the shapes in turn, and a look at what they wrote.
func (b *bench) measure(ctx context.Context, set setting, round int) error {
	if err := b.db.empty(ctx); err != nil {
		return err
	}
	l := b.links[set.link]
	known, err := makeKnown(ctx, b.links[direct], b.options.known)
	if err != nil {
		return err
	}
	written := b.shapes[ours].writes.times(len(known))
	workers := newWorkers(set.workers, known)
	length := min(b.options.time, slice)
	for _, s := range b.shapes { // plans and caches
		calls, _, err := drive(ctx, workers, s, l, length)
		if err != nil {
			return err
		}
		written = written.plus(s.writes.times(calls))
	}
	for pass := range int(b.options.time / length) {
		for turn := range b.shapes {
			c := cell{(turn + pass + round) % len(b.shapes), set}
			calls, err := b.sample(ctx, c, workers, length)
			if err != nil {
				return err
			}
			written = written.plus(b.shapes[c.shape].writes.times(calls))
		}
	}
	return b.db.verify(ctx, written)
}

// sample measures one slice.
func (b *bench) sample(ctx context.Context, c cell, workers []*worker, length time.Duration) (calls int, err error) {
	walBefore, err := b.db.written(ctx)
	if err != nil {
		return 0, err
	}
	var before, after runtime.MemStats
	runtime.GC() // each shape collects its own garbage
	runtime.ReadMemStats(&before)
	cpuBefore := cpuOf(b.pids)
	calls, rate, err := drive(ctx, workers, b.shapes[c.shape], b.links[c.link], length)
	if err != nil {
		return 0, err
	}
	cpuAfter := cpuOf(b.pids)
	runtime.ReadMemStats(&after)
	walAfter, err := b.db.written(ctx)
	if err != nil {
		return 0, err
	}
	var took []time.Duration
	for _, w := range workers {
		took = append(took, w.took...)
	}
	b.samples[c] = append(b.samples[c], sample{
		p50:    median(took),
		rate:   rate,
		wal:    float64(walAfter-walBefore) / float64(calls),
		allocs: float64(after.Mallocs-before.Mallocs) / float64(calls),
		cpu:    float64(cpuAfter.since(cpuBefore)) / float64(calls),
	})
	return calls, nil
}

func (db *database) verify(ctx context.Context, want tally) error {
	got, err := db.tally(ctx)
	if err == nil && got != want {
		err = fmt.Errorf("the tables hold %+v, but the calls that were made should have left %+v", got, want)
	}
	return err
}
