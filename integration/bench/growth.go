package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/txonce/txonce/internal/devpg"
)

// growth is a run of "bench growth" (Q02, R12).
type growth struct {
	server   *devpg.Server
	options  growthOptions
	sizes    []*size // from the smallest to the largest
	progress io.Writer
	heap     []heapMark
	sweeps   sweepFigures
	loading  time.Duration
	settings string // of the server, that matter for large tables
}

// runGrowth loads, measures and prints the report on stdout, its progress on stderr.
func runGrowth(ctx context.Context, o growthOptions, stdout, stderr io.Writer) (err error) {
	began := time.Now()
	server, err := devpg.Start(ctx, &devpg.Config{
		URL:     o.url,
		Durable: true,
		// The autovacuum stays on, unlike in the comparison of shapes: a table that grows old has one.
		Parameters: map[string]string{"shared_buffers": "1GB", "max_wal_size": "4GB"},
	})
	if err != nil {
		return err
	}
	g := &growth{server: server, options: o, progress: stderr}
	defer func() { err = errors.Join(err, g.close(context.WithoutCancel(ctx))) }()
	g.say("PostgreSQL %s, %s", server.Version(), server.Source())
	if err := g.open(ctx); err != nil {
		return err
	}
	for _, phase := range []func(context.Context) error{
		g.checkSpace, g.load, g.measure, g.sweepMany, g.sweepNothing, g.verify,
	} {
		if err := phase(ctx); err != nil {
			return err
		}
	}
	return g.report(stdout, time.Since(began))
}

// open makes the schemas of all sizes. They share the connections, so that none has the luck of better placed server
// processes.
func (g *growth) open(ctx context.Context) error {
	connections := g.options.workers + 2 // a sweeper, and one to spare
	for _, records := range g.options.sizes {
		s := &size{records: records, name: nameOf(records)}
		g.sizes = append(g.sizes, s)
		var err error
		if s.db, err = newDatabase(ctx, g.server, fmt.Sprintf("txonce_growth_%d_%s", os.Getpid(), s.name)); err != nil {
			return err
		}
		if err := s.connect(ctx, g.sizes[0].link, connections); err != nil {
			return err
		}
	}
	g.markHeap("at the start")
	return g.largest().db.admin.QueryRow(ctx, sqlSettings).Scan(&g.settings)
}

const sqlSettings = `
select 'shared_buffers ' || current_setting('shared_buffers') || ', max_wal_size ' || current_setting('max_wal_size') ||
       ', checkpoint_timeout ' || current_setting('checkpoint_timeout') || ', autovacuum ' || current_setting('autovacuum')`

// close leaves nothing behind, whatever there is.
func (g *growth) close(ctx context.Context) error {
	var errs []error
	if len(g.sizes) > 0 && g.sizes[0].link != nil {
		g.sizes[0].link.pool.Close()
	}
	for _, s := range g.sizes {
		// A throwaway server takes its tables with it, and dropping them would take it seconds.
		if s.db != nil && g.server.PID() == 0 {
			errs = append(errs, s.db.drop(ctx))
		}
	}
	return errors.Join(append(errs, g.server.Stop())...)
}

func (g *growth) largest() *size { return g.sizes[len(g.sizes)-1] }

func (g *growth) verify(ctx context.Context) error {
	for _, s := range g.sizes {
		if err := s.verify(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (g *growth) say(format string, args ...any) {
	fmt.Fprintf(g.progress, "growth: "+format+"\n", args...)
}
