package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/txonce/txonce/integration/internal/lives"
	"github.com/txonce/txonce/jobs"
	"github.com/txonce/txonce/toolcall"
)

// jobKind is the name of the definition.
const jobKind = "crash_job"

// Times of workers. A lease is short, so that a killed worker's jobs go on at once, and dead ones are looked for often.
const (
	lease         = time.Second
	sweep         = 200 * time.Millisecond
	commitTimeout = 4 * time.Second // also how long a stopped worker may keep the job's row
)

// atATime is how many jobs a worker works at a time.
const atATime = 2

// errBroken is the plain error of the work: a property of the moment.
var errBroken = errors.New("the work broke")

// work does the work of a job.
type work func(context.Context, *jobs.Job[task]) (jobs.Commit[receipt], error)

// define returns the definition of the jobs. Processes that only submit them give no work.
func define(do work) *jobs.Definition[task, receipt] {
	if do == nil {
		do = func(context.Context, *jobs.Job[task]) (jobs.Commit[receipt], error) { return nil, errBroken }
	}
	return jobs.Define(jobKind, do, &jobs.Options{
		MaxAttempts: 1000, // kills must not use them up
		Timeout:     10 * time.Second, CommitTimeout: commitTimeout,
		Backoff: func(int) time.Duration { return lease / 10 },
	})
}

// runnerConfig is the configuration of a runner that works nothing.
func runnerConfig() *jobs.Config { return &jobs.Config{Lease: lease, Sweep: sweep, Logger: logger()} }

// work works jobs until the process dies or is to leave.
func (p *process) work(ctx context.Context) error {
	w := &working{process: p}
	cfg := runnerConfig()
	cfg.Queues = map[string]int{"default": atATime}
	cfg.Configure = hurry
	if p.a.Plant == noRescue {
		cfg.Lease, cfg.Sweep = time.Hour, time.Hour
	}
	runner, err := jobs.New(p.pool, cfg, define(w.compute))
	if err != nil {
		return err
	}
	return p.run(ctx, runner)
}

// run runs a runner until the process dies or is to leave. A session that is ended keeps it from starting, for once.
func (p *process) run(ctx context.Context, runner *jobs.Runner) error {
	for until := time.Now().Add(lives.Patience); ; time.Sleep(lives.LookAgain) {
		err := runner.Start(ctx)
		if err == nil {
			break
		}
		if !errors.Is(err, jobs.ErrUnavailable) || time.Now().After(until) {
			return err
		}
	}
	<-p.left
	ctx, cancel := context.WithTimeout(ctx, longestLeave)
	defer cancel()
	return runner.Stop(ctx)
}

// longestLeave bounds the time in which a runner stops that has nothing to do.
const longestLeave = 20 * time.Second

// hurry has River look often, and rescue what it takes for stuck as soon as it may.
func hurry(cfg *river.Config) {
	cfg.TestOnly = true // nothing is put off at the start
	cfg.FetchCooldown, cfg.FetchPollInterval = 20*time.Millisecond, 100*time.Millisecond
	cfg.RescueStuckJobsAfter = cfg.JobTimeout
}

// working is a process that works jobs.
type working struct {
	*process
	begun atomic.Int64 // attempts
}

const (
	sqlEffect     = `insert into effect (intent, job, attempt) values ($1::int, $2::text, $3::text)`
	sqlEffectSlow = `insert into effect (intent, job, attempt) select $1::int, $2::text, $3::text from pg_sleep(0.05)` // outlives who dies behind it
	sqlCount      = `update counter set n = n + 1 where bucket = $1::int`
	sqlSlow       = `select 1 from pg_sleep(3)` // outlives who dies behind it
)

// compute is the first half.
func (w *working) compute(ctx context.Context, job *jobs.Job[task]) (jobs.Commit[receipt], error) {
	name := fmt.Sprintf("%d.%d", w.a.Life, w.begun.Add(1))
	a := w.reaper.attempting(job.ID, job.Attempt, name, job.Args.Intent)
	if job.Args.Kind == dooms && job.Attempt%2 == 1 {
		w.reaper.doom(a, computeBegun, func(*trace) {})
	}
	w.reaper.at(a, computeBegun, func(*trace) {})
	job.Progress(0.5, "half of "+name)
	timer := time.NewTimer(job.Args.Pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if job.Args.Kind == breaks && job.Attempt <= maxBreaks {
		return nil, errBroken
	}
	w.reaper.at(a, computeDone, func(t *trace) { t.Computed = true })
	return func(ctx context.Context, tx pgx.Tx) (receipt, error) {
		return w.commit(ctx, tx, job, a, name)
	}, nil
}

// commit is the second half: an effect, counted in another statement.
func (w *working) commit(ctx context.Context, tx pgx.Tx, job *jobs.Job[task], a *attempt, name string) (receipt, error) {
	r := w.reaper
	locked := func(t *trace) { t.Locked = true }
	if job.Args.Kind == dooms {
		r.doom(a, commitLocked, locked)
	}
	r.at(a, commitLocked, locked)
	if err := w.effect(ctx, tx, job, name); err != nil {
		return receipt{}, err
	}
	r.at(a, effectWritten, func(t *trace) { t.Written = true })
	if _, err := tx.Exec(ctx, sqlCount, job.Args.bucket()); err != nil {
		return receipt{}, err
	}
	if r.wants(committedSlow) {
		if err := queueAtFinish(ctx, sqlSlow); err != nil {
			return receipt{}, err
		}
	}
	if job.Args.Kind == refuses {
		return receipt{}, jobs.Fail("refused", "by "+name)
	}
	return receipt{Intent: job.Args.Intent, Attempt: name}, nil
}

func (w *working) effect(ctx context.Context, tx pgx.Tx, job *jobs.Job[task], name string) error {
	sql := sqlEffect
	if w.reaper.comes(commitInside) {
		sql = sqlEffectSlow
	}
	if w.a.Plant == effectOutsideTx {
		_, err := w.pool.Exec(ctx, sql, job.Args.Intent, job.ID.String(), name)
		return err
	}
	_, err := tx.Exec(ctx, sql, job.Args.Intent, job.ID.String(), name)
	return err
}

var errNoCall = errors.New("there is no call in the context")

// queueAtFinish puts a statement in front of the end of the job and COMMIT.
func queueAtFinish(ctx context.Context, sql string) error {
	current, ok := toolcall.FromContext(ctx)
	if !ok {
		return errNoCall
	}
	return current.AtFinish(func(b *pgx.Batch) { b.Queue(sql) })
}
