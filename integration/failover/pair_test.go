package failover

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/integration/internal/servers"
	"github.com/txonce/txonce/migrations"
)

// sqlTables are of the test: what calls and jobs write. Nothing in them keeps a second effect out.
const sqlTables = `
create table effect (tool text not null, key text not null, run text not null);
create table worked (key text not null, run text not null)`

// pair is a primary and the standby that streams from it.
type pair struct {
	t                *testing.T
	primary, standby *servers.Server
	url              string // of both
}

// newPair starts them, with tables and nothing in them.
func newPair(t *testing.T, place servers.Place) *pair {
	t.Helper()
	settings := map[string]string{"max_connections": "200"} // a standby needs as many as its primary
	p := &pair{t: t}
	p.primary = place.ForTest(t, &servers.Config{Parameters: settings})
	p.standby = place.ForTest(t, &servers.Config{Parameters: settings, Primary: p.primary})
	var err error
	if p.url, err = servers.Together(p.primary, p.standby); err != nil {
		t.Fatal(err)
	}
	pool := p.pool(p.url, nil)
	if err := migrations.Up(t.Context(), pool, nil); err != nil {
		t.Fatal(err)
	}
	p.do(p.primary, sqlTables)
	eventually(t, "the standby has the tables", func() bool {
		return get[bool](p, p.standby, `select to_regclass('worked') is not null`)
	})
	return p
}

// pool is one that ends with the test.
func (p *pair) pool(url string, change func(*pgxpool.Config)) *pgxpool.Pool {
	p.t.Helper()
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		p.t.Fatal(err)
	}
	if change != nil {
		change(cfg)
	}
	pool, err := pgxpool.NewWithConfig(context.WithoutCancel(p.t.Context()), cfg)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(pool.Close)
	return pool
}

// synchronous makes commits wait for the standby. Its own copy of the settings was made before that: promoted, it waits for nobody.
func (p *pair) synchronous() {
	p.t.Helper()
	p.do(p.primary, `alter system set synchronous_standby_names = '*'`)
	p.do(p.primary, `select pg_reload_conf()`)
	eventually(p.t, "commits wait for the standby", func() bool {
		return get[bool](p, p.primary, `select current_setting('synchronous_standby_names') = '*'
			and exists (select from pg_stat_replication where state = 'streaming' and sync_state = 'sync')`)
	})
	if names := get[string](p, p.standby, `show synchronous_standby_names`); names != "" {
		p.t.Fatalf("promoted, the standby would wait for %q", names)
	}
}

// cut parts the standby from the primary, which goes on. What is acknowledged from here on is nowhere else.
func (p *pair) cut() {
	p.t.Helper()
	p.do(p.standby, `alter system set primary_conninfo = ''`)
	p.do(p.standby, `select pg_reload_conf()`)
	eventually(p.t, "the standby receives nothing any more", func() bool {
		return get[bool](p, p.standby, `select current_setting('primary_conninfo') = '' and not exists (select from pg_stat_wal_receiver)`) &&
			get[bool](p, p.primary, `select not exists (select from pg_stat_replication)`)
	})
}

// promote makes a primary of the standby.
func (p *pair) promote() {
	p.t.Helper()
	if !get[bool](p, p.standby, `select pg_promote()`) {
		p.t.Fatal("the standby was not promoted")
	}
}

// do runs one command, or several, in a session of its own.
func (p *pair) do(s *servers.Server, sql string) {
	p.t.Helper()
	conn := p.connect(s)
	defer func() { _ = conn.Close(context.WithoutCancel(p.t.Context())) }()
	if _, err := conn.Exec(p.t.Context(), sql); err != nil {
		p.t.Fatalf("%s: %v", sql, err)
	}
}

// get asks one server for one value.
func get[T any](p *pair, s *servers.Server, sql string, args ...any) (v T) {
	p.t.Helper()
	conn := p.connect(s)
	defer func() { _ = conn.Close(context.WithoutCancel(p.t.Context())) }()
	if err := conn.QueryRow(p.t.Context(), sql, args...).Scan(&v); err != nil {
		p.t.Fatalf("%s: %v", sql, err)
	}
	return v
}

func (p *pair) connect(s *servers.Server) *pgx.Conn {
	p.t.Helper()
	conn, err := pgx.Connect(p.t.Context(), s.URL())
	if err != nil {
		p.t.Fatal(err)
	}
	return conn
}
