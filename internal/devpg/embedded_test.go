//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package devpg

import (
	"archive/zip"
	"context"
	"errors"
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

// A Maven repository of our own serves the local binaries, in the form in which
// embedded-postgres expects them.
func TestDownload(t *testing.T) {
	t.Parallel()
	needBinaries(t)
	binary, as := testBinary(t), func(cmd *exec.Cmd) {}
	if os.Geteuid() == 0 {
		binary, as = asNobody(t)
	}
	jar := packBinaries(t)
	var downloads atomic.Int32
	repository := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, ".jar") {
			http.NotFound(w, r) // no checksum
			return
		}
		downloads.Add(1)
		http.ServeFile(w, r, jar)
	}))
	defer repository.Close()
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
			}, base, repository.URL, cache))
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

// packBinaries makes the archive; its directory is open to everybody.
func packBinaries(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("xz"); err != nil {
		t.Skip("no xz to pack an archive with")
	}
	dirs := candidates(host{getenv: onlyPath, folders: installFolders()})
	bin := dirs[0]
	const debian = "/usr/lib/postgresql/"
	if !strings.HasPrefix(bin, debian) {
		t.Skip("knows how to pack Debian's binaries only")
	}
	version := filepath.Base(filepath.Dir(bin))
	dir, err := os.MkdirTemp("/tmp", "devpg-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	script := `set -eu
chmod 0777 .
mkdir -p tree/lib/postgresql/$1 tree/share/postgresql
cp -aL /usr/lib/postgresql/$1/bin /usr/lib/postgresql/$1/lib tree/lib/postgresql/$1/
rm -rf tree/lib/postgresql/$1/lib/bitcode
cp -aL /usr/share/postgresql/$1 tree/share/postgresql/
ln -s lib/postgresql/$1/bin tree/bin
tar -C tree --sort=name -cf - bin lib share | xz -0 -T0 > binaries.txz
rm -rf tree`
	cmd := exec.Command("/bin/sh", "-c", script, "pack", version)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("pack: %v: %s", err, out)
	}
	return zipped(t, filepath.Join(dir, "binaries.txz"))
}

func zipped(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	jar, err := os.Create(strings.TrimSuffix(file, ".txz") + ".jar")
	if err != nil {
		t.Fatal(err)
	}
	z := zip.NewWriter(jar)
	w, err := z.CreateHeader(&zip.FileHeader{Name: filepath.Base(file)}) // stored
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.Write(content)
	if err := errors.Join(err, z.Close(), jar.Close()); err != nil {
		t.Fatal(err)
	}
	return jar.Name()
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
