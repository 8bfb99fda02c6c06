package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
)

// A side's slice is long enough for some hundred jobs. Its lead-in, in which jobs come to be under way, does not count.
const (
	jobsSlice = 500 * time.Millisecond
	leadPart  = 4 // of the slice's time, its reciprocal
)

// underWay is how many jobs there are for each worker at a time: one that is worked, and others that wait.
const underWay = 4

// measureRates has the sides take turns.
func (j *jobsBench) measureRates(ctx context.Context, workers, round int) error {
	length := min(j.options.time, jobsSlice)
	for pass := range int(j.options.time / length) {
		for turn := range j.sides {
			c := jobsCell{(turn + pass + round) % len(j.sides), workers}
			if err := j.sampleRate(ctx, c, length); err != nil {
				return fmt.Errorf("%s, %d worker(s): %w", j.sides[c.side].name, workers, err)
			}
		}
	}
	return nil
}

func (j *jobsBench) sampleRate(ctx context.Context, c jobsCell, length time.Duration) error {
	var before, after runtime.MemStats
	runtime.GC() // each side collects its own garbage
	runtime.ReadMemStats(&before)
	walBefore, err := j.db.written(ctx)
	if err != nil {
		return err
	}
	pids, err := j.serverPIDs(ctx)
	if err != nil {
		return err
	}
	cpuBefore := cpuOf(pids)
	submitted, rate, err := j.flood(ctx, c, length)
	if err != nil {
		return err
	}
	cpuAfter := cpuOf(pids)
	if err := j.settle(ctx, j.sides[c.side], submitted); err != nil {
		return err
	}
	walAfter, err := j.db.written(ctx)
	if err != nil {
		return err
	}
	runtime.ReadMemStats(&after)
	j.rates[c] = append(j.rates[c], jobRate{
		rate:   rate,
		cpu:    float64((cpuAfter.client + cpuAfter.server - cpuBefore.client - cpuBefore.server).Microseconds()) / float64(submitted),
		wal:    float64(walAfter-walBefore) / float64(submitted),
		allocs: float64(after.Mallocs-before.Mallocs) / float64(submitted),
	})
	return j.empty(ctx)
}

// serverPIDs are the processes of a server on this machine.
func (j *jobsBench) serverPIDs(ctx context.Context) ([]uint32, error) {
	if j.db.server.PID() == 0 {
		return nil, nil
	}
	rows, err := j.db.admin.Query(ctx, j.sql.processes)
	if err != nil {
		return nil, err
	}
	pids, err := pgx.CollectRows(rows, pgx.RowTo[int32])
	all := make([]uint32, len(pids))
	for i, pid := range pids {
		all[i] = uint32(pid)
	}
	return all, err
}

var errHangs = errors.New("jobs do not come to their end")

// flood submits jobs for a while, so many that no worker waits for one. The rate is that of the jobs that end behind the
// lead-in and while others are being submitted.
func (j *jobsBench) flood(ctx context.Context, c jobsCell, length time.Duration) (submitted int, rate float64, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, length+hangs, errHangs)
	defer cancel()
	lead := length / leadPart
	f := &flood{room: make(chan struct{}, underWay*c.workers), until: time.Now().Add(lead + length)}
	counted := make(chan float64, 1)
	go func() {
		counted <- f.count(lead, length)
	}()
	counts := make([]int, c.workers+1) // one more submits than work: there is always a job that waits
	err = together(len(counts), func(i int) (err error) {
		counts[i], err = f.submit(ctx, j, c)
		return err
	})
	rate = <-counted
	for range cap(f.room) { // which is all there once nothing is under way
		err = firstOf(err, f.enter(ctx))
	}
	for _, n := range counts {
		submitted += n
	}
	if failed := f.failed.Load(); failed != nil {
		err = firstOf(err, *failed)
	}
	return submitted, rate, err
}

// flood is one flood of jobs.
type flood struct {
	room   chan struct{} // has something in it for each job under way
	until  time.Time
	done   atomic.Int64
	failed atomic.Pointer[error]
}

func (f *flood) enter(ctx context.Context) error {
	select {
	case f.room <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (f *flood) submit(ctx context.Context, j *jobsBench, c jobsCell) (n int, err error) {
	for ; time.Now().Before(f.until); n++ {
		if err := f.enter(ctx); err != nil {
			return n, err
		}
		if err := j.submit(ctx, c, j.sides[c.side].board.issue(f.ended)); err != nil {
			return n, err
		}
	}
	return n, nil
}

func (f *flood) ended(err error) {
	if err != nil {
		f.failed.CompareAndSwap(nil, &err)
	}
	f.done.Add(1)
	<-f.room
}

// count returns the rate behind the lead-in.
func (f *flood) count(lead, length time.Duration) float64 {
	time.Sleep(lead)
	n, began := f.done.Load(), time.Now()
	time.Sleep(length)
	return float64(f.done.Load()-n) / time.Since(began).Seconds()
}

// submit submits one job, in a transaction with nothing else.
func (j *jobsBench) submit(ctx context.Context, c jobsCell, t *ticket) error {
	return pgx.BeginFunc(ctx, j.pool(), func(tx pgx.Tx) error {
		return j.sides[c.side].submit(ctx, tx, queueOf(c.side, c.workers), argsFor(t.number))
	})
}
