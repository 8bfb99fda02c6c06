package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// jobsBench is a run of "bench jobs".
type jobsBench struct {
	db       *database
	options  jobsOptions
	sql      jobQueries
	link     *link // of the sides
	sides    []*side
	rates    map[jobsCell][]jobRate
	times    [2][]jobTimes // of the sides
	calls    *callsBench
	progress io.Writer
}

// jobsCell is one side with so many workers.
type jobsCell struct{ side, workers int }

// jobRate is what one slice of a cell's time found out.
type jobRate struct {
	rate   float64 // jobs per second
	cpu    float64 // of client and server, microseconds per job; 0 where it is not known
	wal    float64 // bytes per job
	allocs float64 // per job, in the client
}

// The numbers of workers that are compared.
func workerCounts() []int { return []int{1, mostWorkers} }

// runJobs measures everything and prints the report on stdout, its progress on stderr.
func runJobs(ctx context.Context, o jobsOptions, stdout, stderr io.Writer) (err error) {
	began := time.Now()
	db, err := openDatabase(ctx, o.url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.close(context.WithoutCancel(ctx))) }()
	j := newJobsBench(db, o, stderr)
	j.say("PostgreSQL %s, %s", db.server.Version(), db.server.Source())
	for _, part := range []func(context.Context) error{j.measureSides, j.measureCalls} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	return j.report(stdout, time.Since(began))
}

func newJobsBench(db *database, o jobsOptions, progress io.Writer) *jobsBench {
	return &jobsBench{db: db, options: o, sql: jobQueriesFor(db.calls), rates: make(map[jobsCell][]jobRate), progress: progress}
}

// openSides starts both sides on one pool.
func (j *jobsBench) openSides(ctx context.Context) (err error) {
	if j.link, err = openLink(ctx, j.db, "sides", sideConns, dialTo(serverOf(j.db))); err != nil {
		return err
	}
	if err := j.empty(ctx); err != nil { // of what the link learns by
		return err
	}
	if j.sides, err = newSides(j); err != nil {
		return err
	}
	for _, s := range j.sides {
		if err := s.start(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (j *jobsBench) closeSides(ctx context.Context) error {
	var errs []error
	for _, s := range j.sides {
		errs = append(errs, s.stop(ctx))
	}
	if j.link != nil {
		j.link.pool.Close()
	}
	return errors.Join(errs...)
}

// measureSides has our jobs and plain River's take turns.
func (j *jobsBench) measureSides(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, j.closeSides(context.WithoutCancel(ctx))) }()
	if err := j.openSides(ctx); err != nil {
		return err
	}
	if err := j.warmUp(ctx); err != nil {
		return err
	}
	for round := range j.options.rounds {
		for _, workers := range workerCounts() {
			j.say("round %d of %d: jobs with %d worker(s)", round+1, j.options.rounds, workers)
			if err := j.measureRates(ctx, workers, round); err != nil {
				return err
			}
		}
		j.say("round %d of %d: one job at a time", round+1, j.options.rounds)
		if err := j.measureTimes(ctx, round); err != nil {
			return err
		}
	}
	return nil
}

// warmUp is for plans and caches.
func (j *jobsBench) warmUp(ctx context.Context) error {
	for side := range j.sides {
		for _, workers := range workerCounts() {
			submitted, _, err := j.flood(ctx, jobsCell{side, workers}, min(j.options.time, jobsSlice))
			if err != nil {
				return err
			}
			if err := j.settle(ctx, j.sides[side], submitted); err != nil {
				return err
			}
			if err := j.empty(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// settle waits until River has written down the ends of all jobs, which it does in batches: they are to be none of the next
// slice's. It fails unless each job had its effect, once.
func (j *jobsBench) settle(ctx context.Context, s *side, submitted int) error {
	want := jobTally{effects: submitted, completed: submitted}
	if s.keepsJobs {
		want.succeeded = submitted
	}
	for deadline := time.Now().Add(hangs); ; time.Sleep(10 * time.Millisecond) {
		var got jobTally
		if err := j.db.admin.QueryRow(ctx, j.sql.tally).Scan(&got.effects, &got.succeeded, &got.completed); err != nil {
			return err
		}
		if got == want {
			return nil
		}
		if got.effects > submitted || time.Now().After(deadline) {
			return fmt.Errorf("the tables hold %+v, but the jobs that were submitted should have left %+v", got, want)
		}
	}
}

// empty makes the tables empty: no slice is to have larger ones than another.
func (j *jobsBench) empty(ctx context.Context) error {
	if _, err := j.db.admin.Exec(ctx, j.sql.empty); err != nil {
		return err
	}
	return j.db.writeOut(ctx)
}

// jobTally is what is in the tables: rows of effects, jobs of ours that succeeded, jobs that River has completed.
type jobTally struct{ effects, succeeded, completed int }

// hangs is how long something may take that takes a moment.
const hangs = time.Minute

// sideConns is the size of the pool that the sides share: for each worker and each that submits, and for River.
const sideConns = 2*mostWorkers + 8

func (j *jobsBench) pool() *pgxpool.Pool { return j.link.pool }

func (j *jobsBench) say(format string, args ...any) {
	fmt.Fprintf(j.progress, "bench-jobs: "+format+"\n", args...)
}
