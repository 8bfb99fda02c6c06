//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package devpg

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	embeddedpostgres "github.com/fergusstrange/embedded-postgres"
)

const (
	embeddedVersion = embeddedpostgres.V17
	lockPoll        = 100 * time.Millisecond

	// unpackedError begins the error of the step that follows unpacking.
	unpackedError = "could not start postgres"
)

// fetchBinaries returns server binaries that embedded-postgres downloads, or
// downloaded at an earlier time. Running them is left to our keeper, which
// needs no free port and cleans up behind a killed parent.
func fetchBinaries(ctx context.Context, c *Config, who account) (binaries, error) {
	if who.dropped {
		return binaries{}, errors.New("embedded-postgres downloads for ordinary users only, and this is root")
	}
	cache, err := cacheDir(c.host)
	if err != nil {
		return binaries{}, err
	}
	unlock, err := lockCache(ctx, cache)
	if err != nil {
		return binaries{}, err
	}
	home := filepath.Join(cache, "postgres-"+string(embeddedVersion))
	bin := filepath.Join(home, "bin")
	if hasServer(bin) {
		unlock()
	} else {
		c.Logger.Info("devpg: downloading PostgreSQL with embedded-postgres", "version", string(embeddedVersion), "to", home)
		done := make(chan error, 1)
		go func() { // it knows no context: when given up, it ends by itself
			defer unlock()
			done <- download(c.host, cache, home)
		}()
		select {
		case err = <-done:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		if err != nil {
			return binaries{}, err
		}
	}
	v, err := versionOf(ctx, bin, who)
	if err != nil {
		return binaries{}, fmt.Errorf("%s: %w", bin, err)
	}
	return binaries{dir: bin, version: v, origin: "downloaded by embedded-postgres to " + home}, nil
}

func cacheDir(h host) (string, error) {
	if h.cache != "" {
		return h.cache, os.MkdirAll(h.cache, 0o755)
	}
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no place for a download: %w", err)
	}
	cache := filepath.Join(base, "txonce-devpg")
	return cache, os.MkdirAll(cache, 0o755)
}

// lockCache makes processes that need the same download wait for the first.
func lockCache(ctx context.Context, cache string) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(cache, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	tick := time.NewTicker(lockPoll)
	defer tick.Stop()
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			_ = f.Close()
			return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			_ = f.Close()
			return nil, context.Cause(ctx)
		}
	}
}

// download unpacks binaries beside home and puts them in place in one step.
// embedded-postgres has no call that only downloads, so it gets a data
// directory that no server starts on, and gets as far as that.
func download(h host, cache, home string) error {
	partial := home + ".partial"
	if err := os.RemoveAll(partial); err != nil { // of a download that was killed
		return err
	}
	defer func() { _ = os.RemoveAll(partial) }()
	data := filepath.Join(partial, "data")
	if err := os.MkdirAll(data, 0o700); err != nil {
		return err
	}
	major, _, _ := strings.Cut(string(embeddedVersion), ".")
	if err := os.WriteFile(filepath.Join(data, "PG_VERSION"), []byte(major+"\n"), 0o600); err != nil {
		return err
	}
	tree := filepath.Join(partial, "tree")
	cfg := embeddedpostgres.DefaultConfig().Version(embeddedVersion).Logger(io.Discard).
		Port(0). // any: nothing will listen
		CachePath(filepath.Join(partial, "archive")).BinariesPath(tree).
		RuntimePath(filepath.Join(partial, "runtime")).DataPath(data)
	if h.repository != "" {
		cfg = cfg.BinaryRepositoryURL(h.repository)
	}
	db := embeddedpostgres.NewDatabase(cfg)
	err := db.Start()
	http.DefaultClient.CloseIdleConnections() // it leaves some behind
	removeEmbeddedLogs(partial)
	runtime.KeepAlive(db) // and with it the open file of its log
	if err != nil && !strings.HasPrefix(err.Error(), unpackedError) {
		return fmt.Errorf("embedded-postgres: %w", err)
	}
	if !hasServer(filepath.Join(tree, "bin")) {
		return fmt.Errorf("embedded-postgres: its archive of version %s has no server", embeddedVersion)
	}
	if err := os.RemoveAll(home); err != nil { // it has no server, says the caller
		return err
	}
	return os.Rename(tree, home)
}

// removeEmbeddedLogs removes the log file that embedded-postgres leaves in the
// temporary directory: this process has it open, or it names our directory.
func removeEmbeddedLogs(partial string) {
	pattern := filepath.Join(os.TempDir(), "embedded_postgres_log*")
	open, _ := filepath.Glob("/proc/self/fd/*") // none on systems other than Linux
	for _, fd := range open {
		target, err := os.Readlink(fd)
		if ours, _ := filepath.Match(pattern, target); err == nil && ours {
			_ = os.Remove(target)
		}
	}
	logs, _ := filepath.Glob(pattern)
	for _, log := range logs {
		if b, err := os.ReadFile(log); err == nil && strings.Contains(string(b), partial) {
			_ = os.Remove(log)
		}
	}
}
