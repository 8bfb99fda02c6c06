package versions

import (
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"testing"

	"github.com/golang-migrate/migrate/v4"
	migratepgx "github.com/golang-migrate/migrate/v4/database/pgx/v5"
	"github.com/golang-migrate/migrate/v4/source/iofs"
	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/txonce/txonce/integration/internal/servers"
	"github.com/txonce/txonce/migrations"
)

// sqlSchema describes what the schemas of txonce have, in lines; the table of the version apart, which the runner makes.
const sqlSchema = `
with spaces as (select oid from pg_namespace where nspname in ('txonce', 'txonce_river')),
relations as (
	select oid, oid::regclass::text as name, relkind, relpersistence, reloptions from pg_class
	where relnamespace in (select oid from spaces) and relname not in ('schema_migrations', 'schema_migrations_pkey', 'txonce_version'))
select format('%s %s %s %s', relkind, name, relpersistence, reloptions) from relations
union all select format('comment on %s: %s', name, obj_description(oid, 'pg_class')) from relations
union all select format('column %s %s: %s, not null %s, default %s, identity %s, collation %s: %s', r.name, a.attname, format_type(atttypid, atttypmod), attnotnull,
		pg_get_expr(d.adbin, d.adrelid), attidentity, attcollation::regcollation, col_description(r.oid, attnum))
	from relations r join pg_attribute a on a.attrelid = r.oid and attnum > 0 and not attisdropped left join pg_attrdef d on d.adrelid = r.oid and d.adnum = attnum
	where r.relkind in ('r', 'p', 'v')
union all select format('order of %s: %s', name, (
		select string_agg(attname, ' ' order by attnum) from pg_attribute where attrelid = r.oid and attnum > 0 and not attisdropped))
	from relations r where relkind = 'r'
union all select 'index ' || pg_get_indexdef(oid) from relations where relkind = 'i'
union all select format('constraint %s: %s', conname, pg_get_constraintdef(oid)) from pg_constraint where conrelid in (select oid from relations)
union all select 'type ' || t.oid::regtype || coalesce(': ' || (select string_agg(enumlabel, ' ' order by enumsortorder) from pg_enum where enumtypid = t.oid), '')
	from pg_type t where typnamespace in (select oid from spaces) and typtype = 'e'
union all select pg_get_functiondef(oid) || coalesce(obj_description(oid, 'pg_proc'), '') from pg_proc where pronamespace in (select oid from spaces)
union all select pg_get_triggerdef(oid) from pg_trigger where tgrelid in (select oid from relations) and not tgisinternal
order by 1`

// schema is what the database has.
func schema(t *testing.T, db *pgxpool.Pool) []string {
	t.Helper()
	rows, err := db.Query(t.Context(), sqlSchema)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// latest is the version of the last file.
func latest(t *testing.T) uint {
	t.Helper()
	names, err := fs.Glob(migrations.Files, "sql/*.up.sql")
	if err != nil {
		t.Fatal(err)
	}
	digits, _, _ := strings.Cut(strings.TrimPrefix(names[len(names)-1], "sql/"), "_")
	n, err := strconv.ParseUint(digits, 10, 0)
	if err != nil {
		t.Fatal(err)
	}
	return uint(n)
}

// TestMigrations_D07_UpDownUp: the schema is the same each time, and nothing of it is left in between.
func TestMigrations_D07_UpDownUp(t *testing.T) {
	servers.Everywhere(t, func(t *testing.T, place servers.Place) {
		db := fresh(t, place)
		var first []string
		for range 3 {
			if err := migrations.Up(t.Context(), db, nil); err != nil {
				t.Fatal(err)
			}
			if first == nil {
				first = schema(t, db)
			}
			if diff := cmp.Diff(first, schema(t, db)); diff != "" || len(first) < 100 {
				t.Errorf("the schema, of %d lines, is another one (-first +now):\n%s", len(first), diff)
			}
			if err := migrations.Down(t.Context(), db, nil); err != nil {
				t.Fatal(err)
			}
			if left := schema(t, db); len(left) > 0 {
				t.Errorf("left is %q", left)
			}
		}
	})
}

// TestMigrations_D07_ByTheRunnerItself: golang-migrate, with its own driver, makes the same of the files in single steps, up, down and up.
func TestMigrations_D07_ByTheRunnerItself(t *testing.T) {
	servers.Everywhere(t, func(t *testing.T, place servers.Place) {
		ours := fresh(t, place)
		if err := migrations.Up(t.Context(), ours, &migrations.Config{NoRiver: true}); err != nil {
			t.Fatal(err)
		}
		db := fresh(t, place)
		do(t, db, `create schema txonce`)
		m := runner(t, db)
		at := make([][]string, latest(t)+1)
		for up := range 2 {
			for version := range at {
				if version > 0 {
					step(t, m, 1)
				}
				if now := schema(t, db); up == 0 {
					at[version] = now
				} else if diff := cmp.Diff(at[version], now); diff != "" {
					t.Errorf("version %d is another one behind up and down (-first +now):\n%s", version, diff)
				}
			}
			if diff := cmp.Diff(schema(t, ours), schema(t, db)); diff != "" {
				t.Errorf("the runner makes another schema than migrations.Up (-Up +runner):\n%s", diff)
			}
			for version := len(at) - 2; version >= 0; version-- {
				step(t, m, -1)
				if diff := cmp.Diff(at[version], schema(t, db)); diff != "" {
					t.Errorf("version %d is another one on the way down (-up +down):\n%s", version, diff)
				}
			}
		}
	})
}

func step(t *testing.T, m *migrate.Migrate, n int) {
	t.Helper()
	if err := m.Steps(n); err != nil {
		t.Fatal(fmt.Errorf("%d steps: %w", n, err))
	}
}

// runner is golang-migrate on our files, with its driver for pgx.
func runner(t *testing.T, db *pgxpool.Pool) *migrate.Migrate {
	t.Helper()
	cfg := db.Config().ConnConfig
	cfg.RuntimeParams["search_path"] = "txonce"
	files, err := iofs.New(migrations.Files, "sql")
	if err != nil {
		t.Fatal(err)
	}
	driver, err := migratepgx.WithInstance(stdlib.OpenDB(*cfg), &migratepgx.Config{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := migrate.NewWithInstance("iofs", files, "pgx5", driver)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err, err2 := m.Close(); err != nil || err2 != nil {
			t.Error(err, err2)
		}
	})
	return m
}
