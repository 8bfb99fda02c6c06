package faults

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/integration/internal/servers"
	"github.com/txonce/txonce/toolcall"
)

// TestTooManyConnections_R15_CallsSaySoAndGoOn has somebody else take each connection of the server that becomes free.
func TestTooManyConnections_R15_CallsSaySoAndGoOn(t *testing.T) {
	servers.Everywhere(t, func(t *testing.T, p servers.Place) {
		const ours, beside = 6, 2 // connections of the pool, and of the store to find out about lost commits
		s := p.ForTest(t, &servers.Config{Parameters: map[string]string{"max_connections": "30"}})
		w := newWorld(t, s, nil, func(cfg *pgxpool.Config) { cfg.MaxConns = ours })
		l := newLoad(w, byRun, byBatch).start()
		l.answered(6)

		there, err := w.books.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer there.Release()
		release := takeAll(t, w)
		cutAll := func() {
			if _, err := there.Exec(t.Context(), sqlCutAll, appName); err != nil {
				t.Fatal(err)
			}
		}
		for range 3 { // calls that are in the middle of something, too
			cutAll()
			l.hears(tooManyConnections, 2*lanesOfLoad)
		}
		status, err := w.store.Status(t.Context(), request("k0000"))
		if kind := kindOf(err); err == nil && status.State != toolcall.StateSucceeded || err != nil && !strings.Contains(kind, "unavailable") {
			t.Errorf("the status is %+v, %v; want the truth or ErrUnavailable", status, err)
		}
		release()
		for range 10 {
			l.answered(1)
			var sessions int
			if err := there.QueryRow(t.Context(), sqlSessions, appName).Scan(&sessions); err != nil {
				t.Fatal(err)
			}
			if sessions > ours+beside {
				t.Errorf("the library has %d sessions, want at most %d", sessions, ours+beside)
			}
		}
		there.Release()
		l.end()
		w.clean()
	})
}

// sqlCutAll ends the sessions of the application in this database; others of the server are other tests'.
const (
	sqlSessions = `select count(*) from pg_stat_activity where application_name = $1 and datname = current_database()`
	sqlCutAll   = `select pg_terminate_backend(pid) from pg_stat_activity where application_name = $1 and datname = current_database()`
)

// takeAll takes each connection that the server has to give, until release is called.
func takeAll(t *testing.T, w *world) (release func()) {
	ctx, cancel := context.WithCancel(t.Context())
	cfg, err := w.place.Config()
	if err != nil {
		t.Fatal(err)
	}
	full, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		var taken []*pgx.Conn
		for first := true; ctx.Err() == nil; {
			conn, err := pgx.ConnectConfig(ctx, cfg.ConnConfig)
			if err == nil {
				taken = append(taken, conn)
				continue
			}
			if first {
				first = false
				close(full)
			}
			select {
			case <-time.After(2 * time.Millisecond):
			case <-ctx.Done():
			}
		}
		for _, conn := range taken {
			_ = conn.Close(context.Background())
		}
	}()
	release = func() { cancel(); <-gone }
	t.Cleanup(release)
	<-full
	return release
}
