package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/pprof"
	"slices"
	"time"
)

// outboxBench is a run of "bench outbox".
type outboxBench struct {
	db       *database
	options  outboxOptions
	sql      outboxQueries
	here     *link // of the process that publishes, and of its relay
	there    *link // of a process that hears of nothing
	pids     []uint32
	rates    []*rateCell
	trips    []*tripCell
	drains   []*drainCell
	calls    *publishBench
	bloat    *bloat
	progress io.Writer
}

// The sizes of the pools: for each worker, and for what a relay takes.
const (
	relayConns = 8
	hereConns  = mostWorkers + relayConns
)

// runOutbox measures everything and prints the report on stdout, its progress on stderr.
func runOutbox(ctx context.Context, o outboxOptions, stdout, stderr io.Writer) (err error) {
	began := time.Now()
	// The autovacuum stays on: what a relay claims and settles leaves dead rows behind, and a vacuum is a part of what that costs.
	db, err := openDatabaseWith(ctx, o.url, map[string]string{"max_wal_size": "4GB"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.close(context.WithoutCancel(ctx))) }()
	b := newOutboxBench(db, o, stderr)
	b.say("PostgreSQL %s, %s", db.server.Version(), db.server.Source())
	defer b.close()
	if err := b.open(ctx); err != nil {
		return err
	}
	if err := b.profiled(func() error { return b.measure(ctx) }); err != nil {
		return err
	}
	return b.report(stdout, time.Since(began))
}

func newOutboxBench(db *database, o outboxOptions, progress io.Writer) *outboxBench {
	return &outboxBench{db: db, options: o, sql: outboxQueriesFor(db.calls), progress: progress}
}

// measure measures what the options say.
func (b *outboxBench) measure(ctx context.Context) error {
	if b.options.bloat > 0 {
		return b.measureBloat(ctx)
	}
	parts := map[string]func(context.Context) error{"rates": b.measureRates, "trips": b.measureTrips, "drains": b.measureDrains, "calls": b.measureCalls}
	for _, name := range outboxParts() {
		if !slices.Contains(b.options.parts, name) {
			continue
		}
		if err := parts[name](ctx); err != nil {
			return err
		}
	}
	return nil
}

// profiled writes a CPU profile of what it does, if the options ask for one.
func (b *outboxBench) profiled(do func() error) (err error) {
	if b.options.profile == "" {
		return do()
	}
	file, err := os.Create(b.options.profile)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := pprof.StartCPUProfile(file); err != nil {
		return err
	}
	defer pprof.StopCPUProfile()
	return do()
}

// open opens the pools of both processes.
func (b *outboxBench) open(ctx context.Context) (err error) {
	dial := dialTo(serverOf(b.db))
	if b.here, err = openLink(ctx, b.db, "here", hereConns, dial); err != nil {
		return err
	}
	if b.there, err = openLink(ctx, b.db, "there", relayConns, dial); err != nil {
		return err
	}
	if b.db.server.PID() == 0 { // its processes are another machine's
		return nil
	}
	for _, l := range []*link{b.here, b.there} {
		pids, err := backends(ctx, l)
		if err != nil {
			return err
		}
		b.pids = append(b.pids, pids...)
	}
	return nil
}

func (b *outboxBench) close() {
	for _, l := range []*link{b.here, b.there} {
		if l != nil {
			l.pool.Close()
		}
	}
}

// empty makes the tables empty: no slice is to have larger ones than another.
func (b *outboxBench) empty(ctx context.Context) error {
	if _, err := b.db.admin.Exec(ctx, b.sql.empty); err != nil {
		return err
	}
	return b.db.writeOut(ctx)
}

// settle leaves the tables as an autovacuum would have left them.
func (b *outboxBench) settle(ctx context.Context) error {
	_, err := b.db.admin.Exec(ctx, b.sql.settle)
	return err
}

// outboxTally is what is in the tables: messages, those that wait, those that were delivered, and the attempts of these.
type outboxTally struct{ messages, pending, delivered, attempts int }

func (b *outboxBench) tally(ctx context.Context) (t outboxTally, err error) {
	err = b.db.admin.QueryRow(ctx, b.sql.tally).Scan(&t.messages, &t.pending, &t.delivered, &t.attempts)
	return t, err
}

// verify fails unless each message was delivered by one attempt, and that is written down.
func (b *outboxBench) verify(ctx context.Context, published int) error {
	got, err := b.tally(ctx)
	if want := (outboxTally{messages: published, delivered: published, attempts: published}); err == nil && got != want {
		err = fmt.Errorf("the tables hold %+v, but the messages that were published should have left %+v", got, want)
	}
	return err
}

func (b *outboxBench) say(format string, args ...any) {
	fmt.Fprintf(b.progress, "bench-outbox: "+format+"\n", args...)
}
