package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/integration/internal/lives"
)

// How many processes there are at a time, of each role.
const (
	workers = 3
	servers = 2
)

// backlog is how many jobs may wait or run before no more are submitted. Few, so that each of them meets many deaths.
const backlog = 10

// The longest lives. A process that lives longer hangs.
const (
	longestLife = 5 * time.Minute
	longestLast = 10 * time.Minute
)

// history is what happened, as the parent knows it.
type history struct {
	intents   []intent
	told      []told
	deaths    []mark
	stale     []stale
	cancelled map[string]bool // ids of jobs that were told to be cancelled
	tricks    map[trick]int   // that were played
	lives     int
	drained   time.Duration // from the last kill until all jobs had ended
	problems  []string
}

// told is an answer and who gave it.
type told struct {
	answer
	Life int
}

// stale is an attempt that was stopped and came back.
type stale struct {
	mark
	late  bool          // it had lost its job by then
	after time.Duration // from the stop until then
}

// torturer runs the processes and remembers what they said.
type torturer struct {
	o        options
	pool     *pgxpool.Pool
	schedule *schedule
	keeper   *lives.Keeper
	alive    *os.File
	progress *lives.Progress

	mu      sync.Mutex
	history history
}

// torture kills processes until there are deaths enough, waits for the jobs to end, and looks at the database, which must be
// fresh.
func torture(ctx context.Context, o options, p lives.Place, stderr io.Writer) (r *report, err error) {
	pool, err := prepare(ctx, p)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	begin := time.Now()
	t := &torturer{
		o: o, pool: pool, schedule: newSchedule(o, p), progress: lives.NewProgress(stderr, "crash-jobs", o.kills),
		history: history{cancelled: make(map[string]bool), tricks: make(map[trick]int)},
	}
	var b books
	var recovered []time.Duration
	left, err := lives.Outlived(ctx, pool, applicationName, func(alive *os.File) (err error) {
		t.alive, t.keeper = alive, lives.NewKeeper(processEnv, alive)
		if b, err = t.run(ctx); err != nil || o.recoveries == 0 {
			return err
		}
		_, _ = fmt.Fprintf(stderr, "crash-jobs: measuring how soon the jobs of a killed worker go on\n")
		recovered, err = t.recoveries(ctx, o.recoveries)
		return err
	})
	if err != nil {
		return nil, err
	}
	if left != "" {
		t.history.problems = append(t.history.problems, left)
	}
	return newReport(o, t.history, b, recovered, time.Since(begin)), nil
}

// run is all of a run but the measurement of recovery.
func (t *torturer) run(ctx context.Context) (b books, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var work, serve, play sync.WaitGroup
	lane := func(wg *sync.WaitGroup, run func(context.Context) error) {
		wg.Go(func() {
			if err := run(ctx); err != nil {
				cancel(err)
			}
		})
	}
	for range workers {
		lane(&work, t.workers)
	}
	for range servers {
		lane(&serve, t.servers)
	}
	playing, stop := context.WithCancel(ctx)
	defer stop()
	lane(&play, func(context.Context) error { return t.play(playing) })
	t.killing(ctx)
	t.progress.End()
	t.spareAll()
	serve.Wait()
	if t.o.plant != completeTx { // whose dead are found by mischief only
		stop()
	}
	if ctx.Err() == nil {
		err = t.drain(ctx)
	}
	stop()
	play.Wait()
	if err == nil && ctx.Err() == nil {
		b, err = t.settle(ctx)
	}
	t.leaveAll()
	if err != nil {
		cancel(err)
	}
	work.Wait()
	t.history.intents, t.history.lives = t.schedule.intents, t.schedule.lives
	return b, context.Cause(ctx)
}

// killing waits until there are deaths enough, or for so long that there will be no more: where jobs are stuck, nobody comes by
// the points.
func (t *torturer) killing(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-t.schedule.over:
			return
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if since := t.keeper.SinceKill(); since > t.o.stuck {
			t.complain("nobody died for %v", since)
			return
		}
	}
}

// settle reads the books once nothing may change any more, and sees to it that nothing does: doorbells ring, and calls are made
// again.
func (t *torturer) settle(ctx context.Context) (books, error) {
	b, err := readBooks(ctx, t.pool)
	if err != nil {
		return b, err
	}
	if err := t.live(ctx, t.schedule.last(), longestLast); err != nil {
		return b, err
	}
	again, err := readBooks(ctx, t.pool)
	switch {
	case err != nil || b.unfinished() > 0:
		return again, err
	case again.unfinished() > 0: // of jobs that nobody should have submitted
		err = t.drain(ctx)
	default:
		err = t.ringAll(ctx)
	}
	if err != nil {
		return b, err
	}
	after, err := readBooks(ctx, t.pool)
	t.history.problems = append(t.history.problems, b.changes(after)...)
	return after, err
}

// workers runs one worker after the other until they are to leave.
func (t *torturer) workers(ctx context.Context) error {
	for !t.isLeaving() {
		if err := t.live(ctx, t.schedule.worker(), longestLife); err != nil {
			return err
		}
	}
	return nil
}

// servers runs one server after the other until every intent was told.
func (t *torturer) servers(ctx context.Context) error {
	for {
		open, err := openJobs(ctx, t.pool)
		if err != nil {
			return err
		}
		a, ok := t.schedule.server(open < backlog && !t.isSparing())
		switch {
		case ok:
			if err := t.live(ctx, a, longestLife); err != nil {
				return err
			}
			continue
		case t.isSparing() && !t.schedule.untold():
			return nil
		}
		if err := lives.Pause(ctx, lives.LookAgain); err != nil {
			return err
		}
	}
}

// drain waits until all jobs have ended, or for so long behind the last kill that those that have not are stuck.
func (t *torturer) drain(ctx context.Context) error {
	for {
		open, err := openJobs(ctx, t.pool)
		if err != nil {
			return err
		}
		since := t.keeper.SinceKill()
		t.history.drained = since
		if open == 0 || since > t.o.stuck {
			return nil
		}
		if err := lives.Pause(ctx, lives.LookAgain); err != nil {
			return err
		}
	}
}

// complain makes the run fail.
func (t *torturer) complain(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.history.problems = append(t.history.problems, fmt.Sprintf(format, args...))
}
