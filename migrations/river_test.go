package migrations

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// riverLatest is the version that River's migrations lead to.
const riverLatest = 8

// ofRiver lists what is in a schema besides the mark, whatever the kind.
const ofRiver = `
select 'relation ' || relname || ' ' || relkind::text from pg_class where relnamespace = to_regnamespace($1) and relname <> 'txonce_mark'
union all select 'type ' || typname from pg_type where typnamespace = to_regnamespace($1) and typname !~ 'txonce_mark'
union all select 'function ' || proname from pg_proc where pronamespace = to_regnamespace($1)
union all select 'column ' || c.relname || '.' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod)
	from pg_class c join pg_attribute a on a.attrelid = c.oid where c.relnamespace = to_regnamespace($1) and c.relkind = 'r' and a.attnum > 0
order by 1`

// ownRiver is an application that runs River's migrations itself.
func ownRiver(t *testing.T, pool *pgxpool.Pool, schema string, version int) {
	t.Helper()
	m := ownMigrator(t, pool, schema)
	if _, err := m.Migrate(t.Context(), rivermigrate.DirectionUp, &rivermigrate.MigrateOpts{TargetVersion: version}); err != nil {
		t.Fatal(err)
	}
}

func ownMigrator(t *testing.T, pool *pgxpool.Pool, schema string) *rivermigrate.Migrator[pgx.Tx] {
	t.Helper()
	m, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Schema: schema, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// wantRiver checks that River itself finds nothing to do, and each version once.
func wantRiver(t *testing.T, pool *pgxpool.Pool, schema string) {
	t.Helper()
	res, err := ownMigrator(t, pool, schema).Validate(t.Context(), nil)
	if err != nil || !res.OK {
		t.Errorf("River in schema %s: %+v, %v", schema, res, err)
		return
	}
	if got := riverAt(t, pool, schema); got != "1 2 3 4 5 6 7 8" {
		t.Errorf("River in schema %s has the versions %s", schema, got)
	}
	if !get[bool](t, pool, `select to_regclass($1) is not null`, schema+".river_job") {
		t.Errorf("schema %s has no river_job", schema)
	}
}

func riverAt(t *testing.T, pool *pgxpool.Pool, schema string) string {
	t.Helper()
	return get[string](t, pool, `select string_agg(version::text, ' ' order by version) from `+schema+`.river_migration where line = 'main'`)
}

func wantNoRiver(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	got := texts(t, pool, `select oid::regclass::text from pg_class where relname ~ '^(river|txonce_mark)'
		union all select nspname from pg_namespace where nspname ~ 'river' order by 1`)
	if len(got) > 0 {
		t.Errorf("there is something of River's: %q", got)
	}
}

// TestUp_J10_RiverInASchemaOfItsOwn: what Up makes is what River's own tool makes.
func TestUp_J10_RiverInASchemaOfItsOwn(t *testing.T) {
	t.Parallel()
	pool, reference := newPool(t, newDB(t), one), newPool(t, newDB(t), nil)
	mustExec(t, reference, `create schema txonce_river`)
	ownRiver(t, reference, "txonce_river", riverLatest)
	log := newLines()
	if err := Up(t.Context(), pool, &Config{Logger: log.logger()}); err != nil {
		t.Fatal(err)
	}
	wantRiver(t, pool, "txonce_river")
	want, got := texts(t, reference, ofRiver, "txonce_river"), texts(t, pool, ofRiver, "txonce_river")
	if diff := cmp.Diff(want, got); diff != "" || len(got) < 20 {
		t.Errorf("River's schema (-as River makes it +as Up makes it):\n%s", diff)
	}
	if n := log.count("Applied migration"); n != riverLatest {
		t.Errorf("the logger heard of %d of River's migrations, want %d", n, riverLatest)
	}
	for _, schema := range []string{"txonce", "public"} {
		if stray := texts(t, pool, `select relname::text from pg_class where relnamespace = $1::regnamespace and relname ~ 'river'`, schema); len(stray) > 0 {
			t.Errorf("River's tables in schema %s: %q", schema, stray)
		}
	}
	if got := get[string](t, pool, `select obj_description('txonce_river'::regnamespace, 'pg_namespace')`); got != schemaComment {
		t.Errorf("the schema's comment is %q", got)
	}
}

func TestUp_J10_RiverSchemaIsConfigurable(t *testing.T) {
	t.Parallel()
	pool := newPool(t, newDB(t), one)
	longest := strings.Repeat("r", maxSchemaLen)
	for _, c := range []struct {
		cfg   *Config
		river string
	}{
		{&Config{Schema: "shop"}, "shop_river"},
		{&Config{Schema: strings.Repeat("a", 40)}, strings.Repeat("a", 40) + "_river"},
		{&Config{Schema: strings.Repeat("a", maxSchemaLen), RiverSchema: longest}, longest},
		{&Config{Schema: "other", RiverSchema: "public"}, "public"},
	} {
		for range 2 {
			if err := Up(t.Context(), pool, c.cfg); err != nil {
				t.Fatalf("%+v: %v", c.cfg, err)
			}
		}
		wantRiver(t, pool, c.river)
		if n := get[int](t, pool, `select count(*) from pg_class where relname = 'river_job'`); n != 1 {
			t.Errorf("%+v: %d tables of River's jobs, want 1", c.cfg, n)
		}
		if err := Down(t.Context(), pool, c.cfg); err != nil {
			t.Fatal(err)
		}
		wantNoRiver(t, pool)
	}
}

func TestConfig_J10_RiverSchemaRefused(t *testing.T) {
	t.Parallel()
	pool := newPool(t, newDB(t), nil)
	for _, schema := range []string{"River", "1river", "pg_river", "information_schema", "a-b", `a"b`, "a.b", "a b", "é", strings.Repeat("a", maxSchemaLen+1)} {
		err := Up(t.Context(), pool, &Config{RiverSchema: schema})
		if err == nil || !strings.Contains(err.Error(), "migrations: Config.RiverSchema") || !strings.Contains(err.Error(), "at most 46 bytes") {
			t.Errorf("schema %q: %v", schema, err)
		}
	}
	for want, cfg := range map[string]*Config{
		"are both set: leave one":          {RiverSchema: "river", NoRiver: true},
		"need a schema of their own":       {Schema: "shop", RiverSchema: "shop"},
		"set Config.RiverSchema":           {Schema: strings.Repeat("a", 41)},
		"take a Schema of at most 40":      {Schema: strings.Repeat("a", maxSchemaLen)},
		`Schema "aaaaaaaaaaaaaaaaaaaaaaaa`: {Schema: strings.Repeat("a", maxSchemaLen+1), RiverSchema: "river"},
	} {
		for name, err := range map[string]error{
			"Up":      Up(t.Context(), pool, cfg),
			"Down":    Down(t.Context(), pool, cfg),
			"Version": justErr(Version(t.Context(), pool, cfg)),
		} {
			if err == nil || !strings.HasPrefix(err.Error(), "migrations: Config.") || !strings.Contains(err.Error(), want) {
				t.Errorf("%s with %+v: %v, want %q", name, cfg, err, want)
			}
		}
	}
	if got := texts(t, pool, `select nspname::text from pg_namespace where nspname !~ '^pg_' and nspname not in ('public', 'information_schema')`); len(got) > 0 {
		t.Errorf("schemas: %q", got)
	}
}

// TestUp_J10_NoRiver: an application's own River, in the usual place, is not looked at.
func TestUp_J10_NoRiver(t *testing.T) {
	t.Parallel()
	pool := newPool(t, newDB(t), one)
	cfg := &Config{NoRiver: true}
	if err := Up(t.Context(), pool, cfg); err != nil {
		t.Fatal(err)
	}
	wantNoRiver(t, pool)
	ownRiver(t, pool, "public", 4)
	before := texts(t, pool, ofRiver, "public")
	for range 2 {
		if err := Down(t.Context(), pool, cfg); err != nil {
			t.Fatal(err)
		}
		if err := Up(t.Context(), pool, cfg); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(before, texts(t, pool, ofRiver, "public")); diff != "" {
		t.Errorf("the application's River changed (-before +after):\n%s", diff)
	}
	if n := get[int](t, pool, `select count(*) from public.river_migration`); n != 4 {
		t.Errorf("the application's River is at version %d, was at 4", n)
	}
}

// TestUp_J10_BesideTheApplicationsRiver: by default, River's tables are there twice.
func TestUp_J10_BesideTheApplicationsRiver(t *testing.T) {
	t.Parallel()
	pool := newPool(t, newDB(t), nil)
	ownRiver(t, pool, "public", 4)
	before := texts(t, pool, ofRiver, "public")
	if err := Up(t.Context(), pool, nil); err != nil {
		t.Fatal(err)
	}
	wantRiver(t, pool, "txonce_river")
	if err := Down(t.Context(), pool, nil); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, texts(t, pool, ofRiver, "public")); diff != "" {
		t.Errorf("the application's River changed (-before +after):\n%s", diff)
	}
}

// TestUp_J10_RiverFromEveryVersion: an older River, a release's or the
// application's, is rolled forward with what is in it.
func TestUp_J10_RiverFromEveryVersion(t *testing.T) {
	t.Parallel()
	for v := 1; v <= riverLatest; v++ {
		t.Run(fmt.Sprintf("from %d", v), func(t *testing.T) {
			t.Parallel()
			pool := newPool(t, newDB(t), one)
			mustExec(t, pool, `create schema txonce_river`)
			ownRiver(t, pool, "txonce_river", v)
			if v > 1 {
				mustExec(t, pool, `insert into txonce_river.river_job (kind, args, max_attempts, state) values ('k', '{}', 1, 'available')`)
			}
			if err := Up(t.Context(), pool, nil); err != nil {
				t.Fatal(err)
			}
			wantRiver(t, pool, "txonce_river")
			if n := get[int](t, pool, `select count(*) from txonce_river.river_job`); n != min(v-1, 1) {
				t.Errorf("%d jobs", n)
			}
		})
	}
}

// TestUp_J10_RiverVersionMissing: each version counts, as for River, and those of
// other lines do not.
func TestUp_J10_RiverVersionMissing(t *testing.T) {
	t.Parallel()
	pool := newPool(t, newDB(t), nil)
	if err := Up(t.Context(), pool, nil); err != nil {
		t.Fatal(err)
	}
	seventh, err := ownMigrator(t, pool, "txonce_river").GetVersion(7)
	if err != nil {
		t.Fatal(err)
	}
	mustExec(t, pool, strings.ReplaceAll(seventh.SQLDown, "/* TEMPLATE: schema */", "txonce_river."))
	mustExec(t, pool, `delete from txonce_river.river_migration where version = 7`)
	mustExec(t, pool, `insert into txonce_river.river_migration (line, version) values ('pro', 7), ('pro', 9)`)
	if err := Up(t.Context(), pool, nil); err != nil {
		t.Fatal(err)
	}
	wantRiver(t, pool, "txonce_river")
}

// TestUp_D07_NewerRiver: the build before an upgrade starts, without the lock.
func TestUp_D07_NewerRiver(t *testing.T) {
	t.Parallel()
	cfg := newDB(t)
	pool := newPool(t, cfg, one)
	if err := Up(t.Context(), pool, nil); err != nil {
		t.Fatal(err)
	}
	mustExec(t, pool, `insert into txonce_river.river_migration (line, version) values ('main', 9)`)
	mustExec(t, pool, `delete from txonce_river.river_migration where version = 8`) // as if 9 stood for it
	holdLock(t, cfg, defaultSchema)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	log := newLines()
	if err := Up(ctx, pool, &Config{Logger: log.logger()}); err != nil {
		t.Error(err)
	}
	if n := log.count("River's tables are newer than this build"); n != 1 {
		t.Errorf("the log tells %d times that River's tables are newer, want once", n)
	}
	if got := riverAt(t, pool, "txonce_river"); got != "1 2 3 4 5 6 7 9" {
		t.Errorf("River has the versions %s", got)
	}
}

// TestUp_D07_RiverAfterANewerSchema: a schema that is newer than this build does
// not keep it from what it knows of River.
func TestUp_D07_RiverAfterANewerSchema(t *testing.T) {
	t.Parallel()
	pool := newPool(t, newDB(t), nil)
	newer := filesPlus(t, map[string]string{"000005_next.up.sql": `create table later (n int)`})
	if err := up(t.Context(), pool, &Config{NoRiver: true}, newer); err != nil {
		t.Fatal(err)
	}
	if err := Up(t.Context(), pool, nil); err != nil {
		t.Fatal(err)
	}
	wantVersion(t, pool, latest+1)
	wantRiver(t, pool, "txonce_river")
}

// TestUp_J10_RiverOfUnknownVersion: some applications keep River's tables with
// another tool, and then there is no river_migration.
func TestUp_J10_RiverOfUnknownVersion(t *testing.T) {
	t.Parallel()
	pool := newPool(t, newDB(t), nil)
	mustExec(t, pool, `create schema txonce_river; create table txonce_river.river_job (id bigint)`)
	err := Up(t.Context(), pool, nil)
	if err == nil || !strings.Contains(err.Error(), `migrations: schema "txonce_river"`) || !strings.Contains(err.Error(), "set Config.NoRiver") {
		t.Errorf("Up: %v, want an error with the remedy", err)
	}
	want := []string{"column river_job.id bigint", "relation river_job r", "type _river_job", "type river_job"}
	if diff := cmp.Diff(want, texts(t, pool, ofRiver, "txonce_river")); diff != "" {
		t.Errorf("in the schema (-want +got):\n%s", diff)
	}
	if err := Down(t.Context(), pool, nil); err != nil {
		t.Fatal(err)
	}
	if !get[bool](t, pool, `select to_regclass('txonce_river.river_job') is not null`) {
		t.Error("Down took the application's table away")
	}
}

func TestUp_J10_RiverNameTaken(t *testing.T) {
	t.Parallel()
	pool := newPool(t, newDB(t), nil)
	mustExec(t, pool, `create schema txonce_river; create table txonce_river.river_queue (n int)`)
	err := Up(t.Context(), pool, nil)
	if err == nil || !strings.Contains(err.Error(), `River's migrations in schema "txonce_river": `) ||
		!strings.Contains(err.Error(), "set Config.RiverSchema") || strings.Contains(err.Error(), "set Config.Schema") {
		t.Errorf("a foreign table river_queue: %v", err)
	}
	wantVersion(t, pool, latest)
	if got := get[string](t, pool, `select string_agg(version::text, ' ' order by version) from txonce_river.river_migration`); got != "1 2 3" {
		t.Errorf("River has the versions %s, want those before the failure", got)
	}
}

// TestUp_R17_RiverInEachExecMode: the pool of River's migrations is the caller's.
func TestUp_R17_RiverInEachExecMode(t *testing.T) {
	t.Parallel()
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			pool := newPool(t, newDB(t), func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = mode })
			if err := Up(t.Context(), pool, nil); err != nil {
				t.Fatal(err)
			}
			wantRiver(t, pool, "txonce_river")
			if err := Down(t.Context(), pool, nil); err != nil {
				t.Fatal(err)
			}
			wantNoRiver(t, pool)
		})
	}
}

// TestRiverVersions_AreTheTestedOnes holds the constant of these tests to what River ships.
func TestRiverVersions_AreTheTestedOnes(t *testing.T) {
	t.Parallel()
	known, err := riverVersions()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int{1, 2, 3, 4, 5, 6, 7, riverLatest}, known); diff != "" {
		t.Errorf("River's versions, known to these tests and to the build:\n%s", diff)
	}
}
