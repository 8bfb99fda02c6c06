//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package txidem

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/internal/dbtest"
	"github.com/txonce/txonce/internal/devpg"
	"github.com/txonce/txonce/internal/faultconn"
	"github.com/txonce/txonce/migrations"
)

// ownServer starts a server that the test may change and kill. It is as durable as a server with data worth keeping:
// some tests are about just that.
func ownServer(t *testing.T, start func(context.Context, *devpg.Config) (*devpg.Server, error), cfg *devpg.Config) *devpg.Server {
	t.Helper()
	cfg.Durable = true
	srv, err := start(t.Context(), cfg)
	if err != nil {
		t.Skipf("no server of our own: %v", err)
	}
	t.Cleanup(func() {
		if err := srv.Stop(); err != nil {
			t.Error(err)
		}
	})
	return srv
}

// wiredAt is wired on a server of our own.
func wiredAt(t *testing.T, srv *devpg.Server, policy *Policy, maxConns int32, changes ...func(*pgxpool.Config)) (*fixture, *faultconn.Dialer, *lastEvents) {
	t.Helper()
	wire := &faultconn.Dialer{}
	pool := dbtest.PoolAt(t, srv.URL(), func(cfg *pgxpool.Config) {
		cfg.ConnConfig.DialFunc = wire.DialFunc
		cfg.MaxConns = maxConns
		for _, change := range changes {
			change(cfg)
		}
	})
	t.Cleanup(wire.CutStalled)
	direct, err := pgxpool.New(t.Context(), srv.URL()) // migrations do not go through a pooler
	if err != nil {
		t.Fatal(err)
	}
	defer direct.Close()
	if err := migrations.Up(t.Context(), direct, nil); err != nil {
		t.Fatal(err)
	}
	events := &lastEvents{}
	store, err := New(pool, &Config{Policy: policy, Observer: events})
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{t: t, pool: pool, store: store}
	f.exec(`create table effect (id bigserial primary key, intent text not null)`)
	f.exec(`create table ran (intent text not null, run int not null)`)
	return f, wire, events
}
