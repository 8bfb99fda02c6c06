package faults

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"

	"github.com/txonce/txonce/integration/internal/servers"
	"github.com/txonce/txonce/internal/devpg"
	"github.com/txonce/txonce/txidem"
)

// TestPooler_R17_EverythingWorksBehindIt has calls in all ways, jobs, messages and questions go through pgbouncer in transaction mode.
func TestPooler_R17_EverythingWorksBehindIt(t *testing.T) {
	servers.Everywhere(t, func(t *testing.T, p servers.Place) {
		s := shared(t, p)
		pooler, err := devpg.StartPooler(t.Context(), s.URL(), nil)
		if errors.Is(err, devpg.ErrNoPooler) {
			t.Skip(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := pooler.Stop(); err != nil {
				t.Error(err)
			}
		})
		for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeExec, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeSimpleProtocol} {
			w := newWorld(t, s, nil, func(cfg *pgxpool.Config) {
				cfg.ConnConfig.DefaultQueryExecMode = mode
				pooler.Route(&cfg.ConnConfig.Config)
			})
			w.employ(func(c *river.Config) { c.PollOnly = true })
			before, err := pooler.Transactions(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			l := newLoad(w, byRun, byBatch, byLease, byJob, byMessage).start()
			l.answered(25)
			l.end()
			w.clean()
			after, err := pooler.Transactions(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%s: %d transactions through pgbouncer %s", mode, after-before, pooler.Version())
			if after-before < int64(l.keys) {
				t.Errorf("%s: %d transactions of %d calls went through the pooler", mode, after-before, l.keys)
			}
		}
	})
}

// byLease has its effect elsewhere, which here is behind the library's back.
func byLease(ctx context.Context, w *world, a *attempt) (string, error) {
	got, err := txidem.RunLeased(ctx, w.store, request(a.key), func(ctx context.Context) (string, error) {
		run := a.begin()
		_, err := w.books.Exec(ctx, sqlEffect, a.key, run, "")
		return run, err
	}, nil)
	return got.Value, err
}
