// Package demo tests the demo as a person meets it: a program that is started, interrupted and given wrong input.
package demo

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// build returns the program that `make demo` runs.
func build(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "quickstart")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", program, "github.com/txonce/txonce/examples/quickstart")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// ended says how a program ended.
type ended struct {
	status         int
	stdout, stderr string
}

func run(t *testing.T, cmd *exec.Cmd) ended {
	t.Helper()
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return ended{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// withoutURL is the environment of a machine that names no database.
func withoutURL(extra ...string) []string {
	var env []string
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "DATABASE_URL=") && !strings.HasPrefix(e, "TXONCE_TEST_DATABASE_URL=") {
			env = append(env, e)
		}
	}
	return append(env, extra...)
}

func TestDemo_Q05_ProtectedSucceedsAndUnprotectedFails(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("the demo, twice; not with -short, for make demo is that")
	}
	program := build(t)
	line := regexp.MustCompile(`\ndemo: webhooks=\d+ attempts=\d+ accepted=\d+ duplicates=(\d+) lost=\d+\ndemo: calls=\d+ intents=\d+ effects=\d+ replays=\d+ in_progress=\d+ duplicates=(\d+) lost=(\d+)\n$`)
	for _, c := range []struct {
		args   []string
		status int
		none   bool
	}{
		{[]string{"-seed", "7"}, 0, true},
		{[]string{"-seed", "7", "-unprotected"}, 1, false},
	} {
		got := run(t, exec.CommandContext(t.Context(), program, c.args...))
		found := line.FindStringSubmatch(got.stdout)
		if got.status != c.status || found == nil || (found[1] == "0") != c.none || (found[2] == "0") != c.none {
			t.Errorf("%q: exit status %d, want %d, and the last two lines to say so:\n%s\n%s", c.args, got.status, c.status, got.stdout, got.stderr)
		}
	}
}

func TestDemo_Q05_InterruptLeavesNothing(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), build(t))
	cmd.Env = withoutURL()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := stdout.Read(make([]byte, 1)); err != nil { // the heading: its server runs
		t.Fatal(err)
	}
	children := childrenOf(t, cmd.Process.Pid)
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, stdout)
	_ = cmd.Wait()
	if status := cmd.ProcessState.ExitCode(); status != 130 {
		t.Errorf("exit status %d, want 130", status)
	}
	for _, pid := range children { // the server's keeper, which ends when all is gone
		for deadline := time.Now().Add(20 * time.Second); !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH); {
			if time.Now().After(deadline) {
				t.Fatalf("process %d is left behind", pid)
			}
			<-time.After(10 * time.Millisecond)
		}
	}
}

func childrenOf(t *testing.T, pid int) (children []int) {
	t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		list, _ := os.ReadFile(task) // a thread may have ended
		for _, field := range strings.Fields(string(list)) {
			if child, err := strconv.Atoi(field); err == nil {
				children = append(children, child)
			}
		}
	}
	if len(children) == 0 && len(tasks) > 0 {
		t.Error("the program has no child: is this still how it starts its server?")
	}
	return children
}

func TestDemo_Q05_WrongInputIsExplained(t *testing.T) {
	t.Parallel()
	program := build(t)
	for _, c := range []struct{ url, says string }{
		{"postgres://nobody@127.0.0.1:1/none", "start that server, or correct host and port"},
		{"mysql://x", "DATABASE_URL"},
	} {
		cmd := exec.CommandContext(t.Context(), program)
		cmd.Env = withoutURL("DATABASE_URL=" + c.url)
		got := run(t, cmd)
		if got.status != 1 || !strings.Contains(got.stderr, c.says) || strings.Contains(got.stderr, "goroutine") || strings.Count(got.stderr, "\n") > 2 {
			t.Errorf("%s: exit status %d\n%s", c.url, got.status, got.stderr)
		}
	}
}
