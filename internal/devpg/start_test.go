//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package devpg

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

func TestStartAndStop(t *testing.T) {
	t.Parallel()
	base := newBase(t)
	begin := time.Now()
	srv := mustStart(t, localConfig(base))
	ready := time.Now()

	if got := show(t, srv.URL(), "server_version"); !strings.HasPrefix(got, srv.Version()) {
		t.Errorf("Version() = %q, the server says %q", srv.Version(), got)
	}
	if got := show(t, srv.URL(), "listen_addresses"); got != "" {
		t.Errorf("listens on %q, want a socket only", got)
	}
	if got := show(t, srv.URL(), "is_superuser"); got != "on" {
		t.Errorf("is_superuser = %q", got)
	}
	if got := show(t, srv.URL(), "fsync"); got != "off" {
		t.Errorf("fsync = %q", got)
	}
	if !strings.Contains(srv.Source(), "local server binaries in /") || !strings.Contains(srv.Source(), ", data in ") {
		t.Errorf("Source() = %q", srv.Source())
	}
	pid := srv.PID()
	if err := syscall.Kill(pid, 0); err != nil {
		t.Errorf("PID() = %d: %v", pid, err)
	}
	stopping := time.Now()
	if err := srv.Stop(); err != nil {
		t.Error(err)
	}
	t.Logf("start %s, stop %s", ready.Sub(begin), time.Since(stopping))
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the server with pid %d is still there: %v", pid, err)
	}
	if err := srv.Stop(); err != nil {
		t.Errorf("second Stop: %v", err)
	}
}

func TestRootHandsOver(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("for root only")
	}
	srv := mustStart(t, localConfig(newBase(t)))
	info, err := os.Stat(filepath.Join(dirOf(t, srv.URL()), "data"))
	if err != nil {
		t.Fatal(err)
	}
	who, err := serverAccount()
	if err != nil {
		t.Fatal(err)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || st.Uid != who.uid || st.Uid == 0 {
		t.Errorf("the data belongs to %+v, want user %s", info.Sys(), who.name)
	}
	if !strings.Contains(srv.Source(), "run as user "+who.name) {
		t.Errorf("Source() = %q", srv.Source())
	}
	if err := srv.Stop(); err != nil {
		t.Error(err)
	}
}

func TestRootsPrivateDirectoryIsNotUsed(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("for root only")
	}
	private := t.TempDir()
	if err := os.Chmod(private, 0o700); err != nil {
		t.Fatal(err)
	}
	cfg := localConfig(private)
	_, err := Start(t.Context(), cfg)
	if err == nil || !strings.Contains(err.Error(), "set TMPDIR to a directory that user") {
		t.Errorf("error = %v", err)
	}
	base := newBase(t)
	cfg.host.bases = append(cfg.host.bases, base)
	srv := mustStart(t, cfg)
	if dir := dirOf(t, srv.URL()); filepath.Dir(dir) != base {
		t.Errorf("data in %s, want it in %s", dir, base)
	}
	if err := srv.Stop(); err != nil {
		t.Error(err)
	}
}

func TestDurableAndParameters(t *testing.T) {
	t.Parallel()
	cfg := localConfig(newBase(t))
	cfg.Durable = true
	cfg.Parameters = map[string]string{"work_mem": "5MB", "full_page_writes": "off"}
	srv := mustStart(t, cfg)
	for setting, want := range map[string]string{
		"fsync": "on", "synchronous_commit": "on", "work_mem": "5MB", "full_page_writes": "off",
	} {
		if got := show(t, srv.URL(), setting); got != want {
			t.Errorf("%s = %q, want %q", setting, got, want)
		}
	}
	if err := srv.Stop(); err != nil {
		t.Error(err)
	}
}

// The port of the first try is taken; only a further try can succeed.
func TestListenTCP(t *testing.T) {
	t.Parallel()
	cfg := localConfig(newBase(t))
	cfg.ListenTCP = true
	taken := listener(t)
	tries := 0
	cfg.host.freePort = func() (int, error) {
		if tries++; tries == 1 {
			return taken, nil
		}
		return freePort()
	}
	srv := mustStart(t, cfg)
	if tries != 2 {
		t.Errorf("%d tries, want 2", tries)
	}
	pg, err := pgconn.ParseConfig(srv.URL())
	if err != nil {
		t.Fatal(err)
	}
	if pg.Host != "127.0.0.1" || pg.Password == "" {
		t.Errorf("URL() = %s", srv.URL())
	}
	if got := show(t, srv.URL(), "listen_addresses"); got != "127.0.0.1" {
		t.Errorf("listens on %q", got)
	}
	if err := srv.Stop(); err != nil {
		t.Error(err)
	}
}

func TestParallelStarts(t *testing.T) {
	t.Parallel()
	needBinaries(t)
	base := newBase(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			srv, err := Start(t.Context(), localConfig(base))
			if err != nil {
				t.Error(err)
				return
			}
			if err := srv.Stop(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestFailedStartShowsTheLog(t *testing.T) {
	t.Parallel()
	needBinaries(t)
	cfg := localConfig(newBase(t))
	cfg.Parameters = map[string]string{"fsync": "perhaps"}
	srv, err := Start(t.Context(), cfg)
	if err == nil {
		t.Fatal("started", srv.Stop())
	}
	for _, want := range []string{"devpg: PostgreSQL ", `parameter "fsync" requires a Boolean value`, EnvTestURL} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error lacks %q: %v", want, err)
		}
	}
}

func TestCancelledStart(t *testing.T) {
	t.Parallel()
	needBinaries(t)
	base := newBase(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		srv, err := Start(ctx, localConfig(base))
		if err == nil {
			err = errors.Join(errors.New("started"), srv.Stop())
		}
		done <- err
	}()
	eventually(t, "initdb at work", func() bool {
		found, _ := filepath.Glob(filepath.Join(base, "*", "data", "base"))
		return len(found) > 0
	})
	cancel()
	begin := time.Now()
	err := <-done
	t.Logf("given up after %s", time.Since(begin))
	if !errors.Is(err, context.Canceled) || !strings.HasPrefix(err.Error(), "devpg: ") {
		t.Errorf("error = %v, want context.Canceled", err)
	}
	if left := entries(t, base); len(left) > 0 {
		t.Errorf("left behind on return: %v", left)
	}
	_, err = Start(ctx, localConfig(base))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("with a cancelled context: error = %v", err)
	}
}

// Nothing but the cancellation ends this start.
func TestCancelledHungStart(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("/tmp", "devpg-test-") // everybody may enter
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	fakeInstall(t, dir, "17.5")
	hang := filepath.Join(dir, "initdb")
	if err := errors.Join(os.WriteFile(hang, []byte("#!/bin/sh\necho hanging >&2\nexec sleep 600\n"), 0o755), os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	base := newBase(t)
	cfg := &Config{host: host{getenv: noEnv, folders: []string{dir}, bases: []string{base}}}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := Start(ctx, cfg)
		done <- err
	}()
	eventually(t, "initdb hangs", func() bool {
		logs, _ := filepath.Glob(filepath.Join(base, "*", "log"))
		if len(logs) == 0 {
			return false
		}
		b, _ := os.ReadFile(logs[0])
		return strings.Contains(string(b), "hanging")
	})
	cancel()
	select {
	case err := <-done:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("error = %v, want context.Canceled", err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("still starting 30 s after the cancellation")
	}
}
