package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"time"

	"github.com/txonce/txonce/internal/devpg"
)

// runAll runs the whole example and returns the exit status.
func runAll(ctx context.Context, o options, stdout, stderr io.Writer) int {
	t, err := show(ctx, o, stdout, stderr)
	switch {
	case ctx.Err() != nil:
		_, _ = fmt.Fprintln(stderr, "\nreports: interrupted")
		return exitInterrupted
	case err != nil:
		_, _ = fmt.Fprintf(stderr, "reports: %v\n", err)
		return exitBad
	}
	for _, problem := range t.problems {
		_, _ = fmt.Fprintln(stdout, "WRONG:", problem)
	}
	_, _ = fmt.Fprintln(stdout, t)
	if len(t.problems) > 0 {
		return exitBad
	}
	return exitGood
}

// show finds or starts a database server and runs the example there, in schemas of its own, which it removes at the end.
func show(ctx context.Context, o options, stdout, stderr io.Writer) (t *tally, err error) {
	pg, err := devpg.Start(ctx, &devpg.Config{Logger: slog.New(slog.NewTextHandler(stderr, nil))}) // it logs downloads
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, pg.Stop()) }()
	_, _ = fmt.Fprintf(stdout, "Reports that take %v each, by processes that may die at any time.\n\n  PostgreSQL %s: %s.\n", o.takes, pg.Version(), pg.Source())
	names := schemasNamed(fmt.Sprintf("%s_%08x", defaultSchema, rand.Uint32()))
	db, err := openDatabase(ctx, pg.URL(), names)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dropTimeout)
		defer cancel()
		if err := db.drop(ctx); err != nil {
			_, _ = fmt.Fprintf(stderr, "reports: the schemas %s… are left in the database: %v\n", names.app, err)
		}
	}()
	return perform(ctx, o, pg.URL(), db, newBoard(stdout), stderr)
}

const dropTimeout = 10 * time.Second

// perform starts the processes, has the agent order its reports, ends the processes and counts.
func perform(ctx context.Context, o options, url string, db *database, b *board, stderr io.Writer) (*tally, error) {
	c, err := hire(o, url, db.names.app, b, stderr)
	if err != nil {
		return nil, err
	}
	working, dismiss := context.WithCancelCause(ctx)
	defer c.wait()
	defer dismiss(nil)
	if err := c.start(working, dismiss); err != nil {
		return nil, err
	}
	b.say("all processes are ready:\n\n%s", c.roll())
	a := newAgent(func() string { _, at := c.server.where(); return at }, demoToken, b)
	errands := trouble(working, o, c, func(ctx context.Context) []*errand {
		return a.work(ctx, o.orders, o.every, 5*time.Minute+20*o.takes)
	})
	if working.Err() != nil {
		return nil, context.Cause(working)
	}
	dismiss(nil)
	c.wait() // now nobody writes any more
	if c.kills > 0 {
		b.say("%d processes were killed", c.kills)
	}
	b.end()
	rows, err := db.made(ctx)
	if err != nil {
		return nil, err
	}
	submitted, err := db.jobs(ctx)
	if err != nil {
		return nil, err
	}
	return count(errands, int(a.calls.Load()), submitted, rows), nil
}

// trouble runs the agent's work, beside whoever kills.
func trouble(ctx context.Context, o options, c *crew, work func(context.Context) []*errand) []*errand {
	if !o.kill {
		return work(ctx)
	}
	killing, enough := context.WithCancel(ctx)
	killed := make(chan struct{})
	go func() {
		defer close(killed)
		most := 2 * o.orders
		if o.orders == 0 {
			most = math.MaxInt
		}
		c.torment(killing, most, max(o.takes/4, time.Second))
	}()
	defer func() {
		enough()
		<-killed
	}()
	return work(ctx)
}
