//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package devpg

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"
)

// envHelper makes the test binary a program that starts a server and then does
// what the value says; see helper.
const envHelper = "DEVPG_TEST_HELPER"

func TestMain(m *testing.M) {
	if mode := os.Getenv(envHelper); mode != "" {
		os.Exit(helper(mode))
	}
	goleak.VerifyTestMain(m)
}

// started is what a helper prints about its server.
type started struct {
	URL     string
	Version string
	Source  string
	PID     int
	Keeper  int
	Pooler  int
	Err     string
}

// helper starts a server in the base directory that is its first argument,
// reports it, waits for standard input to end and ends itself as told.
func helper(mode string) int {
	cfg := localConfig(os.Args[1])
	if mode == "download" {
		cfg.host.folders, cfg.host.getenv = []string{}, noEnv
		cfg.host.repository, cfg.host.cache = os.Args[2], os.Args[3]
	}
	srv, err := Start(context.Background(), cfg)
	var report started
	if err != nil {
		report.Err = err.Error()
	} else {
		report = started{URL: srv.URL(), Version: srv.Version(), Source: srv.Source(), PID: srv.PID()}
		if k, ok := srv.own.(interface{ keeperPID() int }); ok {
			report.Keeper = k.keeperPID()
		}
		if len(os.Args) > 2 && os.Args[2] == "pooler" {
			if p, err := poolerAt(context.Background(), srv, os.Args[1]); err != nil {
				report.Err = err.Error()
			} else {
				report.Pooler = p.PID()
			}
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(report); err != nil {
		return 1
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	if mode == "exit" {
		return 3
	}
	if srv != nil {
		if err := srv.Stop(); err != nil {
			return 1
		}
	}
	return 0
}

// process is a helper that runs.
type process struct {
	cmd   *exec.Cmd
	stdin io.Closer
	out   *bufio.Reader
}

// startHelper starts binary as a helper; set may change the command before.
func startHelper(t *testing.T, binary, mode string, set func(*exec.Cmd), args ...string) *process {
	t.Helper()
	cmd := exec.Command(binary, args...)
	cmd.Env = append(os.Environ(), envHelper+"="+mode)
	if set != nil {
		set(cmd)
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: cmd, stdin: stdin, out: bufio.NewReader(stdout)}
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it fails if the test has waited
		_ = p.cmd.Wait()
	})
	return p
}

// report waits until the helper has started its server.
func (p *process) report(t *testing.T) started {
	t.Helper()
	var s started
	line, err := p.out.ReadBytes('\n')
	if err != nil {
		t.Fatalf("helper said nothing: %v", err)
	}
	if err := json.Unmarshal(line, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// testBinary is the path of this program.
func testBinary(t *testing.T) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return exe
}

// localConfig uses local binaries only, whatever URLs the environment holds.
func localConfig(base string) *Config {
	cfg := &Config{host: host{getenv: onlyPath}}
	if base != "" {
		cfg.host.bases = []string{base}
	}
	return cfg
}

func onlyPath(name string) string {
	if name == "PATH" {
		return os.Getenv(name)
	}
	return ""
}

func noEnv(string) string { return "" }

// newBase makes a directory for servers that everybody may write to, with
// short paths, unlike t.TempDir. It is empty again when the test ends.
func newBase(t *testing.T) string {
	t.Helper()
	base, err := os.MkdirTemp(dataBases(false)[0], "devpg-test-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(base, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if left := entries(t, base); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
		if err := os.RemoveAll(base); err != nil {
			t.Error(err)
		}
	})
	return base
}

func entries(t *testing.T, dir string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// needBinaries skips tests of servers that we start where only a URL is given.
func needBinaries(t *testing.T) {
	t.Helper()
	if len(candidates(host{getenv: onlyPath, folders: installFolders()})) == 0 {
		t.Skip("no local server binaries")
	}
}

// mustStart starts a server that the test's end stops.
func mustStart(t *testing.T, cfg *Config) *Server {
	t.Helper()
	needBinaries(t)
	srv, err := Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Stop() }) // tests that care have stopped it
	return srv
}

// show asks the server at address for one of its settings.
func show(t *testing.T, address, setting string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	var value string
	if err := conn.QueryRow(t.Context(), "select current_setting($1)", setting).Scan(&value); err != nil {
		t.Fatal(err)
	}
	return value
}

// dirOf returns the directory of a server that listens on a socket.
func dirOf(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	dir := u.Query().Get("host")
	if !filepath.IsAbs(dir) {
		t.Fatalf("no socket directory in %s", address)
	}
	return dir
}

// eventually waits for a condition that no channel announces.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(30 * time.Second)
	for !cond() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("not within 30 s: %s", what)
		}
	}
}
