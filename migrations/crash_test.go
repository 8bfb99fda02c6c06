package migrations

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// firstAnd is a first file that is fine and the given second one.
func firstAnd(second string) fs.FS {
	return fstest.MapFS{
		filesDir + "/000001_first.up.sql":    {Data: []byte(`create table first (n int)`)},
		filesDir + "/000001_first.down.sql":  {Data: []byte(`drop table first`)},
		filesDir + "/000002_second.up.sql":   {Data: []byte(second)},
		filesDir + "/000002_second.down.sql": {Data: []byte(`drop table second`)},
		filesDir + "/000003_third.up.sql":    {Data: []byte(`create table third (n int)`)},
		filesDir + "/000003_third.down.sql":  {Data: []byte(`drop table third`)},
	}
}

// wantAt checks that the database is exactly at a version of firstAnd, and clean.
func wantAt(t *testing.T, pool *pgxpool.Pool, want uint) {
	t.Helper()
	current, latest, err := versions(t.Context(), pool, nil, firstAnd(""))
	if err != nil || current != want || latest != 3 {
		t.Errorf("Version = %d, %d, %v; want %d, 3, nil", current, latest, err, want)
	}
	for i, table := range []string{"first", "second", "third"} {
		exists := get[bool](t, pool, `select to_regclass('txonce.' || $1) is not null`, table)
		if exists != (int(want) > i) {
			t.Errorf("at version %d: table %s exists: %v", want, table, exists)
		}
	}
}

// wantRecovery checks that the next run goes on from version 1.
func wantRecovery(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	wantAt(t, pool, 1)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := up(ctx, pool, nil, firstAnd(`create table second (n int)`)); err != nil {
		t.Fatalf("the run after: %v", err)
	}
	wantAt(t, pool, 3)
}

func TestUp_FileFails(t *testing.T) {
	t.Parallel()
	pool := newPool(t, newDB(t), one)
	err := up(t.Context(), pool, nil, firstAnd("create table second (n int);\n-- "+strings.Repeat("é", 50)+"\ninsert into nowhere values (1);"))
	if err == nil || !strings.Contains(err.Error(), "migrations: file 000002_second.up.sql: line 3: ") {
		t.Errorf("Up: %v, want the file and the line", err)
	}
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); !ok || pgErr.Code != "42P01" {
		t.Errorf("Up: %v, want the server's error inside", err)
	}
	wantRecovery(t, pool)
}

// TestUp_FileEndsOpen: neither a comment nor a missing semicolon at the end may
// swallow the version.
func TestUp_FileEndsOpen(t *testing.T) {
	t.Parallel()
	pool := newPool(t, newDB(t), nil)
	if err := up(t.Context(), pool, nil, firstAnd("create table second (n int) -- the end")); err != nil {
		t.Fatal(err)
	}
	wantAt(t, pool, 3)
}

func TestDown_FileFails(t *testing.T) {
	t.Parallel()
	pool := newPool(t, newDB(t), nil)
	good := firstAnd(`create table second (n int)`)
	if err := up(t.Context(), pool, nil, good); err != nil {
		t.Fatal(err)
	}
	bad := firstAnd(``).(fstest.MapFS)
	bad[filesDir+"/000001_first.down.sql"] = &fstest.MapFile{Data: []byte(`drop table first; drop table nowhere`)}
	err := down(t.Context(), pool, nil, bad)
	if err == nil || !strings.Contains(err.Error(), "000001_first.down.sql") {
		t.Errorf("Down: %v, want the file", err)
	}
	wantAt(t, pool, 1)
	if err := down(t.Context(), pool, nil, good); err != nil {
		t.Fatal(err)
	}
	wantAt(t, pool, 0)
}

// middle starts an Up that hangs in its second file, and returns when it is there.
func middle(t *testing.T, ctx context.Context, cfg *pgxpool.Config) (result <-chan error) {
	t.Helper()
	return inMiddle(t, cfg, func(pool *pgxpool.Pool) error { return up(ctx, pool, nil, firstAnd(inTheMiddle)) })
}

// inMiddle starts run and returns when the server says that it is in the middle.
func inMiddle(t *testing.T, cfg *pgxpool.Config, run func(*pgxpool.Pool) error) (result <-chan error) {
	t.Helper()
	there, done := make(chan struct{}, 1), make(chan error, 1)
	pool := newPool(t, cfg, func(c *pgxpool.Config) {
		c.MaxConns = 1
		c.ConnConfig.RuntimeParams["application_name"] = c.ConnConfig.Database + "_middle"
		c.ConnConfig.OnNotice = func(*pgconn.PgConn, *pgconn.Notice) { there <- struct{}{} }
	})
	go func() { done <- run(pool) }()
	select {
	case <-there:
	case err := <-done:
		t.Fatalf("it ended early: %v", err)
	case <-time.After(patience):
		t.Fatal("it did not get into the middle")
	}
	return done
}

func TestUp_BackendTerminated(t *testing.T) {
	t.Parallel()
	cfg := newDB(t)
	pool := newPool(t, cfg, nil)
	result := middle(t, t.Context(), cfg)
	mustExec(t, pool, `select pg_terminate_backend(pid) from pg_stat_activity where application_name = $1`, cfg.ConnConfig.Database+"_middle")
	if err := <-result; err == nil || !strings.Contains(err.Error(), "000002_second.up.sql") {
		t.Errorf("Up: %v, want an error that names the file", err)
	}
	wantRecovery(t, pool)
}

func TestUp_CancelledInFile(t *testing.T) {
	t.Parallel()
	cfg := newDB(t)
	pool := newPool(t, cfg, nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	result := middle(t, ctx, cfg)
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "run it again") {
		t.Errorf("Up: %v, want context.Canceled with a remedy", err)
	}
	noSession(t, pool, cfg.ConnConfig.Database+"_middle")
	wantRecovery(t, pool)
}

// TestUp_ProcessKilled: the server must notice by itself, long before the
// statement (600 s) ends.
func TestUp_ProcessKilled(t *testing.T) {
	t.Parallel()
	cfg := newDB(t)
	pool := newPool(t, cfg, nil)
	out := newLines()
	cmd := startChild(t, "hang", cfg, out)
	out.await(t, "in the middle")
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	wantRecovery(t, pool)
}

// TestUp_CancelledAnywhere cancels at random moments; what is left is always a
// version with exactly its tables.
func TestUp_CancelledAnywhere(t *testing.T) {
	t.Parallel()
	cfg := newDB(t)
	pool := newPool(t, cfg, nil)
	good, seen := firstAnd(`create table second (n int)`), map[uint]int{}
	for round := range 60 {
		application := fmt.Sprintf("%s_%d", cfg.ConnConfig.Database, round)
		victim := newPool(t, cfg, func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["application_name"] = application })
		run := up
		if round%2 == 1 {
			run = down
		}
		if err := victim.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), rand.N(40*time.Millisecond))
		_ = run(ctx, victim, &Config{NoRiver: true}, good)
		cancel()
		victim.Close()
		noSession(t, pool, application)
		current, _, err := versions(t.Context(), pool, nil, good)
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		seen[current]++
		wantAt(t, pool, current)
	}
	t.Logf("versions seen: %v", seen)
	if err := up(t.Context(), pool, nil, good); err != nil {
		t.Fatal(err)
	}
	wantAt(t, pool, 3)
}
