package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"

	"github.com/txonce/txonce/jobs"
)

// side is one way to have jobs done: both write one row in a transaction of the worker's.
type side struct {
	name        string
	submit      func(ctx context.Context, tx pgx.Tx, queue string, args jobArgs) error
	start, stop func(context.Context) error
	keepsJobs   bool // in a table of ours
	board       *board
}

// The sides, in the order of the table.
const (
	plainRiver = iota
	ourJobs
)

// jobArgs are the arguments of both sides' jobs: those of the call that all shapes make, and the number of the job.
type jobArgs struct {
	Number   int64  `json:"number"`
	OrderID  string `json:"order_id"`
	Cents    int64  `json:"amount_cents"`
	Currency string `json:"currency"`
	Reason   string `json:"reason"`
	Notify   bool   `json:"notify_customer"`
}

func argsFor(number int64) jobArgs {
	return jobArgs{
		Number: number, OrderID: orderID, Cents: cents, Currency: "EUR", Reason: "arrived damaged, second parcel", Notify: true,
	}
}

// Kind is for River.
func (jobArgs) Kind() string { return "refund_plain" }

// River's defaults let a process fetch ten times a second: with them, both sides would do as many jobs as there are workers,
// ten times a second. These are what River's own benchmark has.
const (
	fetchCooldown = 2 * time.Millisecond
	fetchPoll     = 20 * time.Millisecond
)

// queueOf names the queue that so many workers of a side work.
func queueOf(side, workers int) string { return fmt.Sprintf("side_%d_workers_%d", side, workers) }

func newSides(j *jobsBench) ([]*side, error) {
	ours, err := newOurSide(j)
	if err != nil {
		return nil, err
	}
	plain, err := newPlainSide(j)
	if err != nil {
		return nil, err
	}
	return []*side{plainRiver: plain, ourJobs: ours}, nil
}

// configure is for both sides' clients.
func configure(cfg *river.Config, b *board) {
	cfg.FetchCooldown, cfg.FetchPollInterval = fetchCooldown, fetchPoll
	cfg.Middleware = []rivertype.Middleware{river.WorkerMiddlewareFunc(b.watch)}
}

// newOurSide submits by SubmitTx and works with a runner that is as it is by default, but for the fetching.
func newOurSide(j *jobsBench) (*side, error) {
	s := &side{name: "ours", keepsJobs: true, board: &board{}}
	definition := jobs.Define("refund_ours", func(ctx context.Context, job *jobs.Job[jobArgs]) (jobs.Commit[receipt], error) {
		s.board.begins(ctx, job.Args.Number)
		return func(ctx context.Context, tx pgx.Tx) (receipt, error) { return j.link.effect(ctx, tx, job.Args.key()) }, nil
	}, nil)
	queues := make(map[string]int)
	for _, workers := range workerCounts() {
		queues[queueOf(ourJobs, workers)] = workers
	}
	runner, err := jobs.New(j.pool(), &jobs.Config{
		Schema: j.db.calls, Queues: queues, Configure: func(cfg *river.Config) { configure(cfg, s.board) },
	}, definition)
	if err != nil {
		return nil, err
	}
	s.submit = func(ctx context.Context, tx pgx.Tx, queue string, args jobArgs) error {
		_, err := definition.SubmitTx(ctx, tx, runner, args, &jobs.SubmitOpts{Scope: scope, Queue: queue})
		return err
	}
	s.start, s.stop = runner.Start, runner.Stop
	return s, nil
}

// newPlainSide is what one would write with River alone: the job ends in the transaction of its effect.
func newPlainSide(j *jobsBench) (*side, error) {
	s := &side{name: "plain River", board: &board{}}
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(func(ctx context.Context, job *river.Job[jobArgs]) error {
		s.board.begins(ctx, job.Args.Number)
		return pgx.BeginFunc(ctx, j.pool(), func(tx pgx.Tx) error {
			if _, err := j.link.effect(ctx, tx, job.Args.key()); err != nil {
				return err
			}
			_, err := river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, job)
			return err
		})
	}))
	cfg := &river.Config{
		Schema: j.db.calls + "_river", Workers: workers, Queues: make(map[string]river.QueueConfig), Logger: slog.New(slog.DiscardHandler),
	}
	for _, workers := range workerCounts() {
		cfg.Queues[queueOf(plainRiver, workers)] = river.QueueConfig{MaxWorkers: workers}
	}
	configure(cfg, s.board)
	client, err := river.NewClient(riverpgxv5.New(j.pool()), cfg)
	if err != nil {
		return nil, err
	}
	s.submit = func(ctx context.Context, tx pgx.Tx, queue string, args jobArgs) error {
		_, err := client.InsertTx(ctx, tx, args, &river.InsertOpts{Queue: queue})
		return err
	}
	s.start, s.stop = client.Start, client.Stop
	return s, nil
}

// key is what the effect is written under.
func (a jobArgs) key() string { return fmt.Sprint("job ", a.Number) }
