//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/txonce/txonce/internal/devpg"
)

// envRole makes the test binary withpg itself ("withpg"), or a command for
// withpg to run; see command.
const envRole = "WITHPG_TEST_ROLE"

func TestMain(m *testing.M) {
	switch role := os.Getenv(envRole); role {
	case "":
		goleak.VerifyTestMain(m)
	case "withpg":
		_ = os.Setenv(envRole, os.Getenv(envRole+"_COMMAND"))
		os.Exit(run(os.Args[1:], os.Stderr))
	default:
		os.Exit(command(role))
	}
}

// command is what withpg runs in these tests.
func command(role string) int {
	sigs := make(chan os.Signal, 8)
	signal.Notify(sigs, syscall.SIGTERM)
	fmt.Println("url", os.Getenv(devpg.EnvTestURL))
	if role == "wait" { // for a signal, which must find the server still there
		fmt.Println("signal", <-sigs)
	}
	conn, err := pgx.Connect(context.Background(), os.Getenv(devpg.EnvTestURL))
	if err != nil {
		fmt.Println("error", err)
		return 1
	}
	defer func() { _ = conn.Close(context.Background()) }()
	var connections string
	err = conn.QueryRow(context.Background(), "select current_setting('max_connections')").Scan(&connections)
	if err != nil {
		fmt.Println("error", err)
		return 1
	}
	fmt.Println("max_connections", connections)
	return 7
}

// withpg is a command that runs withpg with these arguments.
func withpg(t *testing.T, role string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(testBinary(t), args...)
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		if name != devpg.EnvTestURL && name != devpg.EnvURL {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, envRole+"=withpg", envRole+"_COMMAND="+role)
	return cmd
}

func testBinary(t *testing.T) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return exe
}

// result is what a run of withpg gave.
type result struct {
	stdout, stderr string
	status         int
}

// finish runs cmd to its end. Where there is no Postgres to start, the test is
// skipped.
func finish(t *testing.T, cmd *exec.Cmd) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	skipWithoutServer(t, stderr.String())
	return result{stdout.String(), stderr.String(), exitStatus(err)}
}

func skipWithoutServer(t *testing.T, stderr string) {
	t.Helper()
	if strings.Contains(stderr, "devpg: no PostgreSQL") {
		t.Skip(stderr)
	}
}

func TestNoCommand(t *testing.T) {
	t.Parallel()
	r := finish(t, withpg(t, ""))
	if r.status != 0 || r.stdout != "" || strings.Count(r.stderr, "\n") != 1 ||
		!strings.HasPrefix(r.stderr, "Postgres ") || !strings.Contains(r.stderr, ": ") {
		t.Errorf("got %+v; want one line on stderr", r)
	}
}

func TestCommand(t *testing.T) {
	t.Parallel()
	r := finish(t, withpg(t, "connect", "-param", "max_connections=30", "--", testBinary(t)))
	if r.status != 7 {
		t.Errorf("exit status %d, want the command's, 7: %s", r.status, r.stderr)
	}
	url, rest, _ := strings.Cut(r.stdout, "\n")
	if rest != "max_connections 30\n" {
		t.Errorf("the command said %q", r.stdout)
	}
	checkGone(t, strings.TrimPrefix(url, "url "))
}

// checkGone wants nothing to listen at the URL.
func checkGone(t *testing.T, url string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err == nil {
		_ = conn.Close(t.Context())
		t.Errorf("there is still a server at %q", url)
	}
}

func TestExitStatus(t *testing.T) {
	t.Parallel()
	srv, err := devpg.Start(t.Context(), nil) // one for all, for speed
	if err != nil {
		skipWithoutServer(t, err.Error())
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Stop() })
	for _, tt := range []struct {
		args []string
		want int
	}{
		{[]string{"--", "/bin/sh", "-c", "exit 0"}, 0},
		{[]string{"/bin/sh", "-c", "exit 42"}, 42},
		{[]string{"/bin/sh", "-c", "kill -KILL $$"}, 128 + 9},
		{[]string{"/nonexistent"}, 127},
		{[]string{"-nonsense"}, 2},
		{[]string{"-param", "nonsense"}, 2},
		{[]string{"-param", "port=1"}, 1},
	} {
		cmd := withpg(t, "", tt.args...)
		cmd.Env = append(cmd.Env, devpg.EnvURL+"="+srv.URL())
		if r := finish(t, cmd); r.status != tt.want {
			t.Errorf("%q: got %+v, want exit status %d", tt.args, r, tt.want)
		}
	}
}

func exitStatus(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	if err != nil {
		return -1
	}
	return 0
}

// The command gets the signal and ends by itself, with the server still there;
// then the server goes, and withpg.
func TestSignal(t *testing.T) {
	t.Parallel()
	cmd := withpg(t, "wait", testBinary(t))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	out := bufio.NewReader(stdout)
	url, err := out.ReadString('\n')
	if err != nil {
		_ = cmd.Wait()
		skipWithoutServer(t, stderr.String())
		t.Fatal(err, stderr.String())
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(out)
	if err != nil {
		t.Fatal(err)
	}
	if want := "signal terminated\nmax_connections 300\n"; string(rest) != want {
		t.Errorf("the command said %q, want %q", rest, want)
	}
	if got := exitStatus(cmd.Wait()); got != 7 {
		t.Errorf("exit status %d, want the command's, 7", got)
	}
	checkGone(t, strings.TrimSpace(strings.TrimPrefix(url, "url ")))
}

func TestSignalDuringStart(t *testing.T) {
	t.Parallel()
	url, connected := silentURL(t) // keeps the start busy
	cmd := withpg(t, "connect", "--", testBinary(t))
	cmd.Env = append(cmd.Env, devpg.EnvURL+"="+url)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-connected
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if got := exitStatus(cmd.Wait()); got != 128+15 || !strings.Contains(stderr.String(), "got signal: terminated") {
		t.Errorf("exit status %d, output %s", got, stderr.String())
	}
	if took := time.Since(begin); took > 8*time.Second {
		t.Errorf("took %s, as if nobody had given up", took)
	}
}
