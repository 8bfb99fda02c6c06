package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/integration/internal/lives"
	"github.com/txonce/txonce/jobs"
)

// jobKind is the name of the definition.
const jobKind = "chaos_job"

// Times of workers. A lease is short, so that a killed worker's jobs go on at once, and dead ones are looked for often.
const (
	lease         = 2 * time.Second
	sweep         = 500 * time.Millisecond
	commitTimeout = 4 * time.Second // also how long a stopped worker may keep the job's row
	atATime       = 3               // jobs that a worker works
)

// longestLeave bounds the time in which a runner stops that has little to do, and a server that has few calls.
const longestLeave = 20 * time.Second

// work does the work of a job.
type work func(context.Context, *jobs.Job[order]) (jobs.Commit[receipt], error)

// define returns the definition of the jobs. Processes that only submit them give no work.
func define(do work) *jobs.Definition[order, receipt] {
	if do == nil {
		do = func(context.Context, *jobs.Job[order]) (jobs.Commit[receipt], error) { return nil, errBroken }
	}
	return jobs.Define(jobKind, do, &jobs.Options{
		MaxAttempts: 1000, // kills must not use them up
		Timeout:     10 * time.Second, CommitTimeout: commitTimeout,
		Backoff: func(int) time.Duration { return lease / 10 },
	})
}

func runnerConfig() *jobs.Config { return &jobs.Config{Lease: lease, Sweep: sweep, Logger: logger()} }

// work works jobs until the process dies or is to leave.
func (p *process) work(ctx context.Context) error {
	cfg := runnerConfig()
	cfg.Queues = map[string]int{"default": atATime}
	runner, err := jobs.New(p.pool, cfg, define(p.compute))
	if err != nil {
		return err
	}
	if err := p.start(ctx, runner); err != nil {
		return err
	}
	<-p.left
	ctx, cancel := context.WithTimeout(ctx, longestLeave)
	defer cancel()
	return runner.Stop(ctx)
}

// start starts a runner. A database that is away keeps it from starting, for a while.
func (p *process) start(ctx context.Context, runner *jobs.Runner) error {
	for until := time.Now().Add(2 * lives.Patience); ; time.Sleep(10 * lives.LookAgain) {
		err := runner.Start(ctx)
		if err == nil || !errors.Is(err, jobs.ErrUnavailable) || time.Now().After(until) {
			return err
		}
	}
}

// compute is the first half of a job.
func (p *process) compute(ctx context.Context, job *jobs.Job[order]) (jobs.Commit[receipt], error) {
	if err := lives.Pause(ctx, time.Duration(job.Args.Pause)*time.Millisecond); err != nil {
		return nil, err
	}
	return func(ctx context.Context, tx pgx.Tx) (receipt, error) { return p.commit(ctx, tx, job) }, nil
}

// commit is the second half: an effect, behind which it may break or fail.
func (p *process) commit(ctx context.Context, tx pgx.Tx, job *jobs.Job[order]) (receipt, error) {
	in, r := job.Args, newReceipt(job.Args)
	var err error
	if p.a.Plant == effectOutsideTx {
		_, err = p.pool.Exec(ctx, sqlEffect, in.Intent, in.Payload, in.Try, r.Run)
	} else {
		_, err = tx.Exec(ctx, sqlEffect, in.Intent, in.Payload, in.Try, r.Run)
	}
	switch {
	case err != nil:
		return r, err
	case job.Attempt <= in.Slips, p.a.Plant == neverEnds:
		return r, errBroken
	case in.Fails:
		return r, jobs.Fail("refused", fmt.Sprintf("by try %d", in.Try))
	}
	return r, nil
}
