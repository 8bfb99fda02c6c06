package migrations

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// documentedGrants returns the grants of the package documentation to one of the
// roles in it, for role.
func documentedGrants(t *testing.T, to, role string) []string {
	t.Helper()
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	var grants []string
	for line := range strings.Lines(string(doc)) {
		sql, isGrant := strings.CutPrefix(strings.TrimSpace(line), "//\tgrant ")
		if sql, theirs := strings.CutSuffix(sql, " to "+to+";"); isGrant && theirs {
			grants = append(grants, "grant "+sql+" to "+role)
		}
	}
	if want := map[string]int{"app": 6, "worker": 4, "publisher": 2, "relay": 2}[to]; len(grants) != want {
		t.Fatalf("the package documentation has %d grants to %s, want %d", len(grants), to, want)
	}
	return grants
}

func TestGrants_D08_AreEnough(t *testing.T) {
	t.Parallel()
	role := newRole(t)
	cfg := newDB(t)
	owner, app := newPool(t, cfg, nil), newPool(t, cfg, as(role))
	if err := Up(t.Context(), owner, nil); err != nil {
		t.Fatal(err)
	}
	for _, sql := range documentedGrants(t, "app", role) {
		mustExec(t, owner, sql)
	}
	mustExec(t, app, insertCall, 32, "succeeded")
	if n := get[int](t, app, `select count(*) from txonce.call`); n != 1 {
		t.Errorf("%d records, want 1", n)
	}
	mustExec(t, app, `delete from txonce.call`)
	for name, run := range map[string]func(context.Context, *pgxpool.Pool, *Config) error{
		"Up":      Up,
		"Version": func(ctx context.Context, p *pgxpool.Pool, c *Config) error { return justErr(Version(ctx, p, c)) },
	} {
		if err := run(t.Context(), app, nil); err != nil {
			t.Errorf("%s as the application: %v", name, err)
		}
	}
	for _, sql := range []string{
		`update txonce.call set id = gen_random_uuid()`, `truncate txonce.call`, `drop table txonce.call`,
		`create table txonce.mine (n int)`, `update txonce.schema_migrations set version = 2`,
		`create table txonce_river.mine (n int)`, `delete from txonce_river.river_migration`, `select from txonce_river.river_job`, `select from txonce.job`,
	} {
		_, err := app.Exec(t.Context(), sql)
		if pgErr, ok := errors.AsType[*pgconn.PgError](err); !ok || pgErr.Code != "42501" {
			t.Errorf("as the application, %s: %v, want a refusal", sql, err)
		}
	}
}

func TestGrants_D08_MissingOnesAreNamed(t *testing.T) {
	t.Parallel()
	role := newRole(t)
	cfg := newDB(t)
	owner, app := newPool(t, cfg, nil), newPool(t, cfg, as(role))
	wantRemedy := func(when string, err error) {
		t.Helper()
		if err == nil || !strings.HasPrefix(err.Error(), "migrations: ") || !strings.Contains(err.Error(), "the grants in the package documentation") {
			t.Errorf("%s: %v, want an error with the remedy", when, err)
		}
	}
	wantRemedy("Up on an empty database", Up(t.Context(), app, nil))
	if err := Up(t.Context(), owner, nil); err != nil {
		t.Fatal(err)
	}
	wantRemedy("Up without a grant", Up(t.Context(), app, nil))
	wantRemedy("Version without a grant", justErr(Version(t.Context(), app, nil)))
	for _, sql := range documentedGrants(t, "app", role) {
		mustExec(t, owner, sql)
	}
	wantRemedy("Down", Down(t.Context(), app, nil))
	newer := filesPlus(t, map[string]string{"000005_next.up.sql": `create table later (n int)`})
	wantRemedy("an upgrade", up(t.Context(), app, nil, newer))
	wantVersion(t, owner, latest)
}

// TestUp_D08_SchemaMadeByTheDBA: a role that owns the schemas but may not create
// any can migrate.
func TestUp_D08_SchemaMadeByTheDBA(t *testing.T) {
	t.Parallel()
	role := newRole(t)
	cfg := newDB(t)
	dba, app := newPool(t, cfg, nil), newPool(t, cfg, as(role))
	mustExec(t, dba, `create schema txonce authorization `+role)
	if err := Up(t.Context(), app, nil); err == nil || !strings.Contains(err.Error(), `"txonce_river"`) || !strings.Contains(err.Error(), "run Up once with a role") {
		t.Errorf("Up without River's schema: %v", err)
	}
	mustExec(t, dba, `create schema txonce_river; grant usage, create on schema txonce_river to `+role)
	if err := Up(t.Context(), app, nil); err != nil {
		t.Fatal(err)
	}
	wantVersion(t, app, latest)
	wantRiver(t, app, "txonce_river")
	if err := Down(t.Context(), app, nil); err != nil {
		t.Fatal(err)
	}
	mustExec(t, dba, `drop schema txonce; drop schema txonce_river`) // empty, and still there
}
