package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"

	"github.com/txonce/txonce/toolcall"
)

// bell is what River knows of a job: the id under which to look it up. Whoever rings it, and how often, the job is worked
// once.
type bell struct {
	Job   toolcall.ID `json:"job"`
	kind  string
	later *laterError // why the attempt behind this ringing did not succeed
}

// Kind is what River calls it: the kind of the job, for those who watch the queue.
func (b bell) Kind() string { return b.kind }

// ringer is told by River when a doorbell of its kind rings.
type ringer struct {
	runner *Runner
	def    *definition
}

func (w ringer) Work(ctx context.Context, rung *river.Job[bell]) error {
	err := w.runner.answer(ctx, w.def, rung.Args.Job)
	errors.As(err, &rung.Args.later)
	return err
}

// NextRetry is when River rings again behind an attempt that failed. River's count of attempts is the doorbell's: a new one
// begins anew.
func (w ringer) NextRetry(rung *river.Job[bell]) time.Time {
	if later := rung.Args.later; later != nil {
		return time.Now().Add(later.pause)
	}
	return time.Now().Add(w.def.pause(rung.Attempt))
}

// laterError is why an attempt did not succeed, with the pause behind it.
type laterError struct {
	error
	pause time.Duration
}

func (e *laterError) Unwrap() error { return e.error }

// Timeout leaves the time of an attempt to us, and lets River clean up the rows of workers that were killed.
func (w ringer) Timeout(*river.Job[bell]) time.Duration {
	return w.def.opts.Timeout + w.def.opts.CommitTimeout + time.Minute
}

func (w ringer) Middleware(*rivertype.JobRow) []rivertype.WorkerMiddleware { return nil }

// connect registers the kinds with River and makes the runner's own client, where the application has none to share.
func (r *Runner) connect() error {
	workers := r.cfg.Workers
	r.own = workers == nil
	if r.own {
		workers = river.NewWorkers()
	}
	longest := time.Duration(0)
	for _, name := range r.names {
		w := ringer{runner: r, def: r.kinds[name]}
		if err := addWorker(workers, w); err != nil {
			return err
		}
		longest = max(longest, w.Timeout(nil))
	}
	if !r.own {
		return nil
	}
	cfg := &river.Config{
		Schema:                      r.cfg.RiverSchema,
		Workers:                     workers,
		Queues:                      make(map[string]river.QueueConfig),
		Logger:                      r.log,
		FetchOnlyKnownKinds:         true, // beside processes of another release
		SkipUnknownJobCheck:         true,
		JobTimeout:                  longest,
		RescueStuckJobsAfter:        longest + time.Minute,
		CompletedJobRetentionPeriod: time.Hour,
	}
	for name, workers := range r.cfg.Queues {
		cfg.Queues[name] = river.QueueConfig{MaxWorkers: workers}
	}
	if r.cfg.Configure != nil {
		r.cfg.Configure(cfg)
	}
	client, err := river.NewClient(riverpgxv5.New(r.pool), cfg)
	if err != nil {
		return fmt.Errorf("jobs: River refuses the configuration: %w", err)
	}
	r.client.Store(client)
	return nil
}

// addWorker makes an error of the panic with which River refuses a kind that it has.
func addWorker(workers *river.Workers, w ringer) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("jobs: River refuses the kind %q; give the definition another name: %v", w.def.kind, v)
		}
	}()
	river.AddWorkerArgs(workers, bell{kind: w.def.kind}, w)
	return nil
}

// hang hangs new doorbells for jobs, in tx.
func (r *Runner) hang(ctx context.Context, tx pgx.Tx, due []*dueJob) ([]int64, error) {
	params := make([]river.InsertManyParams, len(due))
	for i, j := range due {
		params[i] = river.InsertManyParams{
			Args:       bell{Job: j.id, kind: j.kind},
			InsertOpts: &river.InsertOpts{MaxAttempts: max(j.maxAttempts-j.attempts, 1), Priority: j.priority, Queue: j.queue},
		}
		if now := timeOf(j.nowUS); time.Until(now) < -r.cfg.Lease { // River would write our time, which is ahead, and wait for it
			params[i].InsertOpts.ScheduledAt = now
		}
	}
	results, err := r.client.Load().InsertManyTx(ctx, tx, params)
	if err != nil {
		return nil, err
	}
	ids := make([]int64, len(results))
	for i, result := range results {
		ids[i] = result.Job.ID
	}
	return ids, nil
}
