package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/txonce/txonce/jobs"
	"github.com/txonce/txonce/toolcall"
)

// riverSchema is where the queue is.
const riverSchema = "txonce_river"

// doorbell is the queue's row of a job.
type doorbell struct {
	Job toolcall.ID `json:"job"`
}

func (doorbell) Kind() string { return jobKind }

// plainly works jobs as River's documentation shows it: the effect and river.JobCompleteTx in one transaction. It looks whether the
// job has ended, and takes no lock. That is what somebody has who takes out the fence.
type plainly struct {
	river.WorkerDefaults[doorbell]
	*working
}

// Timeout is River's and this type's.
func (p *plainly) Timeout(*river.Job[doorbell]) time.Duration { return 10 * time.Second }

// NextRetry is soon.
func (p *plainly) NextRetry(*river.Job[doorbell]) time.Time { return time.Now().Add(lease / 10) }

// workPlainly works jobs without package jobs.
func (p *process) workPlainly(ctx context.Context) error {
	workers := river.NewWorkers()
	river.AddWorker(workers, &plainly{working: &working{process: p}})
	cfg := &river.Config{
		Schema: riverSchema, Workers: workers, Logger: logger(), JobTimeout: 10 * time.Second,
		Queues: map[string]river.QueueConfig{"default": {MaxWorkers: atATime}},
	}
	hurry(cfg)
	client, err := river.NewClient(riverpgxv5.New(p.pool), cfg)
	if err != nil {
		return err
	}
	if err := client.Start(ctx); err != nil {
		return err
	}
	<-p.left
	ctx, cancel := context.WithTimeout(ctx, longestLeave)
	defer cancel()
	return client.Stop(ctx)
}

const (
	sqlTask = `select args from txonce.job where id = $1 and finished_at is null`
	sqlEnd  = `
update txonce.job
   set state = 'succeeded', answer = $2, attempts = attempts + 1, finished_at = clock_timestamp(), lease_until = null,
       expires_at = clock_timestamp() + greatest(keep, call_keep)
 where id = $1`
)

// Work is one run of a doorbell.
func (p *plainly) Work(ctx context.Context, rung *river.Job[doorbell]) error {
	id := [16]byte(rung.Args.Job)
	job := &jobs.Job[task]{ID: rung.Args.Job, Attempt: rung.Attempt}
	var args []byte
	switch err := p.pool.QueryRow(ctx, sqlTask, id).Scan(&args); {
	case errors.Is(err, pgx.ErrNoRows):
		return nil
	case err != nil:
		return err
	}
	if err := json.Unmarshal(args, &job.Args); err != nil {
		return err
	}
	name := fmt.Sprintf("%d.%d", p.a.Life, p.begun.Add(1))
	a := p.reaper.attempting(job.ID, job.Attempt, name, job.Args.Intent)
	p.reaper.at(a, computeBegun, func(*trace) {})
	time.Sleep(job.Args.Pause)
	p.reaper.at(a, computeDone, func(t *trace) { t.Computed = true })
	return pgx.BeginFunc(ctx, p.pool, func(tx pgx.Tx) error {
		r, err := p.commit(ctx, tx, job, a, name)
		if err != nil {
			return err
		}
		raw, err := json.Marshal(r)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, sqlEnd, id, raw); err != nil {
			return err
		}
		_, err = river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, rung)
		return err
	})
}
