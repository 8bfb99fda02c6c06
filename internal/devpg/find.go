//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package devpg

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// binaries is a folder with the programs of a PostgreSQL server.
type binaries struct {
	dir     string
	version serverVersion
	origin  string // for Server.Source: where the folder comes from
}

// installFolders are where packages and installers put PostgreSQL. The shell
// script scripts/setup.sh has the same list.
func installFolders() []string {
	return []string{
		"/usr/lib/postgresql/*/bin",
		"/usr/lib/postgresql[0-9]*/bin",
		"/usr/libexec/postgresql[0-9]*",
		"/usr/pgsql-*/bin",
		"/opt/homebrew/opt/postgresql*/bin",
		"/usr/local/opt/postgresql*/bin",
		"/usr/local/pgsql/bin",
		"/Applications/Postgres.app/Contents/Versions/*/bin",
	}
}

// findBinaries returns the first folder with a server that is new enough and
// that who can run. The strings say why others were not taken.
func findBinaries(ctx context.Context, c *Config, who account) (binaries, []string, error) {
	var rejected []string
	for _, dir := range candidates(c.host) {
		v, err := versionOf(ctx, dir, who)
		if ctx.Err() != nil {
			return binaries{}, nil, fmt.Errorf("devpg: looking for PostgreSQL: %w", context.Cause(ctx))
		}
		if err == nil {
			err = v.check()
		}
		if err != nil {
			rejected = append(rejected, dir+": "+err.Error())
			continue
		}
		return binaries{dir: dir, version: v, origin: "local server binaries in " + dir}, rejected, nil
	}
	return binaries{}, rejected, nil
}

// candidates lists folders that hold a server, those in PATH first.
func candidates(h host) []string {
	var dirs []string
	add := func(dir string) {
		if hasServer(dir) && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	for _, dir := range filepath.SplitList(h.getenv("PATH")) {
		// A link in PATH leads to the folder that has the rest of the server.
		path, err := filepath.EvalSymlinks(filepath.Join(dir, "postgres"))
		if err == nil && filepath.IsAbs(path) {
			add(filepath.Dir(path))
		}
	}
	for _, pattern := range h.folders {
		found, _ := filepath.Glob(pattern) // fails on bad patterns only
		slices.SortStableFunc(found, func(a, b string) int {
			return slices.Compare(numbers(b), numbers(a))
		})
		for _, dir := range found {
			add(dir)
		}
	}
	return dirs
}

func hasServer(dir string) bool {
	for _, program := range []string{"postgres", "initdb"} {
		info, err := os.Stat(filepath.Join(dir, program))
		if err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
			return false
		}
	}
	return true
}

// numbers returns the numbers in a path, so that 17 sorts after 9.6.
func numbers(path string) []int {
	var ns []int
	for _, s := range regexp.MustCompile(`[0-9]+`).FindAllString(path, -1) {
		if n, err := strconv.Atoi(s); err == nil {
			ns = append(ns, n)
		}
	}
	return ns
}

// versionOf asks the server program in dir, as the user who would run it.
func versionOf(ctx context.Context, dir string, who account) (serverVersion, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(dir, "postgres"), "--version")
	cmd.Dir = "/"
	cmd.Env = serverEnv()
	cmd.SysProcAttr = who.sysProcAttr(false)
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) && len(exit.Stderr) > 0 {
			err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
		}
		return serverVersion{}, fmt.Errorf("user %s cannot run it: %w", who.name, err)
	}
	return parseVersion(string(out))
}

// missingError says what was looked for and how to get a server.
func missingError(c *Config, rejected []string, downloadErr error) error {
	var b strings.Builder
	fmt.Fprintf(&b, "devpg: no PostgreSQL %d or newer found: set %s or %s to the URL of a running server, or install one (%s)",
		minMajor, EnvTestURL, EnvURL, installHint(c.host))
	fmt.Fprintf(&b, "; looked in PATH, %s", strings.Join(c.host.folders, ", "))
	for _, r := range rejected {
		fmt.Fprintf(&b, "; not used: %s", r)
	}
	return fmt.Errorf("%s; download: %w", b.String(), downloadErr)
}

// installHint names the command of the package manager that is at hand.
func installHint(h host) string {
	for _, p := range [][2]string{
		{"apt-get", "apt-get install postgresql"},
		{"dnf", "dnf install postgresql-server"},
		{"apk", "apk add postgresql"},
		{"brew", "brew install postgresql@17"},
	} {
		for _, dir := range filepath.SplitList(h.getenv("PATH")) {
			if _, err := os.Stat(filepath.Join(dir, p[0])); err == nil {
				return p[1]
			}
		}
	}
	if runtime.GOOS == "darwin" {
		return "brew install postgresql@17"
	}
	return "on Debian: apt-get install postgresql"
}
