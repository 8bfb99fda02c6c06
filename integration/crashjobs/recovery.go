package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/integration/internal/lives"
	"github.com/txonce/txonce/jobs"
)

// patientKind is the kind of jobs whose first attempt is never done.
const patientKind = "crash_patient"

// How many patients there are that die, and jobs for each of them.
const (
	patients   = 3
	perPatient = 4
)

// longestRecovery bounds the wait for the next attempt. It is four times what is required.
const longestRecovery = time.Minute

// recovery is what a patient tells when it begins an attempt.
type recovery struct {
	Intent  int
	Attempt int
}

func definePatient(do work) *jobs.Definition[task, receipt] {
	if do == nil {
		do = func(context.Context, *jobs.Job[task]) (jobs.Commit[receipt], error) { return nil, errBroken }
	}
	return jobs.Define(patientKind, do, nil)
}

// recover works jobs as a program does that sets nothing. First attempts last until the process dies.
func (p *process) recover(ctx context.Context) error {
	marks := json.NewEncoder(lives.Marks())
	var mu sync.Mutex
	runner, err := jobs.New(p.pool, nil, definePatient(func(ctx context.Context, job *jobs.Job[task]) (jobs.Commit[receipt], error) {
		mu.Lock()
		err := marks.Encode(recovery{Intent: job.Args.Intent, Attempt: job.Attempt})
		mu.Unlock()
		if err != nil {
			return nil, err
		}
		if job.Attempt == 1 {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}
		return func(context.Context, pgx.Tx) (receipt, error) { return receipt{Intent: job.Args.Intent}, nil }, nil
	}))
	if err != nil {
		return err
	}
	return p.run(ctx, runner)
}

// ward is a measurement of how soon jobs go on whose worker was killed.
type ward struct {
	*torturer
	jobs   *jobs.Definition[task, receipt]
	runner *jobs.Runner // submits
	begun  chan beginning
}

// beginning is an attempt that began, as the parent heard of it.
type beginning struct {
	recovery
	by *lives.Process
	at time.Time
}

// recoveries measures for at least so many jobs how long it takes from the kill of their worker, in the compute half, to the
// next attempt, with a lease and a sweep of the default length.
func (t *torturer) recoveries(ctx context.Context, n int) (all []time.Duration, err error) {
	d := definePatient(nil)
	runner, err := jobs.New(t.pool, nil, d)
	if err != nil {
		return nil, err
	}
	for round := 0; len(all) < n; round++ {
		found, err := (&ward{torturer: t, jobs: d, runner: runner, begun: make(chan beginning, patients*perPatient)}).round(ctx, round)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// round has some workers begin jobs, starts one more that will take over, kills the others one after the other, and waits.
func (w *ward) round(ctx context.Context, number int) (found []time.Duration, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 2*longestRecovery, fmt.Errorf("jobs of killed workers do not go on within %v", longestRecovery))
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for range patients {
		if _, err := w.admit(ctx, &wg); err != nil {
			return nil, err
		}
	}
	const n = patients * perPatient
	if err := w.submit(ctx, number*n, n); err != nil {
		return nil, err
	}
	has := make(map[int]*lives.Process)
	for len(has) < n {
		b, err := w.next(ctx)
		if err != nil {
			return nil, err
		}
		has[b.Intent] = b.by
	}
	nurse, err := w.admit(ctx, &wg)
	if err != nil {
		return nil, err
	}
	defer nurse.Say(leave)
	killed, err := w.killAll(ctx, has)
	if err != nil {
		return nil, err
	}
	for len(found) < n {
		b, err := w.next(ctx)
		if err != nil {
			return nil, err
		}
		found = append(found, b.at.Sub(killed[has[b.Intent]]))
	}
	return found, w.ended(ctx)
}

// admit starts a worker. What it begins is heard of by next.
func (w *ward) admit(ctx context.Context, wg *sync.WaitGroup) (*lives.Process, error) {
	p, err := lives.Start(ctx, processEnv, assignment{Role: patient, Place: w.schedule.place}, w.alive)
	if err != nil {
		return nil, err
	}
	wg.Go(func() {
		defer p.Close()
		marks := json.NewDecoder(p.Marks())
		for {
			b := beginning{by: p}
			if marks.Decode(&b.recovery) != nil {
				break
			}
			b.at = time.Now()
			w.begun <- b
		}
		if end := p.Wait(); len(end.Stderr) > 0 {
			w.complain("a worker complains: %s", end.Stderr)
		}
	})
	return p, nil
}

func (w *ward) next(ctx context.Context) (beginning, error) {
	select {
	case b := <-w.begun:
		return b, nil
	case <-ctx.Done():
		return beginning{}, context.Cause(ctx)
	}
}

// submit submits jobs, each in a transaction of its own.
func (w *ward) submit(ctx context.Context, from, n int) error {
	for i := range n {
		if err := pgx.BeginFunc(ctx, w.pool, func(tx pgx.Tx) error {
			_, err := w.jobs.SubmitTx(ctx, tx, w.runner, task{Intent: from + i}, &jobs.SubmitOpts{Scope: jobScope})
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// killAll kills all workers that have jobs, each at some time of the second behind the one before: their leases are of any age.
func (w *ward) killAll(ctx context.Context, has map[int]*lives.Process) (map[*lives.Process]time.Time, error) {
	killed := make(map[*lives.Process]time.Time)
	for _, p := range has {
		if !killed[p].IsZero() {
			continue
		}
		if err := lives.Pause(ctx, rand.N(time.Second)); err != nil {
			return nil, err
		}
		killed[p] = time.Now()
		p.Signal(syscall.SIGKILL)
	}
	return killed, nil
}

// ended waits until no job waits or runs.
func (w *ward) ended(ctx context.Context) error {
	for {
		open, err := openJobs(ctx, w.pool)
		if err != nil || open == 0 {
			return err
		}
		if err := lives.Pause(ctx, lives.LookAgain); err != nil {
			return err
		}
	}
}
