package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/txonce/txonce/jobs"
	"github.com/txonce/txonce/outbox"
	"github.com/txonce/txonce/toolcall"
)

// newUnprotectedShop is the same server without txonce: the handlers are the same, each call has a transaction of its
// own, and nobody remembers it. The slow tool puts a job into River, as one does; each call puts one more. The merchant is told by
// the handler itself; each call tells once more.
func newUnprotectedShop(ctx context.Context, db *database, m *merchant, log *slog.Logger) (*shop, error) {
	workers := river.NewWorkers()
	river.AddWorker(workers, plainWorker{pool: db.Pool})
	queue, err := river.NewClient(riverpgxv5.New(db.Pool), &river.Config{
		Schema: db.schemas.river(), Workers: workers, Logger: log,
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 50}}, // it has more to do
	})
	if err != nil {
		return nil, err
	}
	server := mcp.NewServer(serverName(), &mcp.ServerOptions{Logger: log})
	mcp.AddTool(server, refundTool(), inTx(db.Pool, refunds{post(m)}.issue))
	mcp.AddTool(server, ticketTool(), inTx(db.Pool, createTicket))
	mcp.AddTool(server, ledgerTool(), inTx(db.Pool, appendLedgerEntry))
	mcp.AddTool(server, statementTool(), inTx(db.Pool, plainOrder(queue)))
	stop := func(ctx context.Context) error {
		if queue.Stop(ctx) == nil {
			return nil
		}
		return queue.StopAndCancel(context.WithoutCancel(ctx))
	}
	return &shop{server: server, stop: stop, jobs: place{db.schemas.river() + ".river_job", "finalized_at"}}, queue.Start(context.WithoutCancel(ctx))
}

// inTx makes a handler of the SDK out of one that wants a transaction.
func inTx[In, Out any](pool *pgxpool.Pool, h func(context.Context, pgx.Tx, In) (Out, error)) mcp.ToolHandlerFor[In, Out] {
	return func(ctx context.Context, _ *mcp.CallToolRequest, in In) (*mcp.CallToolResult, Out, error) {
		var out Out
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) (err error) {
			out, err = h(ctx, tx, in)
			return err
		})
		return nil, out, err
	}
}

// post is the way without an outbox: an error means that the refund is rolled back, whether or not the merchant was told.
func post(m *merchant) teller {
	return func(ctx context.Context, _ pgx.Tx, notice RefundNotice) error {
		body, err := json.Marshal(notice)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, attemptTime)
		defer cancel()
		var id toolcall.ID
		_, _ = rand.Read(id[:]) // it never fails
		out, err := m.hooks.Deliver(ctx, outbox.Delivery{ID: id, Key: rand.Text(), Body: body})
		if err == nil && out.Class != outbox.Delivered {
			err = errors.New(out.Reason)
		}
		return err
	}
}

// plainJob is the slow tool's work as a job of River's own.
type plainJob struct{ Statement }

func (plainJob) Kind() string { return "plain_statement" }

type plainWorker struct {
	river.WorkerDefaults[plainJob]
	pool *pgxpool.Pool
}

func (w plainWorker) Work(ctx context.Context, job *river.Job[plainJob]) error {
	pages, err := typeset(ctx, func(float64, string) {})
	if err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, w.pool, func(tx pgx.Tx) error {
		if _, err := saveStatement(ctx, tx, job.Args.Statement, pages); err != nil {
			return err
		}
		_, err := river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, job)
		return err
	})
}

// plainOrder answers in the same form. Nobody keeps what became of the job by that id, so there is no tool that tells.
func plainOrder(queue *river.Client[pgx.Tx]) func(context.Context, pgx.Tx, Statement) (jobs.Handle, error) {
	return func(ctx context.Context, tx pgx.Tx, in Statement) (out jobs.Handle, err error) {
		if err := checkMonth(in.Month); err != nil {
			return out, err
		}
		put, err := queue.InsertTx(ctx, tx, plainJob{in}, nil)
		if err != nil {
			return out, err
		}
		return jobs.Handle{JobID: fmt.Sprint(put.Job.ID), Kind: put.Job.Kind, State: toolcall.StateQueued}, nil
	}
}
