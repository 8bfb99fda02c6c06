package migrations

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// everything lists what a database holds, whatever the kind.
const everything = `
select 'schema ' || nspname from pg_namespace where nspname !~ '^pg_'
union all select 'relation ' || oid::regclass from pg_class where relnamespace in (select oid from pg_namespace where nspname !~ '^pg_')
union all select 'type ' || oid::regtype from pg_type where typnamespace in (select oid from pg_namespace where nspname !~ '^pg_')
union all select 'function ' || oid::regprocedure from pg_proc where pronamespace in (select oid from pg_namespace where nspname !~ '^pg_')
order by 1`

func TestDown_D07_UpDownUpWithData(t *testing.T) {
	t.Parallel()
	pool := newPool(t, newDB(t), one)
	before := texts(t, pool, everything)
	for range 2 {
		if err := Up(t.Context(), pool, nil); err != nil {
			t.Fatal(err)
		}
		mustExec(t, pool, insertCall, 32, "succeeded")
		if n := get[int](t, pool, `select count(*) from txonce.call`); n != 1 {
			t.Errorf("%d records, want the one just written", n)
		}
		if err := Down(t.Context(), pool, nil); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(before, texts(t, pool, everything)); diff != "" {
			t.Errorf("Down left something (-before +after):\n%s", diff)
		}
	}
	if err := Up(t.Context(), pool, nil); err != nil {
		t.Fatal(err)
	}
	wantVersion(t, pool, latest)
}

// TestDown_KeepsTheUsersObjects: a table of the user keeps the schema alive.
func TestDown_KeepsTheUsersObjects(t *testing.T) {
	t.Parallel()
	pool := newPool(t, newDB(t), nil)
	if err := Up(t.Context(), pool, nil); err != nil {
		t.Fatal(err)
	}
	mustExec(t, pool, `create table txonce.notes (n int); insert into txonce.notes values (1)`)
	for range 2 {
		if err := Down(t.Context(), pool, nil); err != nil {
			t.Fatal(err)
		}
		left := texts(t, pool, `select relname::text from pg_class where relnamespace = 'txonce'::regnamespace`)
		if diff := cmp.Diff([]string{"notes"}, left); diff != "" {
			t.Errorf("left in the schema (-want +got):\n%s", diff)
		}
	}
	if err := Up(t.Context(), pool, nil); err != nil {
		t.Fatal(err)
	}
	wantVersion(t, pool, latest)
}

// TestDown_KeepsASchemaMadeBySomebodyElse: the DBA who made it may have reasons.
func TestDown_KeepsASchemaMadeBySomebodyElse(t *testing.T) {
	t.Parallel()
	pool := newPool(t, newDB(t), nil)
	mustExec(t, pool, `create schema txonce`)
	before := texts(t, pool, everything)
	if err := Up(t.Context(), pool, nil); err != nil {
		t.Fatal(err)
	}
	if err := Down(t.Context(), pool, nil); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, texts(t, pool, everything)); diff != "" {
		t.Errorf("after Down (-before +after):\n%s", diff)
	}
}

func TestDown_NothingThere(t *testing.T) {
	t.Parallel()
	pool := newPool(t, newDB(t), nil)
	before := texts(t, pool, everything)
	if err := Down(t.Context(), pool, nil); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, texts(t, pool, everything)); diff != "" {
		t.Errorf("Down changed an empty database (-before +after):\n%s", diff)
	}
}

// TestUp_D07_PreviousBuildOnNewerSchema: a deploy, and its way back.
func TestUp_D07_PreviousBuildOnNewerSchema(t *testing.T) {
	t.Parallel()
	pool := newPool(t, newDB(t), nil)
	newer := filesPlus(t, map[string]string{
		"000005_next.up.sql":   `alter table call add column note text; create table later (n int)`,
		"000005_next.down.sql": `drop table later; alter table call drop column note`,
	})
	if err := Up(t.Context(), pool, nil); err != nil {
		t.Fatal(err)
	}
	mustExec(t, pool, insertCall, 32, "succeeded")
	before := get[string](t, pool, `select md5(string_agg(id::text || answer::text, '' order by id)) from txonce.call`)
	if err := up(t.Context(), pool, nil, newer); err != nil {
		t.Fatal(err)
	}
	if err := Up(t.Context(), pool, nil); err != nil {
		t.Errorf("the previous build does not start: %v", err)
	}
	wantVersion(t, pool, latest+1)
	if err := Down(t.Context(), pool, nil); err == nil || !strings.Contains(err.Error(), "use the build that migrated it") {
		t.Errorf("Down of a newer schema: %v", err)
	}
	wantVersion(t, pool, latest+1)
	if after := get[string](t, pool, `select md5(string_agg(id::text || answer::text, '' order by id)) from txonce.call`); after != before {
		t.Error("the upgrade changed the records")
	}
	mustExec(t, pool, insertCall, 32, "succeeded") // as the previous build writes it
	if err := down(t.Context(), pool, nil, newer); err != nil {
		t.Fatal(err)
	}
}

// TestUp_D07_FromEveryVersionWithData upgrades from each released version.
func TestUp_D07_FromEveryVersionWithData(t *testing.T) {
	t.Parallel()
	all, err := openFiles(Files)
	if err != nil {
		t.Fatal(err)
	}
	for v := uint(1); v <= all.latest; v++ {
		t.Run(fmt.Sprintf("from %d", v), func(t *testing.T) {
			t.Parallel()
			pool := newPool(t, newDB(t), nil)
			if err := up(t.Context(), pool, nil, filesUpTo(t, v)); err != nil {
				t.Fatal(err)
			}
			mustExec(t, pool, insertCall, 32, "succeeded")
			if err := Up(t.Context(), pool, nil); err != nil {
				t.Fatal(err)
			}
			if n := get[int](t, pool, `select count(*) from txonce.call where answer = '\x007b7d'`); n != 1 {
				t.Errorf("%d records after the upgrade, want 1", n)
			}
		})
	}
}
