package migrations

import (
	"bufio"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

const boots = 8

// TestUp_D07_GoroutinesBootAtOnce: all wait for the lock, then one migrates.
func TestUp_D07_GoroutinesBootAtOnce(t *testing.T) {
	t.Parallel()
	cfg := newDB(t)
	release := holdLock(t, cfg, defaultSchema)
	log, results := newLines(), make(chan error, boots)
	for range boots {
		pool := newPool(t, cfg, one)
		go func() { results <- Up(t.Context(), pool, &Config{Logger: log.logger()}) }()
	}
	for range boots {
		log.await(t, "waiting")
	}
	release()
	for range boots {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	if n := log.count("done"); n != latest {
		t.Errorf("%d files were applied by %d, want each once", n, boots)
	}
	wantVersion(t, newPool(t, cfg, nil), latest)
	wantRiver(t, newPool(t, cfg, nil), "txonce_river")
}

// TestUp_D07_ProcessesBootAtOnce is the same with real processes.
func TestUp_D07_ProcessesBootAtOnce(t *testing.T) {
	t.Parallel()
	cfg := newDB(t)
	release := holdLock(t, cfg, defaultSchema)
	log, results := newLines(), make(chan error, boots)
	for range boots {
		cmd := startChild(t, "up", cfg, log)
		go func() { results <- cmd.Wait() }()
	}
	for range boots {
		log.await(t, "waiting")
	}
	release()
	for range boots {
		if err := <-results; err != nil {
			t.Errorf("a process failed: %v", err)
		}
	}
	if n := log.count("done"); n != latest {
		t.Errorf("%d files were applied by %d processes, want each once", n, boots)
	}
	wantVersion(t, newPool(t, cfg, nil), latest)
	wantRiver(t, newPool(t, cfg, nil), "txonce_river")
}

// TestUp_D07_DownAndUpAtOnce: whoever comes first, nobody fails, and what is
// left is one of the two states.
func TestUp_D07_DownAndUpAtOnce(t *testing.T) {
	t.Parallel()
	cfg := newDB(t)
	results := make(chan error, 2*boots)
	for i := range 2 * boots {
		pool, run := newPool(t, cfg, one), Up
		if i%2 == 1 {
			run = Down
		}
		go func() { results <- run(t.Context(), pool, nil) }()
	}
	for range 2 * boots {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	pool := newPool(t, cfg, nil)
	current, _, err := Version(t.Context(), pool, nil)
	if err != nil {
		t.Fatal(err)
	}
	if exists := get[bool](t, pool, `select to_regclass('txonce.call') is not null`); exists != (current == latest) {
		t.Errorf("version %d, table exists: %v", current, exists)
	}
	if current == latest {
		wantRiver(t, pool, "txonce_river")
	} else {
		wantNoRiver(t, pool)
	}
}

// TestVersion_DroppedMeanwhile: a Down may take the table away between the look
// at the catalog and the look into the table.
func TestVersion_DroppedMeanwhile(t *testing.T) {
	t.Parallel()
	pool := newPool(t, newDB(t), nil)
	s, err := open(t.Context(), pool, nil, Files)
	if err != nil {
		t.Fatal(err)
	}
	defer s.conn.Release()
	for _, step := range []string{ // no schema, then no table, then another one of River's
		`select`, `create schema txonce; create schema txonce_river`, `create table txonce_river.river_migration (version bigint)`,
	} {
		mustExec(t, pool, step)
		if v, err := s.readVersion(t.Context()); v != -1 || err != nil {
			t.Errorf("after %q: version %d, %v; want -1, nil", step, v, err)
		}
		if v, addOns, err := s.readRiver(t.Context(), true); len(v) != 0 || addOns || err != nil {
			t.Errorf("after %q: River's versions %d, %v, %v; want none", step, v, addOns, err)
		}
	}
}

// TestUp_CancelWhileWaiting: back at once, and nothing left in the server's queue.
func TestUp_CancelWhileWaiting(t *testing.T) {
	t.Parallel()
	cfg := newDB(t)
	holdLock(t, cfg, defaultSchema)
	const application = "migrations_cancel_test"
	pool := newPool(t, cfg, func(c *pgxpool.Config) {
		c.ConnConfig.RuntimeParams["application_name"] = application + c.ConnConfig.Database
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	log, result := newLines(), make(chan error, 1)
	go func() { result <- Up(ctx, pool, &Config{Logger: log.logger()}) }()
	log.await(t, "waiting")
	cancel()
	start := time.Now()
	err := <-result
	if took := time.Since(start); took > time.Second {
		t.Errorf("Up returned %v after the cancel", took)
	}
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "another process migrates") {
		t.Errorf("Up: %v, want context.Canceled with an explanation", err)
	}
	observer := newPool(t, cfg, nil)
	noSession(t, observer, application+cfg.ConnConfig.Database)
	if n := get[int](t, observer, `select count(*) from pg_locks where not granted and database = (select oid from pg_database where datname = current_database())`); n != 0 {
		t.Errorf("%d sessions still wait for a lock", n)
	}
}

// TestUp_D07_NothingToDo_NeedsNoLock: a start with nothing to do does not queue
// behind a newer build that is migrating, be it before its first file or after.
func TestUp_D07_NothingToDo_NeedsNoLock(t *testing.T) {
	t.Parallel()
	cfg := newDB(t)
	pool := newPool(t, cfg, one)
	newer := filesPlus(t, map[string]string{"000005_next.up.sql": `create table later (n int)`})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for v, files := range []fs.FS{Files, newer} {
		if err := up(t.Context(), pool, nil, files); err != nil {
			t.Fatal(err)
		}
		release := holdLock(t, cfg, defaultSchema)
		log := newLines()
		if err := Up(ctx, pool, &Config{Logger: log.logger()}); err != nil {
			t.Error(err)
		}
		wantVersion(t, pool, uint(latest+v))
		if n := log.count("newer than this build"); n != v {
			t.Errorf("at version %d the log tells %d times that the schema is newer, want %d", latest+v, n, v)
		}
		release()
	}
}

// What a child process finds in its environment.
const (
	envChild    = "TXONCE_MIGRATIONS_CHILD" // up, or hang
	envURL      = "TXONCE_MIGRATIONS_URL"
	envDatabase = "TXONCE_MIGRATIONS_DATABASE"
)

// startChild runs this test binary as another process; the lines it prints go
// to out. It is killed with the test, if it still runs.
func startChild(t *testing.T, mode string, cfg *pgxpool.Config, out lines) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), envChild+"="+mode, envURL+"="+serverURL, envDatabase+"="+cfg.ConnConfig.Database)
	cmd.Stderr = os.Stderr
	stdout, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = w
	err = cmd.Start()
	_ = w.Close() // the child has its own
	if err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for s := bufio.NewScanner(stdout); s.Scan(); {
			out <- s.Text()
		}
	}()
	t.Cleanup(func() {
		<-read
		_ = stdout.Close()
	})
	return cmd
}
