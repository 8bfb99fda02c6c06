//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package devpg

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
)

// poolerAt starts a pooler in front of srv, with its files in base.
func poolerAt(ctx context.Context, srv *Server, base string) (*Pooler, error) {
	cfg, err := pgx.ParseConfig(srv.URL())
	if err != nil {
		return nil, err
	}
	return startPooler(ctx, []string{base}, &cfg.Config, map[string]string{`o"dd`: `pass"word`})
}

func needPooler(t *testing.T) {
	t.Helper()
	who, err := serverAccount()
	if err == nil {
		_, _, err = findPooler(t.Context(), who)
	}
	if err != nil {
		t.Skip(err)
	}
}

// through connects through the pooler.
func through(t *testing.T, srv *Server, p *Pooler) *pgx.Conn {
	t.Helper()
	cfg, err := pgx.ParseConfig(srv.URL())
	if err != nil {
		t.Fatal(err)
	}
	p.Route(&cfg.Config)
	cfg.DefaultQueryExecMode = pgx.QueryExecModeExec
	conn, err := pgx.ConnectConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func backend(t *testing.T, conn *pgx.Conn) (pid int) {
	t.Helper()
	if err := conn.QueryRow(t.Context(), `select pg_backend_pid()`).Scan(&pid); err != nil {
		t.Fatal(err)
	}
	return pid
}

// TestPooler_R17_TransactionMode shows that two clients have one connection of the server in turn, and each its own inside
// a transaction. Over TCP the pooler shows the server the password that it was given.
func TestPooler_R17_TransactionMode(t *testing.T) {
	t.Parallel()
	needPooler(t)
	for label, tcp := range map[string]bool{"socket": false, "TCP": true} {
		t.Run(label, func(t *testing.T) {
			t.Parallel()
			cfg := localConfig(newBase(t))
			cfg.ListenTCP = tcp
			srv := mustStart(t, cfg)
			base := newBase(t)
			p, err := poolerAt(t.Context(), srv, base)
			if err != nil {
				t.Fatal(err)
			}
			one, two := through(t, srv, p), through(t, srv, p)
			if a, b := backend(t, one), backend(t, two); a != b {
				t.Errorf("two clients in turn had the backends %d and %d, want one", a, b)
			}
			if _, err := one.Exec(t.Context(), `begin`); err != nil {
				t.Fatal(err)
			}
			if a, b := backend(t, one), backend(t, two); a == b {
				t.Error("a transaction shares its backend with another client")
			}
			if _, err := one.Exec(t.Context(), `commit`); err != nil {
				t.Fatal(err)
			}
			if n, err := p.Transactions(t.Context()); err != nil || n != 4 {
				t.Errorf("Transactions() = %d, %v; want 4", n, err)
			}
			if p.Version() == "" || strings.Trim(p.Version(), "0123456789.") != "" {
				t.Errorf("Version() = %q", p.Version())
			}
			if err := errors.Join(p.Stop(), p.Stop()); err != nil {
				t.Error(err)
			}
			if err := syscall.Kill(p.PID(), 0); !errors.Is(err, syscall.ESRCH) {
				t.Errorf("pgbouncer with pid %d is still there: %v", p.PID(), err)
			}
			if err := srv.Stop(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A parent that dies takes its pooler along, with all that it had on disk.
func TestPooler_R17_DiesWithParent(t *testing.T) {
	t.Parallel()
	needBinaries(t)
	needPooler(t)
	for mode, sig := range deaths() {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			base := newBase(t)
			p := startHelper(t, testBinary(t), mode, nil, base, "pooler")
			s := p.report(t)
			if s.Err != "" {
				t.Fatal(s.Err)
			}
			if err := syscall.Kill(s.Pooler, 0); err != nil && !errors.Is(err, syscall.EPERM) {
				t.Fatalf("no pooler: %v", err)
			}
			if sig != 0 {
				if err := p.cmd.Process.Signal(sig); err != nil {
					t.Fatal(err)
				}
			} else {
				_ = p.stdin.Close()
			}
			_ = p.cmd.Wait() // a death is no success
			eventually(t, "pooler gone", func() bool { return errors.Is(syscall.Kill(s.Pooler, 0), syscall.ESRCH) })
			eventually(t, "directories gone", func() bool { return len(entries(t, base)) == 0 })
		})
	}
}

// What keeps pgbouncer from starting is in the error, and nothing of it is left.
func TestPooler_R17_StartThatFailsSaysWhy(t *testing.T) {
	t.Parallel()
	needPooler(t)
	base := newBase(t) // empty again, or the test fails
	cfg, err := pgx.ParseConfig("postgres://user@localhost:1/none")
	if err != nil {
		t.Fatal(err)
	}
	cfg.User = "two\nlines" // which its file of users cannot hold
	if p, err := startPooler(t.Context(), []string{base}, &cfg.Config, nil); err == nil {
		t.Errorf("it started: %v, %v", p.PID(), p.Stop())
	} else if !strings.Contains(err.Error(), "did not start") {
		t.Errorf("got %v", err)
	}
}
