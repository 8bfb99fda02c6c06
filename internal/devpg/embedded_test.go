//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package devpg

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// A repository of our own serves the local binaries, in the form in which
// embedded-postgres expects them.
func TestDownload(t *testing.T) {
	t.Parallel()
	needBinaries(t)
	binary, as := testBinary(t), func(cmd *exec.Cmd) {}
	if os.Geteuid() == 0 {
		binary, as = asNobody(t)
	}
	jar := packBinaries(t, math.MaxInt)
	var downloads atomic.Int32
	repository := serveJar(t, jar, &downloads)
	base := newBase(t)
	cache := filepath.Join(filepath.Dir(jar), "cache")
	tmp := filepath.Join(filepath.Dir(jar), "tmp")
	if err := errors.Join(os.Mkdir(tmp, 0o777), os.Chmod(tmp, 0o777)); err != nil {
		t.Fatal(err)
	}
	// Two at once share one download, a third finds it in the cache.
	run := func(n int) {
		var helpers []*process
		for range n {
			helpers = append(helpers, startHelper(t, binary, "download", func(cmd *exec.Cmd) {
				as(cmd)
				cmd.Env = append(cmd.Env, "TMPDIR="+tmp)
			}, base, repository, cache))
		}
		for _, p := range helpers {
			s := p.report(t)
			if s.Err != "" || !strings.HasPrefix(s.Source, "downloaded by embedded-postgres to "+cache) {
				t.Errorf("got %q, error %s", s.Source, s.Err)
			}
			_ = p.stdin.Close()
			if err := p.cmd.Wait(); err != nil {
				t.Error(err)
			}
		}
	}
	run(2)
	run(1)
	if n := downloads.Load(); n != 1 {
		t.Errorf("%d downloads, want 1", n)
	}
	if left := append(entries(t, tmp), entries(t, filepath.Join(cache, "*.partial"))...); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// serveJar is a repository; it has no checksums.
func serveJar(t *testing.T, jar string, downloads *atomic.Int32) (address string) {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, ".jar") {
			http.NotFound(w, r)
			return
		}
		downloads.Add(1)
		http.ServeFile(w, r, jar)
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

// packBinaries makes the archive, of programs that call the local ones, and
// returns the first size bytes of it, or all. Its directory is open to everybody.
func packBinaries(t *testing.T, size int) (jar string) {
	t.Helper()
	if _, err := exec.LookPath("xz"); err != nil {
		t.Skip("no xz to pack an archive with")
	}
	local := candidates(host{getenv: onlyPath, folders: installFolders()})[0]
	dir, err := os.MkdirTemp("/tmp", "devpg-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	script := `set -eu
chmod 0777 .
mkdir -m 0755 tree tree/bin
for p in postgres initdb pg_ctl; do
	printf '#!/bin/sh\nexec %s/%s "$@"\n' "$1" "$p" >tree/bin/$p
	chmod 0755 tree/bin/$p
done
mkdir -m 0755 tree/share
head -c 200000 /dev/urandom >tree/share/noise
tar -C tree -cf - bin share | xz -0 >binaries.txz`
	cmd := exec.Command("/bin/sh", "-c", script, "pack", local)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("pack: %v: %s", err, out)
	}
	content, err := os.ReadFile(filepath.Join(dir, "binaries.txz"))
	if err != nil {
		t.Fatal(err)
	}
	jar = filepath.Join(dir, "binaries.jar")
	zipFile(t, jar, content[:min(size, len(content))])
	return jar
}

func zipFile(t *testing.T, jar string, content []byte) {
	t.Helper()
	var buf bytes.Buffer
	z := zip.NewWriter(&buf)
	w, err := z.Create("binaries.txz")
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.Write(content)
	if err := errors.Join(err, z.Close(), os.WriteFile(jar, buf.Bytes(), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// Programs that lie there are not enough, if unpacking stopped behind them.
func TestBrokenDownload(t *testing.T) {
	t.Parallel()
	needBinaries(t)
	jar := packBinaries(t, 100_000)
	repository := serveJar(t, jar, new(atomic.Int32))
	cfg, err := (&Config{host: host{repository: repository, cache: t.TempDir()}}).withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	bin, err := fetchBinaries(t.Context(), cfg, self())
	if err == nil {
		t.Errorf("got %+v, want an error", bin)
	}
	if left := entries(t, cfg.host.cache); len(left) != 1 { // the lock
		t.Errorf("left behind: %v", left)
	}
}

// A repository that does not answer must not hold up a cancelled Start.
func TestCancelledDownload(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	release := make(chan struct{})
	repository := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cancel()
		<-release
		http.NotFound(w, r)
	}))
	cache := t.TempDir()
	cfg := &Config{host: host{repository: repository.URL, cache: cache}}
	cfg, err := cfg.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	_, err = fetchBinaries(ctx, cfg, self())
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v, want context.Canceled", err)
	}
	// The lock of the cache is free when the download has ended.
	soon, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	if _, err := lockCache(soon, cache); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("lock during the download: %v", err)
	}
	close(release)
	unlock, err := lockCache(t.Context(), cache)
	if err != nil {
		t.Fatal(err)
	}
	unlock()
	repository.Close()
}

func TestRootDoesNotDownload(t *testing.T) {
	t.Parallel()
	_, err := fetchBinaries(t.Context(), localConfig(""), account{name: "nobody", dropped: true})
	if err == nil || !strings.Contains(err.Error(), "this is root") {
		t.Errorf("error = %v", err)
	}
}
