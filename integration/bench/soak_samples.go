package main

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// soakSample is what one look at the process and its tables found.
type soakSample struct {
	at         time.Duration // since the load began
	rss, heap  int64         // bytes, the heap behind a garbage collection
	goroutines int           // beside operations under way
	conns      int           // of the pool
	sessions   int           // that the server has
	p50, p99   time.Duration // of operations since the last sample
	trip       time.Duration // p99 from COMMIT to the receiver
	tables     []soakTable
}

// soakTable is a table's size in bytes.
type soakTable struct {
	name           string
	table, indexes int64
}

func (t soakTable) bytes() int64 { return t.table + t.indexes }

// sampleUntil takes samples while the load is on, or one behind it if there was no time for any.
func (s *soak) sampleUntil(ctx context.Context, over <-chan struct{}) error {
	began := time.Now()
	tick := time.NewTicker(s.options.every())
	defer tick.Stop()
	for {
		select {
		case <-over:
			if len(s.samples) > 0 {
				return nil
			}
		case <-tick.C:
		}
		sample, err := s.sample(ctx, began)
		if err != nil {
			return err
		}
		s.samples = append(s.samples, sample)
		s.saySample(sample)
	}
}

func (s *soak) saySample(now soakSample) {
	failures, first := s.books.failures()
	s.say("%v of %v: %d calls, p99 %.1f ms, RSS %.1f MB, heap %.1f MB, %d goroutines, %d sessions, %d errors%s",
		now.at.Round(time.Second), s.options.time, s.books.done.Load(), inMS(now.p99), inMB(now.rss), inMB(now.heap),
		now.goroutines, now.sessions, failures, because(first))
}

func (s *soak) sample(ctx context.Context, began time.Time) (soakSample, error) {
	took, trips := s.books.since(), s.world.trips.since()
	now := soakSample{
		at: time.Since(began), rss: rssNow(), heap: int64(heapNow()), goroutines: s.goroutines(),
		conns: int(s.world.link.pool.Stat().TotalConns()), p50: took.quantile(1, 2), p99: took.quantile(99, 100),
	}
	if len(trips) > 0 {
		now.trip = quantile(trips, 99, 100)
	}
	var err error
	if now.sessions, err = s.sessions(ctx); err != nil {
		return now, err
	}
	rows, err := s.db.admin.Query(ctx, s.sql.sizes)
	if err != nil {
		return now, err
	}
	now.tables, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (t soakTable, err error) {
		return t, row.Scan(&t.name, &t.table, &t.indexes)
	})
	return now, err
}

// goroutines is the least of a few counts: attempts and deliveries that are under way have some for a moment.
func (s *soak) goroutines() int {
	counts := make([]int, 5)
	for i := range counts {
		counts[i], _ = s.flock.members()
		time.Sleep(5 * time.Millisecond)
	}
	return slices.Min(counts)
}

// around sums samples up, number by number.
func around(all []soakSample) soakSample {
	sum := soakSample{at: all[len(all)-1].at}
	sum.rss, sum.heap = medianIn(all, func(s soakSample) int64 { return s.rss }), medianIn(all, func(s soakSample) int64 { return s.heap })
	sum.goroutines = medianIn(all, func(s soakSample) int { return s.goroutines })
	sum.conns, sum.sessions = medianIn(all, func(s soakSample) int { return s.conns }), medianIn(all, func(s soakSample) int { return s.sessions })
	sum.p50, sum.p99 = medianIn(all, func(s soakSample) time.Duration { return s.p50 }), medianIn(all, func(s soakSample) time.Duration { return s.p99 })
	sum.trip = medianIn(all, func(s soakSample) time.Duration { return s.trip })
	sum.tables = all[len(all)-1].tables
	return sum
}

func medianIn[T int | int64 | time.Duration](all []soakSample, number func(soakSample) T) T {
	numbers := make([]T, len(all))
	for i, s := range all {
		numbers[i] = number(s)
	}
	return median(numbers)
}

// start and end are those behind the warm-up, a tenth of the run, and those of its last tenth.
func (s *soak) start() soakSample { return around(s.part(1, 10, 10)) }
func (s *soak) end() soakSample   { return around(s.part(9, 10, 10)) }

// part returns the samples of one part of so many, at least one.
func (s *soak) part(which, of, parts int) []soakSample {
	n := len(s.samples)
	first := min(n*which/of, n-1)
	return s.samples[first:max(first+1, min(n, n*(which+1)/parts))]
}
