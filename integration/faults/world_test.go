package faults

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/integration/internal/lives"
	"github.com/txonce/txonce/integration/internal/servers"
	"github.com/txonce/txonce/txidem"
)

// appName is what the sessions of the library are known by.
const appName = "txonce_faults"

// sqlTables has the effects that are counted. Nothing but the library keeps them single. A wide one fills half a page.
const sqlTables = `create table effect (key text not null, run text not null, wide text not null default '');
alter table effect alter wide set storage plain`

// world is a database on a server, and one process of an application there.
type world struct {
	t     *testing.T
	place lives.Place
	books *pgxpool.Pool // the test's own way to the server
	pool  *pgxpool.Pool
	store *txidem.Store
	staff *staff // works jobs and delivers messages, where the test wants that
}

// newWorld makes a migrated database on the server. change, if not nil, may give the pool another way there.
func newWorld(t *testing.T, s *servers.Server, policy *txidem.Policy, change func(*pgxpool.Config)) *world {
	t.Helper()
	w := &world{t: t, place: lives.Place{URL: s.URL(), Database: "faults_" + strings.ToLower(rand.Text())}}
	admin, err := pgx.Connect(t.Context(), s.URL())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Exec(t.Context(), "create database "+w.place.Database); err != nil {
		t.Fatal(err)
	}
	if err := admin.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if w.books, err = lives.Prepare(t.Context(), w.place, sqlTables); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.books.Close)
	w.pool, w.store = w.process(policy, change)
	return w
}

// process makes the pool and the store of a process of the application.
func (w *world) process(policy *txidem.Policy, change func(*pgxpool.Config)) (*pgxpool.Pool, *txidem.Store) {
	w.t.Helper()
	cfg, err := w.place.Config()
	if err != nil {
		w.t.Fatal(err)
	}
	cfg.MaxConns = 8
	cfg.ConnConfig.RuntimeParams["application_name"] = appName
	if change != nil {
		change(cfg)
	}
	pool, err := pgxpool.NewWithConfig(context.WithoutCancel(w.t.Context()), cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(pool.Close)
	store, err := txidem.New(pool, &txidem.Config{Policy: policy})
	if err != nil {
		w.t.Fatal(err)
	}
	return pool, store
}

// request is the call with the key.
func request(key string) txidem.Request {
	return txidem.Request{Scope: "alice", Tool: "issue_refund", Key: key, Args: []byte(`{"order":"` + key + `"}`)}
}

// effects are the runs whose effects are there, by key.
func (w *world) effects() map[string][]string {
	w.t.Helper()
	rows, err := w.books.Query(w.t.Context(), `select key, run from effect`)
	if err != nil {
		w.t.Fatal(err)
	}
	found := make(map[string][]string)
	var key, run string
	if _, err := pgx.ForEachRow(rows, []any{&key, &run}, func() error {
		found[key] = append(found[key], run)
		return nil
	}); err != nil {
		w.t.Fatal(err)
	}
	return found
}

// count asks for a number.
func (w *world) count(sql string, args ...any) (n int) {
	w.t.Helper()
	if err := w.books.QueryRow(w.t.Context(), sql, args...).Scan(&n); err != nil {
		w.t.Fatalf("%s: %v", sql, err)
	}
	return n
}

// exec administrates.
func (w *world) exec(sql string) {
	w.t.Helper()
	if _, err := w.books.Exec(w.t.Context(), sql); err != nil {
		w.t.Fatalf("%s: %v", sql, err)
	}
}

// clean ends the application and checks that nothing of it is left: connections, sessions, locks.
func (w *world) clean() {
	w.t.Helper()
	w.staff.leave(w.t)
	eventually(w.t, "the pool has its connections back", func() bool { return w.pool.Stat().AcquiredConns() == 0 })
	w.pool.Close()
	if err := lives.SessionsLeft(w.t.Context(), w.books, appName); err != nil {
		w.t.Error(err)
	}
}
