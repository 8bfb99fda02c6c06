package versions

import (
	"context"
	"crypto/rand"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/integration/internal/servers"
	"github.com/txonce/txonce/internal/devpg"
)

func TestMain(m *testing.M) {
	if os.Getenv(envChild) != "" {
		os.Exit(child())
	}
	servers.Main(m)
}

// patience bounds what must happen some day: a hang detector.
const patience = time.Minute

// shared has the one server of each place, by place. They end with the process.
var shared sync.Map

// server is the place's.
func server(t *testing.T, place servers.Place) *servers.Server {
	t.Helper()
	start, _ := shared.LoadOrStore(place, sync.OnceValues(func() (*servers.Server, error) {
		return place.Start(context.Background(), &servers.Config{Parameters: devpg.ForTests()})
	}))
	s, err := start.(func() (*servers.Server, error))()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// database makes an empty one on the server, which goes with the test, and returns its name.
func database(t *testing.T, s *servers.Server) string {
	t.Helper()
	name := "versions_" + strings.ToLower(rand.Text()[:12])
	admin := pool(t, s, "")
	do(t, admin, "create database "+name)
	t.Cleanup(func() {
		if _, err := admin.Exec(context.Background(), "drop database "+name+" with (force)"); err != nil {
			t.Error(err)
		}
	})
	return name
}

// pool is one on a database of the server, which ends with the test.
func pool(t *testing.T, s *servers.Server, database string) *pgxpool.Pool {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	if database != "" {
		cfg.ConnConfig.Database = database
	}
	cfg.MaxConns = 16
	p, err := pgxpool.NewWithConfig(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// fresh is a pool on an empty database of its own.
func fresh(t *testing.T, place servers.Place) *pgxpool.Pool {
	t.Helper()
	s := server(t, place)
	return pool(t, s, database(t, s))
}

func do(t *testing.T, p *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	if _, err := p.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func get[T any](t *testing.T, p *pgxpool.Pool, sql string, args ...any) (v T) {
	t.Helper()
	if err := p.QueryRow(t.Context(), sql, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// eventually polls for what only servers know.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); <-time.After(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("still not so after %v: %s", patience, what)
		}
	}
}
