package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/txonce/txonce/jobs"
	"github.com/txonce/txonce/outbox"
	"github.com/txonce/txonce/statustool"
	"github.com/txonce/txonce/txidem"
)

// soakWorld is what a process has that uses the library, on one pool.
type soakWorld struct {
	soak       *soak
	name       string // of its sessions
	link       *link
	definition *jobs.Definition[jobArgs, receipt]
	runner     *jobs.Runner
	board      board
	outbox     *process
	trips      *trips
	status     http.Handler
	recent     recent
	log        complaints
	closers    []func(context.Context) error // in the order of opening
}

const (
	soakConns   = 24 // of the pool, all of them open from the beginning
	soakWorkers = 8  // of jobs
	soakKeys    = 100
	reindexes   = 6 // of River's indexes in a run, which it does once a day: one of them keeps what is gone from the table
)

func newSoakWorld(s *soak) *soakWorld {
	return &soakWorld{soak: s, name: fmt.Sprint("txonce_soak_", os.Getpid()), trips: newTrips()}
}

// open opens the world and starts what runs beside the calls. What was opened is to be closed, also when it fails.
func (w *soakWorld) open(ctx context.Context) error {
	if _, err := w.soak.db.admin.Exec(ctx, w.soak.sql.once); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{w.openStore, w.openJobs, w.openOutbox, w.openStatus, w.openSweeps} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// close ends what was opened, the last first.
func (w *soakWorld) close(ctx context.Context) error {
	var errs []error
	for _, c := range slices.Backward(w.closers) {
		errs = append(errs, c(ctx))
	}
	w.closers = nil
	return errors.Join(errs...)
}

func (w *soakWorld) closeBy(c func(context.Context) error) { w.closers = append(w.closers, c) }

// beside runs the function until the world is closed.
func (w *soakWorld) beside(ctx context.Context, run func(context.Context) error) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	w.closeBy(func(context.Context) error {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			return err
		}
		return nil
	})
}

func (w *soakWorld) openStore(ctx context.Context) error {
	db := w.soak.db
	cfg, err := pgxpool.ParseConfig(db.server.URL())
	if err != nil {
		return err
	}
	cfg.MaxConns, cfg.MinConns = soakConns, soakConns
	cfg.ConnConfig.RuntimeParams["application_name"] = w.name
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return err
	}
	w.closeBy(func(context.Context) error {
		pool.Close()
		return nil
	})
	w.link = &link{name: "soak", pool: pool, sql: db.sql}
	if err := w.link.connect(ctx, soakConns); err != nil {
		return err
	}
	w.link.store, err = txidem.New(pool, &txidem.Config{
		Schema: db.calls, Policy: &txidem.Policy{Retention: w.soak.options.retention()}, Logger: slog.New(&w.log),
	})
	return err
}

// openJobs starts a runner whose jobs and doorbells are removed as soon as calls are.
func (w *soakWorld) openJobs(ctx context.Context) (err error) {
	keep := w.soak.options.retention()
	w.definition = jobs.Define("refund_soak", func(ctx context.Context, job *jobs.Job[jobArgs]) (jobs.Commit[receipt], error) {
		w.board.begins(ctx, job.Args.Number)
		return func(ctx context.Context, tx pgx.Tx) (receipt, error) { return w.link.effect(ctx, tx, job.Args.key()) }, nil
	}, &jobs.Options{Retention: keep})
	w.runner, err = jobs.New(w.link.pool, &jobs.Config{
		Schema: w.soak.db.calls, Queues: map[string]int{"default": soakWorkers}, Logger: slog.New(&w.log),
		Configure: func(cfg *river.Config) {
			cfg.CompletedJobRetentionPeriod = keep
			cfg.ReindexerSchedule = river.PeriodicInterval(max(w.soak.options.time/reindexes, time.Minute))
			cfg.Middleware = []rivertype.Middleware{river.WorkerMiddlewareFunc(w.board.watch)}
		},
	}, w.definition)
	if err != nil {
		return err
	}
	w.closeBy(w.runner.Stop)
	return w.runner.Start(ctx)
}

// openOutbox starts a relay to a function of this process. A minute is the least time for which messages are kept.
func (w *soakWorld) openOutbox(ctx context.Context) (err error) {
	w.outbox, err = openProcess(w.link.pool, w.soak.db.calls, &outbox.Config{Sweep: 5 * time.Second},
		outbox.Destination{Keep: time.Minute, Publisher: outbox.Func(w.trips.deliver)})
	if err != nil {
		return err
	}
	stop := w.outbox.start(ctx)
	w.closeBy(func(context.Context) error { return stop() })
	return nil
}

func (w *soakWorld) openStatus(context.Context) (err error) {
	w.status, err = statustool.Handler(&statustool.HandlerConfig{
		Scope: scopeOf, Outbox: w.outbox, Logger: slog.New(&w.log),
	}, w.link.store, w.runner)
	return err
}

// openSweeps starts the sweeper, and what keeps the application's own table small.
func (w *soakWorld) openSweeps(ctx context.Context) error {
	every := w.soak.options.retention() / 2
	sweeper, err := txidem.NewSweeper(w.link.store, every)
	if err != nil {
		return err
	}
	w.beside(ctx, sweeper.Run)
	w.beside(ctx, func(ctx context.Context) error {
		for pause(ctx, every) {
			tag, err := w.link.pool.Exec(ctx, w.soak.sql.tidy, (4 * every).Seconds())
			w.soak.books.tidied.Add(tag.RowsAffected())
			if err != nil && ctx.Err() == nil {
				w.soak.books.fail(err)
			}
		}
		return ctx.Err()
	})
	return nil
}

// sweepAll sweeps once more and compares the tables with the books: each effect was there once, what had expired is gone, and
// no record is held any more.
func (w *soakWorld) sweepAll(ctx context.Context) error {
	s := w.soak
	began := time.Now()
	if err := s.db.admin.QueryRow(ctx, sqlNow).Scan(&began); err != nil {
		return err
	}
	_, err := w.link.store.Sweep(ctx)
	s.books.fail(err)
	var expired, held, effects int64
	if err := s.db.admin.QueryRow(ctx, s.sql.left, began).Scan(&expired, &held); err != nil {
		return err
	}
	if expired > 0 || held > 0 {
		s.books.fail(fmt.Errorf("%d records had expired and were not swept, and %d are held without a job that will let them go", expired, held))
	}
	if err := s.db.admin.QueryRow(ctx, s.sql.effects).Scan(&effects); err != nil {
		return err
	}
	if effects += s.books.tidied.Load(); effects != s.books.effects.Load() {
		s.books.fail(fmt.Errorf("there were %d effects, and %d calls and jobs that have one", effects, s.books.effects.Load()))
	}
	return nil
}
