//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package devpg

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
)

func needBaseBackup(t *testing.T) {
	t.Helper()
	needBinaries(t)
	dirs := candidates(host{getenv: onlyPath, folders: installFolders()})
	if _, err := os.Stat(filepath.Join(dirs[0], "pg_basebackup")); err != nil {
		t.Skip(err)
	}
}

// ask runs a query for one text on a connection of its own.
func ask(ctx context.Context, address, sql string) (text string, err error) {
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close(ctx) }()
	return text, conn.QueryRow(ctx, sql).Scan(&text)
}

func mustAsk(t *testing.T, address, sql string) string {
	t.Helper()
	text, err := ask(t.Context(), address, sql)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return text
}

func TestStartStandby_FollowsItsPrimary(t *testing.T) {
	t.Parallel()
	needBaseBackup(t)
	base := newBase(t)
	for label, tcp := range map[string]bool{"socket": false, "TCP": true} {
		cfg := localConfig(base)
		cfg.Durable, cfg.ListenTCP = true, tcp
		primary := mustStart(t, cfg)
		cfg.ListenTCP = false
		standby, err := StartStandby(t.Context(), primary, cfg)
		if err != nil {
			t.Fatalf("%s: %v", label, err)
		}
		if got := mustAsk(t, standby.URL(), `select pg_is_in_recovery()::text`); got != "true" {
			t.Errorf("%s: in recovery: %s", label, got)
		}
		conn, err := pgx.Connect(t.Context(), primary.URL())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Exec(t.Context(), `create table seen as select 'there' as word`); err != nil {
			t.Fatal(err)
		}
		_ = conn.Close(t.Context())
		eventually(t, "the standby has replayed the table", func() bool {
			word, err := ask(t.Context(), standby.URL(), `select word from seen`)
			return err == nil && word == "there"
		})
		if err := standby.Stop(); err != nil {
			t.Error(err)
		}
		if err := primary.Stop(); err != nil {
			t.Error(err)
		}
		if left := entries(t, base); len(left) > 0 {
			t.Errorf("%s: left behind: %v", label, left)
		}
	}
}

func TestStartStandby_SaysWhatItNeeds(t *testing.T) {
	t.Parallel()
	if _, err := StartStandby(t.Context(), &Server{}, nil); err == nil || !strings.Contains(err.Error(), "StartOwn") {
		t.Errorf("a primary that was given: %v", err)
	}
	if _, err := StartStandby(t.Context(), &Server{own: &keeper{}}, &Config{ListenTCP: true}); err == nil || !strings.Contains(err.Error(), "ListenTCP") {
		t.Errorf("TCP: %v", err)
	}
}

func TestStartSupervised_ComesBackWithItsData(t *testing.T) {
	t.Parallel()
	needBinaries(t)
	base := newBase(t)
	cfg := localConfig(base)
	cfg.Durable = true
	srv, err := StartSupervised(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Stop() })
	conn, err := pgx.Connect(t.Context(), srv.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	if _, err := conn.Exec(t.Context(), `create table kept as select 'here' as word`); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(srv.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the connection is lost", func() bool { return conn.Ping(t.Context()) != nil })
	eventually(t, "the server is back with its data", func() bool {
		word, err := ask(t.Context(), srv.URL(), `select word from kept`)
		return err == nil && word == "here"
	})
	if err := srv.Stop(); err != nil {
		t.Error(err)
	}
}

func TestStartOwn_IgnoresURLs(t *testing.T) {
	t.Parallel()
	needBinaries(t)
	cfg := localConfig(newBase(t))
	cfg.URL = "postgres://127.0.0.1:1/none"
	srv, err := StartOwn(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if srv.PID() == 0 {
		t.Error("no server of our own")
	}
	if err := srv.Stop(); err != nil {
		t.Error(err)
	}
}

func TestQuote_MakesOneWord(t *testing.T) {
	t.Parallel()
	if got := quote(`it's a "$path"`); got != `'it'\''s a "$path"'` {
		t.Errorf("got %s", got)
	}
}
