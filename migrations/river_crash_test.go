package migrations

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// hangIn makes each run of River's migrations say that it is in the middle and
// wait, inside the transaction that makes the object, until go on is called.
func hangIn(t *testing.T, cfg *pgxpool.Config, object string) (goOn func()) {
	t.Helper()
	conn, err := pgx.ConnectConfig(t.Context(), cfg.ConnConfig)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	for _, sql := range []string{
		`select pg_advisory_lock(1)`,
		fmt.Sprintf(`create function public.hang() returns event_trigger language plpgsql as $$
			begin
				if exists (select from pg_event_trigger_ddl_commands() where object_identity ~ '^txonce_river\.%s') then
					raise notice 'in the middle';
					perform pg_advisory_xact_lock_shared(1);
				end if;
			end $$`, object),
		`create event trigger hang on ddl_command_end execute function public.hang()`,
	} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	return func() {
		if _, err := conn.Exec(t.Context(), `select pg_advisory_unlock(1)`); err != nil {
			t.Error(err)
		}
	}
}

// wantRiverRecovery checks that the next run goes on from version.
func wantRiverRecovery(t *testing.T, pool *pgxpool.Pool, version int) {
	t.Helper()
	at := ""
	if get[bool](t, pool, `select to_regclass('txonce_river.river_migration') is not null`) {
		at = get[string](t, pool, `select string_agg(version::text, ' ' order by version) from txonce_river.river_migration`)
	}
	if want := strings.TrimSpace("1 2 3 4 5 6 7"[:max(0, 2*version-1)]); at != want {
		t.Errorf("River has the versions %q, want %q", at, want)
	}
	mustExec(t, pool, `drop event trigger hang; drop function public.hang`)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := Up(ctx, pool, nil); err != nil {
		t.Fatalf("the run after: %v", err)
	}
	wantRiver(t, pool, "txonce_river")
	if err := Down(ctx, pool, nil); err != nil {
		t.Fatalf("Down: %v", err)
	}
	wantNoRiver(t, pool)
}

// What River's migrations make, and the version before the one that makes it.
var riverObjects = map[string]int{
	"river_migration": 0, "river_job": 1, "river_queue": 3, "river_client": 4, "river_job_state_in_bitmask": 5, "river_notification": 6,
}

func TestUp_D07_RiverBackendTerminated(t *testing.T) {
	t.Parallel()
	for object, version := range riverObjects {
		t.Run(object, func(t *testing.T) {
			t.Parallel()
			cfg := newDB(t)
			pool := newPool(t, cfg, nil)
			hangIn(t, cfg, object+`\y`)
			result := inMiddle(t, cfg, func(p *pgxpool.Pool) error { return Up(t.Context(), p, nil) })
			mustExec(t, pool, `select pg_terminate_backend(pid) from pg_stat_activity where application_name = $1 and xact_start is not null`, cfg.ConnConfig.Database+"_middle")
			if err := <-result; err == nil || !strings.HasPrefix(err.Error(), `migrations: River's migrations in schema "txonce_river": `) {
				t.Errorf("Up: %v, want an error that names River's schema", err)
			}
			wantVersion(t, pool, latest)
			wantRiverRecovery(t, pool, version)
		})
	}
}

// TestUp_RiverLockLost: who holds the lock no longer hears of it, although
// River's migrations went through.
func TestUp_RiverLockLost(t *testing.T) {
	t.Parallel()
	for name, down := range map[string]bool{"Up": false, "Down": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := newDB(t)
			pool := newPool(t, cfg, nil)
			run, object := Up, `river_queue\y`
			if down {
				if err := Up(t.Context(), pool, nil); err != nil {
					t.Fatal(err)
				}
				run, object = Down, `river_client\y` // made again while version 7 is undone
			}
			goOn := hangIn(t, cfg, object)
			result := inMiddle(t, cfg, func(p *pgxpool.Pool) error { return run(t.Context(), p, nil) })
			mustExec(t, pool, `select pg_terminate_backend(l.pid) from pg_locks l join pg_database d on d.oid = l.database
				where d.datname = current_database() and locktype = 'advisory' and classid = $1 and objid = $2`, uint32(lockClass), uint32(lockID(defaultSchema)))
			goOn()
			if err := <-result; err == nil || !strings.Contains(err.Error(), "the lock") || !strings.Contains(err.Error(), "run it again") {
				t.Errorf("%s: %v, want an error with the remedy", name, err)
			}
			if !down {
				wantRiverRecovery(t, pool, 4)
			}
		})
	}
}

func TestUp_CancelledInRiver(t *testing.T) {
	t.Parallel()
	cfg := newDB(t)
	pool := newPool(t, cfg, nil)
	hangIn(t, cfg, `river_queue\y`)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	result := inMiddle(t, cfg, func(p *pgxpool.Pool) error { return Up(ctx, p, nil) })
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "run it again") {
		t.Errorf("Up: %v, want context.Canceled with a remedy", err)
	}
	noSession(t, pool, cfg.ConnConfig.Database+"_middle")
	wantRiverRecovery(t, pool, 3)
}

// TestUp_D07_ProcessKilledInRiver: the server must notice by itself.
func TestUp_D07_ProcessKilledInRiver(t *testing.T) {
	t.Parallel()
	cfg := newDB(t)
	pool := newPool(t, cfg, nil)
	hangIn(t, cfg, `river_queue\y`)
	out := newLines()
	cmd := startChild(t, "up", cfg, out)
	out.await(t, "in the middle")
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	eventually(t, "the killed process's sessions end", func() bool {
		return get[int](t, pool, `select count(*) from pg_locks where not granted and database = (select oid from pg_database where datname = current_database())`) == 0
	})
	wantRiverRecovery(t, pool, 3)
}

// TestUp_RiverCancelledAnywhere cancels at random moments; what is left is
// always something from which Up and Down go on.
func TestUp_RiverCancelledAnywhere(t *testing.T) {
	t.Parallel()
	cfg := newDB(t)
	pool := newPool(t, cfg, nil)
	before := texts(t, pool, everything)
	seen := map[string]int{}
	for round := range 24 {
		application := fmt.Sprintf("%s_%d", cfg.ConnConfig.Database, round)
		victim := newPool(t, cfg, func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["application_name"] = application })
		run := Up
		if round%4 >= 2 {
			run = Down
		}
		if err := victim.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), rand.N(300*time.Millisecond))
		_ = run(ctx, victim, nil)
		cancel()
		victim.Close()
		noSession(t, pool, application)
		at := "none"
		if get[bool](t, pool, `select to_regclass('txonce_river.river_migration') is not null`) {
			at = get[string](t, pool, `select coalesce(string_agg(version::text, '' order by version), 'empty') from txonce_river.river_migration`)
		}
		seen[at]++
	}
	t.Logf("versions seen: %v", seen)
	if err := Up(t.Context(), pool, nil); err != nil {
		t.Fatal(err)
	}
	wantRiver(t, pool, "txonce_river")
	if err := Down(t.Context(), pool, nil); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, texts(t, pool, everything)); diff != "" {
		t.Errorf("Down left something (-before +after):\n%s", diff)
	}
}

// TestUp_J10_RiverMigratedBySomebodyElseMeanwhile: an application that runs
// River's migrations in the same schema does not take our lock.
func TestUp_J10_RiverMigratedBySomebodyElseMeanwhile(t *testing.T) {
	t.Parallel()
	pool := newPool(t, newDB(t), nil)
	mustExec(t, pool, `create schema txonce_river`)
	theirs, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = theirs.Rollback(context.Background()) }()
	first, err := ownMigrator(t, pool, "txonce_river").GetVersion(1)
	if err != nil {
		t.Fatal(err)
	}
	sql := strings.ReplaceAll(first.SQLUp, "/* TEMPLATE: schema */", "txonce_river.") + `; insert into txonce_river.river_migration (version) values (1)`
	if _, err := theirs.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
	result := make(chan error, 1)
	go func() { result <- Up(t.Context(), pool, nil) }()
	eventually(t, "Up runs into what they have not committed", func() bool {
		return get[int](t, pool, `select count(*) from pg_locks l join pg_stat_activity a using (pid) where not l.granted and a.datname = current_database()`) > 0
	})
	if err := theirs.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-result; err != nil {
		t.Error(err)
	}
	wantRiver(t, pool, "txonce_river")
}
