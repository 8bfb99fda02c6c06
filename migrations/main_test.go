package migrations

import (
	"context"
	"crypto/rand"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/golang-migrate/migrate/v4/source"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/txonce/txonce/internal/devpg"
)

// serverURL is set by TestMain.
var serverURL string

// latest is the version that our own files lead to.
const latest = 4

// patience bounds waiting for what should happen soon, on a busy machine.
const patience = time.Minute

func TestMain(m *testing.M) {
	if mode := os.Getenv(envChild); mode != "" {
		os.Exit(child(mode))
	}
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	server, err := devpg.Start(context.Background(), &devpg.Config{Parameters: devpg.ForTests()})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer server.Stop()
	serverURL = server.URL()
	fmt.Printf("ran on: PostgreSQL %s, directly, cache_statement\n", server.Version())
	ignore := goleak.IgnoreCurrent() // the server's keeper
	code := m.Run()
	if err := goleak.Find(ignore); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// createDB creates a database of its own and returns its configuration and
// what drops it.
func createDB(ctx context.Context) (*pgxpool.Config, func(), error) {
	cfg, err := pgxpool.ParseConfig(serverURL)
	if err != nil {
		return nil, nil, err
	}
	name := "migrations_" + strings.ToLower(rand.Text()[:12])
	if err := adminExec(ctx, "create database "+name); err != nil {
		return nil, nil, err
	}
	cfg.ConnConfig.Database = name
	cfg.ConnConfig.RuntimeParams["application_name"] = name
	drop := func() { _ = adminExec(context.Background(), "drop database "+name+" with (force)") }
	return cfg, drop, nil
}

func adminExec(ctx context.Context, sql string) error {
	conn, err := pgx.Connect(ctx, serverURL)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, sql)
	return err
}

// newDB returns the configuration of a database that ends with the test.
func newDB(t *testing.T) *pgxpool.Config {
	t.Helper()
	cfg, drop, err := createDB(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(drop)
	return cfg
}

// newRole returns a role without any privilege. Call it before newDB, so that the
// database goes first.
func newRole(t *testing.T) string {
	t.Helper()
	name := "migrations_role_" + strings.ToLower(rand.Text()[:12])
	if err := adminExec(t.Context(), "create role "+name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := adminExec(context.Background(), "drop role "+name); err != nil {
			t.Error(err)
		}
	})
	return name
}

func newPool(t *testing.T, cfg *pgxpool.Config, change func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	cfg = cfg.Copy()
	if change != nil {
		change(cfg)
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func one(cfg *pgxpool.Config) { cfg.MaxConns = 1 }

// as makes every connection act as role.
func as(role string) func(*pgxpool.Config) {
	return func(cfg *pgxpool.Config) {
		cfg.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, "set role "+role)
			return err
		}
	}
}

func mustExec(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func get[T any](t *testing.T, pool *pgxpool.Pool, sql string, args ...any) T {
	t.Helper()
	var v T
	if err := pool.QueryRow(t.Context(), sql, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// eventually polls for what only the server knows, such as the end of a session.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(patience)
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("not within %v: %s", patience, what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// noSession waits until no session with that application name is left.
func noSession(t *testing.T, observer *pgxpool.Pool, application string) {
	t.Helper()
	eventually(t, "sessions of "+application+" end", func() bool {
		return get[int](t, observer, `select count(*) from pg_stat_activity where application_name = $1`, application) == 0
	})
}

// filesPlus is our files and others, named without folder.
func filesPlus(t *testing.T, more map[string]string) fs.FS {
	t.Helper()
	all := fstest.MapFS{}
	entries, err := fs.ReadDir(Files, filesDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		data, err := fs.ReadFile(Files, filesDir+"/"+e.Name())
		if err != nil {
			t.Fatal(err)
		}
		all[filesDir+"/"+e.Name()] = &fstest.MapFile{Data: data}
	}
	for name, sql := range more {
		all[filesDir+"/"+name] = &fstest.MapFile{Data: []byte(sql)}
	}
	return all
}

// lines is a log handler that passes the messages on.
type lines chan string

func newLines() lines { return make(lines, 1000) }

func (l lines) logger() *slog.Logger                          { return slog.New(l) }
func (l lines) Enabled(context.Context, slog.Level) bool      { return true }
func (l lines) WithAttrs([]slog.Attr) slog.Handler            { return l }
func (l lines) WithGroup(string) slog.Handler                 { return l }
func (l lines) Handle(_ context.Context, r slog.Record) error { l <- r.Message; return nil }

// await returns once a message that contains text has come.
func (l lines) await(t *testing.T, text string) {
	t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case line := <-l:
			if strings.Contains(line, text) {
				return
			}
		case <-deadline:
			t.Fatalf("no log line with %q", text)
		}
	}
}

// count empties the log and counts.
func (l lines) count(text string) int {
	n := 0
	for {
		select {
		case line := <-l:
			if strings.Contains(line, text) {
				n++
			}
		default:
			return n
		}
	}
}

// holdLock takes the lock of a schema, as another process would, and returns
// what gives it back.
func holdLock(t *testing.T, cfg *pgxpool.Config, schema string) (release func()) {
	t.Helper()
	conn, err := pgx.ConnectConfig(t.Context(), cfg.ConnConfig)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	if _, err := conn.Exec(t.Context(), `select pg_advisory_lock($1, $2)`, lockClass, lockID(schema)); err != nil {
		t.Fatal(err)
	}
	return func() {
		if _, err := conn.Exec(t.Context(), `select pg_advisory_unlock($1, $2)`, lockClass, lockID(schema)); err != nil {
			t.Error(err)
		}
	}
}

// DatabaseForExample gives the examples a database. Its URL differs from the
// server's by the path.
func DatabaseForExample() (string, func()) {
	cfg, drop, err := createDB(context.Background())
	if err != nil {
		panic(err)
	}
	u, err := url.Parse(serverURL)
	if err != nil {
		panic(err)
	}
	u.Path = "/" + cfg.ConnConfig.Database
	return u.String(), drop
}

// filesUpTo is our files up to a version.
func filesUpTo(t *testing.T, version uint) fs.FS {
	t.Helper()
	all := filesPlus(t, nil).(fstest.MapFS)
	for name := range all {
		if m, err := source.Parse(path.Base(name)); err != nil || m.Version > version {
			delete(all, name)
		}
	}
	return all
}
