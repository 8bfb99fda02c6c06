//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package devpg

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fakeInstall makes a folder with programs that only state a version.
func fakeInstall(t *testing.T, dir, version string) string {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf("#!/bin/sh\necho 'postgres (PostgreSQL) %s (Fake)'\n", version)
	for _, program := range []string{"postgres", "initdb"} {
		if err := os.WriteFile(filepath.Join(dir, program), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// self is an account that runs programs as whoever runs the tests.
func self() account { return account{name: "self"} }

func TestFindBinaries(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	old := fakeInstall(t, filepath.Join(root, "lib/9.6/bin"), "9.6.24")
	fakeInstall(t, filepath.Join(root, "lib/14/bin"), "14.1")
	newest := fakeInstall(t, filepath.Join(root, "lib/17/bin"), "17.5")
	elsewhere := fakeInstall(t, filepath.Join(root, "opt/16/bin"), "16.9")
	path := filepath.Join(root, "path")
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(elsewhere, "postgres"), filepath.Join(path, "postgres")); err != nil {
		t.Fatal(err)
	}
	folders := []string{filepath.Join(root, "nothing/*"), filepath.Join(root, "lib/*/bin")}
	for _, tt := range []struct {
		name, path  string
		dir, text   string
		rejectedOne string
	}{
		{"newest of the folders", "", newest, "17.5", ""},
		{"a link in PATH wins", path, elsewhere, "16.9", ""},
		{"too old in PATH", old + ":" + filepath.Join(root, "none"), newest, "17.5", old},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cfg := &Config{host: host{getenv: env("PATH", tt.path), folders: folders}}
			bin, rejected, err := findBinaries(t.Context(), cfg, self())
			if err != nil || bin.dir != tt.dir || bin.version.text != tt.text {
				t.Errorf("found %+v, %v; want %s", bin, err, tt.dir)
			}
			if text := strings.Join(rejected, ";"); !strings.Contains(text, tt.rejectedOne) || (text == "") != (tt.rejectedOne == "") {
				t.Errorf("rejected %q, want %q", text, tt.rejectedOne)
			}
		})
	}
}

func TestNumbers(t *testing.T) {
	t.Parallel()
	if d := cmp.Diff([]int{9, 6}, numbers("/usr/lib/postgresql/9.6/bin")); d != "" {
		t.Error(d)
	}
}

func TestNoBinaries(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	tools := filepath.Join(root, "tools")
	if err := os.Mkdir(tools, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(tools, "apt-get"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	old := fakeInstall(t, filepath.Join(root, "13/bin"), "13.4")
	closed, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	cfg := &Config{host: host{
		getenv:     env("PATH", tools),
		folders:    []string{filepath.Join(root, "*/bin")},
		repository: fmt.Sprintf("http://127.0.0.1:%d", closed),
		cache:      filepath.Join(root, "cache"),
	}}
	_, err = Start(t.Context(), cfg)
	if err == nil {
		t.Fatal("no error")
	}
	want := []string{
		"devpg: no PostgreSQL 14 or newer found", EnvTestURL, EnvURL, "(apt-get install postgresql)",
		"looked in PATH, " + cfg.host.folders[0], "not used: " + old, "download: embedded-postgres",
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error lacks %q: %v", w, err)
		}
	}
}
