package migrations

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestDown_J10_KeepsTheApplicationsRiver: tables of River's that were there
// before are rolled forward, and are not Down's to take.
func TestDown_J10_KeepsTheApplicationsRiver(t *testing.T) {
	t.Parallel()
	for name, schema := range map[string]string{"public": "public", "the default name": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := newPool(t, newDB(t), one)
			cfg := &Config{RiverSchema: schema}
			if schema == "" {
				schema = "txonce_river"
				mustExec(t, pool, `create schema txonce_river`)
			}
			ownRiver(t, pool, schema, 4)
			mustExec(t, pool, `insert into `+schema+`.river_job (kind, args, max_attempts) values ('theirs', '{}', 1)`)
			for range 2 {
				if err := Up(t.Context(), pool, cfg); err != nil {
					t.Fatal(err)
				}
				wantRiver(t, pool, schema)
				log := newLines()
				if err := Down(t.Context(), pool, &Config{RiverSchema: cfg.RiverSchema, Logger: log.logger()}); err != nil {
					t.Fatal(err)
				}
				wantVersion(t, pool, 0)
				wantRiver(t, pool, schema)
				if n := log.count("were there before txonce and stay"); n != 1 {
					t.Errorf("the log says %d times that River's tables stay, want once", n)
				}
			}
			if n := get[int](t, pool, `select count(*) from `+schema+`.river_job`); n != 1 {
				t.Errorf("the application has %d jobs, had 1", n)
			}
		})
	}
}

// TestDown_J10_KeepsRiverUnderNoRiver: and a later Down without it takes it away.
func TestDown_J10_KeepsRiverUnderNoRiver(t *testing.T) {
	t.Parallel()
	pool := newPool(t, newDB(t), one)
	before := texts(t, pool, everything)
	if err := Up(t.Context(), pool, nil); err != nil {
		t.Fatal(err)
	}
	if err := Down(t.Context(), pool, &Config{NoRiver: true}); err != nil {
		t.Fatal(err)
	}
	wantVersion(t, pool, 0)
	wantRiver(t, pool, "txonce_river")
	if err := Down(t.Context(), pool, nil); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, texts(t, pool, everything)); diff != "" {
		t.Errorf("Down left something (-before +after):\n%s", diff)
	}
}

// TestDown_KeepsTheUsersObjectsBesideRiver: a table of the user keeps the schema
// alive, and River's tables go all the same.
func TestDown_KeepsTheUsersObjectsBesideRiver(t *testing.T) {
	t.Parallel()
	pool := newPool(t, newDB(t), nil)
	if err := Up(t.Context(), pool, nil); err != nil {
		t.Fatal(err)
	}
	mustExec(t, pool, `create table txonce_river.notes (n int)`)
	for range 2 {
		if err := Down(t.Context(), pool, nil); err != nil {
			t.Fatal(err)
		}
		left := texts(t, pool, `select relname::text from pg_class where relnamespace = 'txonce_river'::regnamespace`)
		if diff := cmp.Diff([]string{"notes"}, left); diff != "" {
			t.Errorf("left in the schema (-want +got):\n%s", diff)
		}
	}
	if err := Up(t.Context(), pool, nil); err != nil {
		t.Fatal(err)
	}
	wantRiver(t, pool, "txonce_river")
}

// TestDown_RiverBrokeOff: Down goes on from between any two of its steps.
func TestDown_RiverBrokeOff(t *testing.T) {
	t.Parallel()
	pool := newPool(t, newDB(t), nil)
	before := texts(t, pool, everything)
	for _, broken := range []string{
		createSchema("txonce_river") + createMark("txonce_river"), // before River's first, or after its last
		createSchema("txonce_river"),
	} {
		mustExec(t, pool, broken)
		if err := Down(t.Context(), pool, nil); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(before, texts(t, pool, everything)); diff != "" {
			t.Errorf("after %q Down left something (-before +after):\n%s", broken, diff)
		}
	}
}

// TestDown_D07_RefusesWhatRiverCannotUndo: before anything is changed.
func TestDown_D07_RefusesWhatRiverCannotUndo(t *testing.T) {
	t.Parallel()
	for row, want := range map[string]string{
		`('main', 9)`: "use the build that migrated them",
		`('pro', 1)`:  "undo them first with the tool that made them",
	} {
		t.Run(row, func(t *testing.T) {
			t.Parallel()
			pool := newPool(t, newDB(t), nil)
			if err := Up(t.Context(), pool, nil); err != nil {
				t.Fatal(err)
			}
			mustExec(t, pool, `insert into txonce_river.river_migration (line, version) values `+row)
			before := texts(t, pool, everything)
			if err := Up(t.Context(), pool, nil); err != nil {
				t.Errorf("Up: %v", err)
			}
			err := Down(t.Context(), pool, nil)
			if err == nil || !strings.HasPrefix(err.Error(), "migrations: ") || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "txonce_river") {
				t.Errorf("Down: %v, want %q", err, want)
			}
			if diff := cmp.Diff(before, texts(t, pool, everything)); diff != "" {
				t.Errorf("Down changed something (-before +after):\n%s", diff)
			}
			wantVersion(t, pool, latest)
		})
	}
}
