package migrations

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// insertCall writes a record whose fingerprint has n bytes.
const insertCall = `
insert into txonce.call (id, scope, tool, key, fingerprint, canon, state, attempt, answer, started_at, finished_at, expires_at)
values (gen_random_uuid(), 's', 't', 'x:k', decode(repeat('ab', $1), 'hex'), 1, $2, gen_random_uuid(), '\x007b7d', now(), now(), null)`

func TestUp_Shape(t *testing.T) {
	t.Parallel()
	pool := newPool(t, newDB(t), nil)
	if err := Up(t.Context(), pool, nil); err != nil {
		t.Fatal(err)
	}
	const columns = `select attname || ' ' || format_type(atttypid, atttypmod) || case when attnotnull then ' not null' else '' end
		from pg_attribute where attrelid = 'txonce.call'::regclass and attnum > 0 order by attnum`
	const rest = `select pg_get_indexdef(indexrelid) from pg_index where indrelid = 'txonce.call'::regclass
		union all select conname || ' ' || pg_get_constraintdef(oid) from pg_constraint where conrelid = 'txonce.call'::regclass order by 1`
	want := []string{
		"id uuid not null", "scope text not null", "tool text not null", "key text not null",
		"fingerprint bytea not null", "canon smallint not null", "fields bytea", "state text not null", "attempt uuid not null",
		"answer bytea not null", "started_at timestamp with time zone not null", "finished_at timestamp with time zone",
		"expires_at timestamp with time zone",
		"tombstone boolean not null",
		"leased boolean not null",
		"lease_until timestamp with time zone",
		"CREATE INDEX call_expires_at_idx ON txonce.call USING btree (expires_at) WHERE ((NOT tombstone) OR (octet_length(answer) > 0))",
		"CREATE INDEX call_tombstone_idx ON txonce.call USING btree (expires_at) WHERE (tombstone AND (octet_length(answer) > 0))",
		"CREATE UNIQUE INDEX call_pkey ON txonce.call USING btree (id)",
		"call_pkey PRIMARY KEY (id)",
	}
	if diff := cmp.Diff(want, append(texts(t, pool, columns), texts(t, pool, rest)...)); diff != "" {
		t.Errorf("table call (-want +got):\n%s", diff)
	}
	const silent = `select coalesce(attname, 'the table') from pg_attribute
		where attrelid = 'txonce.call'::regclass and attnum > 0 and col_description(attrelid, attnum) is null`
	if missing := texts(t, pool, silent); len(missing) > 0 {
		t.Errorf("columns without a comment: %q", missing)
	}
}

// TestUp_OneConnection: a pool of one is enough, and gets nothing of the run back.
func TestUp_OneConnection(t *testing.T) {
	t.Parallel()
	cfg := newDB(t)
	pool, observer := newPool(t, cfg, one), newPool(t, cfg, nil)
	// A temporary table of the same name would hide ours without pg_temp in search_path.
	mustExec(t, pool, `create temp table call (n int)`)
	before := get[int](t, pool, `select pg_backend_pid()`)
	if err := Up(t.Context(), pool, nil); err != nil {
		t.Fatal(err)
	}
	after := get[int](t, pool, `select pg_backend_pid()`)
	if after == before {
		t.Error("the connection of the run went back into the pool")
	}
	if got := get[string](t, pool, `show search_path`); got != `"$user", public` {
		t.Errorf("search_path of the pool's connection is %s", got)
	}
	eventually(t, "the locks are gone", func() bool {
		return get[int](t, observer, `select count(*) from pg_locks where locktype = 'advisory'
			and database = (select oid from pg_database where datname = current_database())`) == 0
	})
	if err := Up(t.Context(), pool, nil); err != nil {
		t.Fatal(err)
	}
	if now := get[int](t, pool, `select pg_backend_pid()`); now != after {
		t.Error("an Up with nothing to do closed the connection")
	}
}

func TestUp_Versions(t *testing.T) {
	t.Parallel()
	pool := newPool(t, newDB(t), nil)
	wantVersion(t, pool, 0)
	if err := Up(t.Context(), pool, nil); err != nil {
		t.Fatal(err)
	}
	wantVersion(t, pool, latest)
}

// TestUp_LeavesTheApplicationsMigrationsAlone: the application may use
// golang-migrate beside us, even in a dirty state.
func TestUp_LeavesTheApplicationsMigrationsAlone(t *testing.T) {
	t.Parallel()
	pool := newPool(t, newDB(t), nil)
	mustExec(t, pool, `create table public.schema_migrations (version bigint not null primary key, dirty boolean not null)`)
	mustExec(t, pool, `insert into public.schema_migrations values (20240101, true)`)
	for _, run := range []func(context.Context, *pgxpool.Pool, *Config) error{Up, Down, Up} {
		if err := run(t.Context(), pool, nil); err != nil {
			t.Fatal(err)
		}
	}
	inPublic := &Config{Schema: "public"}
	for name, err := range map[string]error{
		"Up":      Up(t.Context(), pool, inPublic),
		"Down":    Down(t.Context(), pool, inPublic),
		"Version": justErr(Version(t.Context(), pool, inPublic)),
	} {
		if err == nil || !strings.Contains(err.Error(), "not txonce's") || !strings.Contains(err.Error(), "Config.Schema") {
			t.Errorf("%s in the application's schema: %v", name, err)
		}
	}
	if got := get[string](t, pool, `select string_agg(format('%s %s', version, dirty), ',') from public.schema_migrations`); got != "20240101 t" {
		t.Errorf("the application's version is now %s", got)
	}
}

func TestUp_SchemaIsConfigurable(t *testing.T) {
	t.Parallel()
	pool := newPool(t, newDB(t), nil)
	for _, schema := range []string{"", "_shop2", strings.Repeat("a", maxSchemaLen)} {
		if err := Up(t.Context(), pool, &Config{Schema: schema, NoRiver: true}); err != nil {
			t.Fatalf("schema %q: %v", schema, err)
		}
	}
	got := texts(t, pool, `select relnamespace::regnamespace::text from pg_class where relname = 'call' order by 1`)
	if diff := cmp.Diff([]string{"_shop2", strings.Repeat("a", maxSchemaLen), "txonce"}, got); diff != "" {
		t.Errorf("schemas with a table call (-want +got):\n%s", diff)
	}
}

func TestConfig_Refuses(t *testing.T) {
	t.Parallel()
	pool := newPool(t, newDB(t), nil)
	for _, schema := range []string{"Shop", "1shop", "pg_shop", "information_schema", "a-b", `a"b`, "a.b", "a b", "é", strings.Repeat("a", maxSchemaLen+1)} {
		err := Up(t.Context(), pool, &Config{Schema: schema})
		if err == nil || !strings.Contains(err.Error(), "migrations: Config.Schema") {
			t.Errorf("schema %q: %v", schema, err)
		}
	}
	if err := Up(t.Context(), nil, nil); err == nil || !strings.Contains(err.Error(), "pool is nil") {
		t.Errorf("nil pool: %v", err)
	}
}

func TestUp_NameTaken(t *testing.T) {
	t.Parallel()
	pool := newPool(t, newDB(t), nil)
	mustExec(t, pool, `create schema txonce; create table txonce.call (n int)`)
	err := Up(t.Context(), pool, nil)
	if err == nil || !strings.Contains(err.Error(), "000001_call.up.sql: ") || !strings.Contains(err.Error(), "set Config.Schema") {
		t.Errorf("a foreign table call: %v", err)
	}
}

// TestUp_StatementTimeout: ctx bounds the run, not the role's statement_timeout.
func TestUp_StatementTimeout(t *testing.T) {
	t.Parallel()
	pool := newPool(t, newDB(t), func(cfg *pgxpool.Config) { cfg.ConnConfig.RuntimeParams["statement_timeout"] = "200ms" })
	slow := filesPlus(t, map[string]string{"000005_slow.up.sql": `select pg_sleep(0.5)`})
	if err := up(t.Context(), pool, nil, slow); err != nil {
		t.Error(err)
	}
}

func TestUp_ErrDirty(t *testing.T) {
	t.Parallel()
	pool := newPool(t, newDB(t), nil)
	if err := Up(t.Context(), pool, nil); err != nil {
		t.Fatal(err)
	}
	mustExec(t, pool, `update txonce.schema_migrations set dirty = true`)
	current, known, err := Version(t.Context(), pool, nil)
	if current != latest || known != latest {
		t.Errorf("Version = %d, %d; want %d twice", current, known, latest)
	}
	for name, err := range map[string]error{
		"Version": err,
		"Up":      Up(t.Context(), pool, nil),
		"Down":    Down(t.Context(), pool, nil),
	} {
		if !errors.Is(err, ErrDirty) || !strings.Contains(err.Error(), `update "txonce".schema_migrations set dirty = false`) {
			t.Errorf("%s: %v, want ErrDirty with its remedy", name, err)
		}
	}
	if n := get[int](t, pool, `select count(*) from txonce.call`); n != 0 {
		t.Error("the table is gone")
	}
}

func texts(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) []string {
	t.Helper()
	rows, err := pool.Query(t.Context(), sql, args...)
	if err != nil {
		t.Fatal(err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func justErr(_, _ uint, err error) error { return err }

// wantVersion checks a clean version.
func wantVersion(t *testing.T, pool *pgxpool.Pool, want uint) {
	t.Helper()
	current, known, err := Version(t.Context(), pool, nil)
	if err != nil || current != want || known != latest {
		t.Errorf("Version = %d, %d, %v; want %d, %d, nil", current, known, err, want, latest)
	}
}
