// Package dbtest gives each test a Postgres database of its own, migrated, in some ten milliseconds: a clone of a
// template that is made once per test run. The database of a failed test is kept, and its URL is in the test's log.
//
// [Pool] is what most tests need. The server is the one that TXONCE_TEST_DATABASE_URL or DATABASE_URL names, else a
// throwaway one that ends with the test process (internal/devpg).
//
// The same tests run in other ways of pgx to execute, and behind a pooler (R17), where the environment says so:
// TXONCE_TEST_EXEC_MODE=exec, cache_describe or simple_protocol, and TXONCE_TEST_POOLER=pgbouncer. Each [Pool] follows it,
// [URL] stays the server's own. [SkipPooled] is for tests that make no sense there.
//
// It may import devpg, migrations, pgx, River's migrations, pgtestdb and goleak, and is imported by tests only.
package dbtest

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/peterldowns/pgtestdb"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"go.uber.org/goleak"

	"github.com/txonce/txonce/internal/devpg"
	"github.com/txonce/txonce/migrations"
)

// server is started once per test process and ends with it: devpg's keeper sees to that.
var server = sync.OnceValues(func() (*devpg.Server, error) {
	s, err := devpg.Start(context.Background(), &devpg.Config{Parameters: devpg.ForTests()})
	started.Store(s)
	return s, err
})

var started atomic.Pointer[devpg.Server]

// Main is the TestMain of a package with a database: it runs the tests, stops what it started, says what the tests ran on, and
// fails when a goroutine is left.
func Main(m *testing.M) {
	code := m.Run()
	kept.close()
	if err := poolers.report(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "dbtest:", err)
		code = max(code, 1)
	}
	if s := started.Load(); s != nil {
		if err := s.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "dbtest:", err)
			code = max(code, 1)
		}
	}
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, "dbtest: goroutines are left:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// URL returns the URL of a fresh, migrated database.
func URL(t testing.TB) string {
	t.Helper()
	register()
	s, err := server()
	if err != nil {
		t.Fatalf("dbtest: %v", err)
	}
	conf, err := configOf(s.URL())
	if err != nil {
		t.Fatalf("dbtest: %v", err)
	}
	return pgtestdb.Custom(t, conf, migrator{}).URL()
}

// Pool returns a pool on a fresh, migrated database. change, if not nil, may adjust its configuration. The pool is
// closed when the test ends.
func Pool(t testing.TB, change func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	return PoolAt(t, URL(t), change)
}

// PoolAt returns a pool on the database at url, closed when the test ends. It need not be of this package's server.
func PoolAt(t testing.TB, url string, change func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatalf("dbtest: %v", err)
	}
	if err := apply(t.Context(), cfg); err != nil {
		t.Fatalf("dbtest: %v", err)
	}
	if change != nil {
		change(cfg)
	}
	pool, err := pgxpool.NewWithConfig(context.WithoutCancel(t.Context()), cfg)
	if err != nil {
		t.Fatalf("dbtest: %v", err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// configOf takes a server's URL apart as pgtestdb wants it. A Unix socket stays a query parameter.
func configOf(serverURL string) (pgtestdb.Config, error) {
	u, err := url.Parse(serverURL)
	if err != nil {
		return pgtestdb.Config{}, err
	}
	password, _ := u.User.Password()
	port := u.Port()
	if port == "" {
		port = "5432"
	}
	query := u.Query()
	if p := query.Get("port"); p != "" {
		port = p
	}
	return pgtestdb.Config{
		DriverName: thrifty,
		Host:       u.Hostname(),
		Port:       port,
		User:       url.QueryEscape(u.User.Username()),
		Password:   url.QueryEscape(password),
		Database:   u.Path[min(1, len(u.Path)):],
		Options:    query.Encode(),
		TestRole:   &pgtestdb.Role{Username: testRole, Password: testRole, Capabilities: "nosuperuser nocreatedb nocreaterole"},
		// A test that cuts connections leaves backends that are about to end.
		ForceTerminateConnections: true,
	}, nil
}

// migrator runs our migrations on the template.
type migrator struct{}

// Hash names the template after what is in the files, and after River's.
func (migrator) Hash() (string, error) {
	h := sha256.New()
	river, err := rivermigrate.New(riverpgxv5.New(nil), nil)
	if err != nil {
		return "", err
	}
	for _, m := range river.AllVersions() {
		h.Write([]byte(m.Name + "\x00" + strconv.Itoa(len(m.SQLUp)) + "\x00" + m.SQLUp))
	}
	err = fs.WalkDir(migrations.Files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := fs.ReadFile(migrations.Files, path)
		h.Write([]byte(path + "\x00" + strconv.Itoa(len(content)) + "\x00"))
		h.Write(content)
		return err
	})
	return hex.EncodeToString(h.Sum(nil)[:16]), err
}

// Migrate is called once per template.
func (migrator) Migrate(ctx context.Context, _ *sql.DB, conf pgtestdb.Config) error {
	pool, err := pgxpool.New(ctx, conf.URL())
	if err != nil {
		return err
	}
	defer pool.Close()
	return migrations.Up(ctx, pool, nil)
}
