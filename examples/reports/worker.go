package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/txonce/txonce/jobs"
)

const (
	// atOnce is how many reports one worker has in hand.
	atOnce = 2
	// grace is how long a worker that is asked to stop goes on, to finish what is nearly done. The rest it hands back: another
	// worker begins it at once.
	grace = time.Second
)

// work is a worker. Any number of these may stand side by side, and any of them may die.
func work(ctx context.Context, o options, db *database, log *slog.Logger, ready func(string)) error {
	report := defineReport(&clerk{pool: db.Pool, name: o.name, takes: o.takes})
	runner, err := jobs.New(db.Pool, &jobs.Config{
		Schema: db.names.records,
		Queues: map[string]int{"default": atOnce},
		Lease:  o.lease,
		Logger: log,
	}, report)
	if err != nil {
		return err
	}
	if err := runner.Start(ctx); err != nil {
		return err
	}
	ready("")
	<-ctx.Done()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	if err := runner.Stop(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) { // that one says what was handed back
		return err
	}
	return nil
}
