package migrations

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

func TestUp_ErrServerTooOld(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"13.4", "9.6.24", "13.4 (Debian 13.4-1.pgdg100+1)", ""} {
		pool := poolTo(t, fakeServer(t, version))
		for name, err := range map[string]error{
			"Up":      Up(t.Context(), pool, nil),
			"Down":    Down(t.Context(), pool, nil),
			"Version": justErr(Version(t.Context(), pool, nil)),
		} {
			if !errors.Is(err, ErrServerTooOld) || !strings.Contains(err.Error(), `"`+version+`"`) {
				t.Errorf("%s on %q: %v, want ErrServerTooOld with the version", name, version, err)
			}
		}
	}
	for _, version := range []string{"14.0", "15.18 (Debian 15.18-0+deb12u1)", "17beta1", "18"} {
		if err := checkServer(version); err != nil {
			t.Errorf("server_version %q: %v", version, err)
		}
	}
}

func TestUp_NoServer(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().(*net.TCPAddr)
	_ = l.Close()
	err = Up(t.Context(), poolTo(t, addr), nil)
	if err == nil || !strings.Contains(err.Error(), `migrations: no connection to PostgreSQL at host "127.0.0.1"`) ||
		!strings.Contains(err.Error(), "that the URL is right") {
		t.Errorf("Up without a server: %v", err)
	}
}

func TestUp_SilentServer(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	start := time.Now()
	err := Up(ctx, poolTo(t, listen(t, func(net.Conn) { <-ctx.Done() })), nil)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), `host "127.0.0.1"`) {
		t.Errorf("Up: %v, want the deadline and the host", err)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("Up took %v", took)
	}
}

// TestUp_ErrPooled: a pooler that switches server connections between
// transactions is noticed before anything is written without the lock, and at
// the latest when the lock is given back.
func TestUp_ErrPooled(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before  string // the statement before which the pooler switches
		version uint   // what is reached
	}{
		"at once":        {"create schema", 0},
		"before a file":  {"create table call", 0},
		"before the end": {"pg_advisory_unlock", latest},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := newDB(t)
			pooled := poolTo(t, pooler(t, cfg.ConnConfig, c.before))
			err := Up(t.Context(), pooled, nil)
			if !errors.Is(err, ErrPooled) || strings.Contains(err.Error(), codeMoved) || !strings.Contains(err.Error(), "directly") || !strings.Contains(err.Error(), "pg_terminate_backend(") {
				t.Errorf("Up: %v, want ErrPooled with the remedy", err)
			}
			direct := newPool(t, cfg, nil)
			wantVersion(t, direct, c.version)
			if n := strings.Count(err.Error(), "pg_terminate_backend"); n != 1 {
				t.Errorf("the remedy stands %d times in: %v", n, err)
			}
		})
	}
}

// TestUp_ThroughAPooler_NothingToDo: an application behind a pooler may call Up
// at each start.
func TestUp_ThroughAPooler_NothingToDo(t *testing.T) {
	t.Parallel()
	cfg := newDB(t)
	if err := Up(t.Context(), newPool(t, cfg, nil), nil); err != nil {
		t.Fatal(err)
	}
	if err := Up(t.Context(), poolTo(t, pooler(t, cfg.ConnConfig, "select version")), nil); err != nil {
		t.Error(err)
	}
}

func poolTo(t *testing.T, addr *net.TCPAddr) *pgxpool.Pool {
	t.Helper()
	cfg, err := pgxpool.ParseConfig("postgres://app@" + addr.String() + "/app?sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	return newPool(t, cfg, one)
}
