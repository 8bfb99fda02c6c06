package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/txonce/txonce/jobs"
	"github.com/txonce/txonce/toolcall"
	"github.com/txonce/txonce/txidem"
)

// world is two processes, as far as waiting goes: one in which things end, and one in which nothing does.
type world struct {
	bench      *statusBench
	here       *ears // where jobs are worked and calls are made
	there      *ears // where nothing but waiting is done
	definition *jobs.Definition[jobArgs, receipt]
	board      *board
	run        atomic.Pointer[wakeRun] // whose jobs are worked
	link       *link                   // for effects
}

const (
	fewConns   = 10  // of the pool on which they wait
	manyConns  = 32  // of the pool on which the work is done
	jobWorkers = 64  // jobs under way at a time, so that one is ready for each that is to end
	perSubmit  = 100 // jobs that are submitted in one transaction
)

func openWorld(ctx context.Context, s *statusBench) (_ *world, err error) {
	w := &world{bench: s, board: &board{}, link: &link{sql: s.db.sql}}
	w.definition = jobs.Define("refund_slowly", w.work, nil)
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close(context.WithoutCancel(ctx)))
		}
	}()
	cfg := &jobs.Config{
		Schema: s.db.calls, Queues: map[string]int{"default": jobWorkers}, Logger: slog.New(slog.DiscardHandler),
		Configure: func(cfg *river.Config) {
			cfg.Middleware = []rivertype.Middleware{river.WorkerMiddlewareFunc(w.board.watch)}
		},
	}
	if w.here, err = openEars(ctx, s, manyConns, cfg, w.definition); err != nil {
		return nil, err
	}
	if w.there, err = openEars(ctx, s, fewConns, &jobs.Config{Schema: s.db.calls}, w.definition); err != nil {
		return nil, err
	}
	return w, w.here.runner.Start(ctx)
}

func (w *world) close(ctx context.Context) (err error) {
	for _, e := range []*ears{w.here, w.there} {
		if e != nil {
			err = errors.Join(err, e.runner.Stop(ctx))
			e.pool.Close()
		}
	}
	return err
}

// ears returns where a cell waits.
func (w *world) ears(c *wakeCell) *ears {
	if c.near {
		return w.here
	}
	return w.there
}

// work is a job that takes until it may end.
func (w *world) work(ctx context.Context, job *jobs.Job[jobArgs]) (jobs.Commit[receipt], error) {
	w.board.begins(ctx, job.Args.Number)
	select {
	case <-w.run.Load().gate:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	return func(ctx context.Context, tx pgx.Tx) (receipt, error) { return w.link.effect(ctx, tx, job.Args.key()) }, nil
}

// errands returns where those who wait get what they wait for, and what is to be done when they have none any more.
func (w *world) errands(ctx context.Context, c *wakeCell, r *wakeRun) (next func(context.Context) (*errand, error), rest func(context.Context) error, err error) {
	if c.calls {
		return func(ctx context.Context) (*errand, error) { return w.call(ctx, r) }, func(context.Context) error { return nil }, nil
	}
	w.run.Store(r)
	o := w.bench.options
	all, err := w.submit(ctx, o.waiters+int(1.5*o.time.Seconds()*float64(o.perSec))+jobWorkers)
	if err != nil {
		return nil, nil, err
	}
	queue := make(chan *errand, len(all))
	for _, e := range all {
		queue <- e
	}
	close(queue)
	next = func(context.Context) (*errand, error) {
		if r.open.Load() != nil {
			return nil, nil
		}
		return <-queue, nil
	}
	return next, func(ctx context.Context) error { return ends(ctx, all) }, nil
}

// ends waits for the ends of all.
func ends(ctx context.Context, all []*errand) error {
	for _, e := range all {
		select {
		case <-e.over:
			if e.err != nil {
				return e.err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

func (w *world) submit(ctx context.Context, n int) (all []*errand, err error) {
	for len(all) < n {
		err := pgx.BeginFunc(ctx, w.here.pool, func(tx pgx.Tx) error {
			for range min(perSubmit, n-len(all)) {
				e := newErrand()
				handle, err := w.definition.SubmitTx(ctx, tx, w.here.runner, argsFor(w.board.issue(e.ended).number), &jobs.SubmitOpts{Scope: scope})
				if err != nil {
					return err
				}
				if e.id, err = toolcall.ParseID(handle.JobID); err != nil {
					return err
				}
				all = append(all, e)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// call makes a call with a lease that takes until it may end. It returns when the call has begun, and nil when there are to be
// no more.
func (w *world) call(ctx context.Context, r *wakeRun) (*errand, error) {
	if r.open.Load() != nil {
		return nil, nil
	}
	key := newWorkers(1, nil)[0].newKey()
	e, begun := newErrand(), make(chan struct{})
	e.id = idOf(key)
	go func() {
		result, err := txidem.RunLeased(ctx, w.here.store, request(key), func(ctx context.Context) (receipt, error) {
			close(begun)
			select {
			case <-r.gate:
				return receiptFor(1), nil
			case <-ctx.Done():
				return receipt{}, context.Cause(ctx)
			}
		}, nil)
		if err == nil && result.Replayed {
			err = errors.New("a new call was answered from a record")
		}
		e.ended(err)
	}()
	select {
	case <-begun:
		return e, nil
	case <-e.over:
		return nil, fmt.Errorf("a call ended before it began: %w", e.err)
	}
}
