//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package devpg

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// leftover makes a directory as a server with killed processes leaves it.
func leftover(t *testing.T, base string, who account) string {
	t.Helper()
	w, err := makeWorkDir(base, who)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.writeFile("log", "killed", who); err != nil {
		t.Fatal(err)
	}
	if err := w.lock.Close(); err != nil {
		t.Fatal(err)
	}
	return w.path
}

func TestStartSweepsLeftovers(t *testing.T) {
	t.Parallel()
	who, err := serverAccount()
	if err != nil {
		t.Fatal(err)
	}
	base := newBase(t)
	dead := leftover(t, base, who)
	living := mustStart(t, localConfig(base))
	if _, err := os.Stat(dead); !os.IsNotExist(err) {
		t.Errorf("leftover still there: %v", err)
	}
	// The next start must not take the living server for a leftover.
	other := mustStart(t, localConfig(base))
	show(t, living.URL(), "port")
	for _, srv := range []*Server{living, other} {
		if err := srv.Stop(); err != nil {
			t.Error(err)
		}
	}
}

func TestSweepLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	make := func(name string) string {
		dir := filepath.Join(base, name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	fresh, stale, foreign, linked := make(dirPrefix+"fresh"), make(dirPrefix+"stale"), make("foreign"), make(dirPrefix+"linked")
	long := time.Now().Add(-2 * sweepAge)
	target := filepath.Join(base, "target")
	link := filepath.Join(base, dirPrefix+"link")
	for _, err := range []error{
		os.Chtimes(stale, long, long), // killed before it had its lock
		os.WriteFile(filepath.Join(foreign, lockName), nil, 0o600),
		os.WriteFile(target, nil, 0o600),
		os.Symlink(target, filepath.Join(linked, lockName)),
		os.Symlink(foreign, link),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	sweep(base, slog.New(slog.DiscardHandler))
	for path, want := range map[string]bool{fresh: true, stale: false, foreign: true, linked: true, link: true, target: true} {
		if _, err := os.Lstat(path); (err == nil) != want {
			t.Errorf("%s: there = %v, want %v", path, err == nil, want)
		}
	}
}
