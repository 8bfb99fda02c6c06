package main

import (
	"context"
	"fmt"
	"time"
)

// sweepFigures is what was found out about the sweeper alone, on the largest table.
type sweepFigures struct {
	rates    []float64       // rows a second, beside calls
	beside   []time.Duration // medians of those calls
	dead     int             // rows that had been deleted by then, ever
	first    time.Duration   // the first pass with nothing to sweep
	idle     time.Duration   // the median of those that follow
	vacuumed time.Duration   // the same after a vacuum
}

// sweepRuns is how often as many records are swept; the rate is the median.
const sweepRuns = 3

// sweepMany measures how fast expired records go while calls are made (R12). A checkpoint in front makes sure that each
// page that loses rows is written to the WAL, as it is where records are older than the last checkpoint.
func (g *growth) sweepMany(ctx context.Context) error {
	s := g.largest()
	workers := newWorkers(1, nil)
	for run := range sweepRuns {
		what := fmt.Sprintf("%s: expired records (%d of %d)", s.name, run+1, sweepRuns)
		if err := g.copyRecords(ctx, s, g.options.expire, time.Second, time.Minute, what); err != nil {
			return err
		}
		if err := s.db.writeOut(ctx); err != nil {
			return err
		}
		stop := s.callBeside(ctx, workers)
		began := time.Now()
		deleted, err := s.sweep(ctx)
		took := time.Since(began)
		p50, callErr := stop()
		if err != nil || callErr != nil {
			return firstOf(err, callErr)
		}
		if deleted < g.options.expire {
			return fmt.Errorf("a sweep deleted %d of %d expired records", deleted, g.options.expire)
		}
		g.sweeps.rates = append(g.sweeps.rates, float64(deleted)/took.Seconds())
		g.sweeps.beside = append(g.sweeps.beside, p50)
		g.say("%d records swept in %v", deleted, took.Round(time.Millisecond))
	}
	return nil
}

// callBeside makes calls until it is stopped, and returns their median.
func (s *size) callBeside(ctx context.Context, workers []*worker) (stop func() (time.Duration, error)) {
	type outcome struct {
		p50 time.Duration
		err error
	}
	stopped, done := make(chan struct{}), make(chan outcome, 1)
	go func() {
		var all histogram
		for {
			calls, _, err := drive(ctx, workers, shapes()[ours], s.link, slice)
			s.count(calls)
			for _, w := range workers {
				for _, d := range w.took {
					all.add(d)
				}
			}
			select {
			case <-stopped:
			default:
				if err == nil {
					continue
				}
			}
			done <- outcome{all.quantile(1, 2), err}
			return
		}
	}()
	return func() (time.Duration, error) {
		close(stopped)
		o := <-done
		return o.p50, o.err
	}
}

// clearAhead is how far ahead records are deleted that would expire while nothing is to expire: also a vacuum, or passes that
// read the whole table, take their time.
const clearAhead = 15 * time.Minute

// sweepNothing measures passes that find nothing, with the entries of deleted rows still in the index, and without them.
func (g *growth) sweepNothing(ctx context.Context) (err error) {
	s := g.largest()
	g.say("%s: sweeping nothing", s.name)
	if err := s.clear(ctx); err != nil {
		return err
	}
	g.sweeps.dead = s.gone
	if g.sweeps.first, g.sweeps.idle, err = s.idle(ctx); err != nil {
		return err
	}
	g.say("%s: vacuum, then sweeping nothing", s.name)
	if err := s.clear(ctx); err != nil { // nothing may be deleted behind the vacuum
		return err
	}
	if _, err := s.db.admin.Exec(ctx, `vacuum `+s.db.calls+`.call`); err != nil {
		return err
	}
	if _, g.sweeps.vacuumed, err = s.idle(ctx); err != nil {
		return err
	}
	g.markHeap("after the sweeps")
	return nil
}

const sqlClear = `delete from %s.call where expires_at < clock_timestamp() + make_interval(secs => $1)`

// clear deletes what will expire soon.
func (s *size) clear(ctx context.Context) error {
	tag, err := s.db.admin.Exec(ctx, fmt.Sprintf(sqlClear, s.db.calls), clearAhead.Seconds())
	s.gone += int(tag.RowsAffected())
	return err
}

const (
	idlePasses = 21
	mostPasses = 3 * idlePasses // in which so many must be idle
)

// idle returns how long the first pass took that deleted nothing, and the median of those behind it.
func (s *size) idle(ctx context.Context) (first, others time.Duration, err error) {
	var took []time.Duration
	for range mostPasses {
		began := time.Now()
		deleted, err := s.sweep(ctx)
		if err != nil {
			return 0, 0, err
		}
		if deleted == 0 {
			took = append(took, time.Since(began))
		}
		if len(took) == idlePasses {
			return took[0], median(took[1:]), nil
		}
	}
	return 0, 0, fmt.Errorf("of %d sweeps only %d had nothing to do", mostPasses, len(took))
}
