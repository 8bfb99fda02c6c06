package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/internal/dbtest"
)

// program is the whole example on a database of its own, run as a person runs it.
type program struct {
	*exec.Cmd
	t      *testing.T
	url    string
	stdout *bufio.Scanner
	stderr strings.Builder
	said   strings.Builder
}

func startProgram(t *testing.T, args ...string) *program {
	t.Helper()
	p := &program{t: t, url: dbtest.URL(t)}
	p.Cmd = exec.CommandContext(t.Context(), os.Args[0], args...)
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "TXONCE_TEST_DATABASE_URL=") {
			p.Env = append(p.Env, v)
		}
	}
	p.Env = append(p.Env, childVariable+"=1", "DATABASE_URL="+p.url)
	p.Stderr = &p.stderr
	out, err := p.StdoutPipe()
	if err == nil {
		err = p.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	p.stdout = bufio.NewScanner(out)
	return p
}

// readTo reads what the program says, to the line with the text, or to the end. One that hangs is killed.
func (p *program) readTo(text string) {
	p.t.Helper()
	hang := 2 * time.Minute
	if text == "" {
		hang = 5 * time.Minute
	}
	defer time.AfterFunc(hang, func() { _ = p.Process.Kill() }).Stop()
	for p.stdout.Scan() {
		p.said.WriteString(p.stdout.Text() + "\n")
		if text != "" && strings.Contains(p.stdout.Text(), text) {
			return
		}
	}
	if text != "" {
		p.t.Fatalf("it did not say %q:\n%s%s", text, &p.said, &p.stderr)
	}
}

// end reads to the end, and wants the exit status. Nothing may be left then: no process, no schema.
func (p *program) end(status int) string {
	p.t.Helper()
	p.readTo("")
	_ = p.Wait()
	said := p.said.String()
	if got := p.ProcessState.ExitCode(); got != status {
		p.t.Errorf("exit status %d, want %d:\n%s%s", got, status, said, &p.stderr)
	}
	p.childrenAreGone()
	if left := schemasLeft(p.t, p.url); left != 0 && status >= 0 {
		p.t.Errorf("%d schemas are left", left)
	}
	return said
}

// childrenAreGone waits for the end of all processes that the program has told of.
func (p *program) childrenAreGone() {
	p.t.Helper()
	pids := regexp.MustCompile(`\bpid (\d+)`).FindAllStringSubmatch(p.said.String(), -1)
	for _, match := range pids {
		pid, err := strconv.Atoi(match[1])
		if err != nil {
			p.t.Fatal(err)
		}
		for end := time.Now().Add(time.Minute); !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				p.t.Fatalf("process %d is left behind", pid)
			}
		}
	}
}

func schemasLeft(t *testing.T, url string) (n int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	if err := conn.QueryRow(t.Context(), `select count(*) from pg_namespace where nspname like 'txonce\_reports%'`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestAll_J02_J04_J09_ReportsComeOutOnceWhateverIsKilled is the example, briefly: the program kills its own processes, a worker
// first. Each other order loses an answer.
func TestAll_J02_J04_J09_ReportsComeOutOnceWhateverIsKilled(t *testing.T) {
	t.Parallel()
	const orders = 5
	said := startProgram(t, "-orders", strconv.Itoa(orders), "-every", "500ms", "-takes", "1500ms", "-lease", "2s", "-kill").end(exitGood)
	lines := strings.Split(strings.TrimSpace(said), "\n")
	var got tally
	_, err := fmt.Sscanf(lines[len(lines)-1], "reports: ordered=%d calls=%d jobs=%d done=%d cancelled=%d duplicates=%d",
		&got.ordered, &got.calls, &got.jobs, &got.done, &got.cancelled, &got.duplicates)
	if err != nil {
		t.Fatalf("the last line: %v\n%s", err, said)
	}
	if got.ordered != orders || got.calls < orders+orders/2 || got.jobs != orders || got.done != orders || got.cancelled != 0 || got.duplicates != 0 {
		t.Errorf("%+v\n%s", got, said)
	}
	for _, form := range []string{`worker [ab] \(pid \d+\) is gone: signal: killed`, `R-002: call \d+ has no answer \(the network lost it\)`} {
		if !regexp.MustCompile(form).MatchString(said) {
			t.Errorf("it did not say %q:\n%s", form, said)
		}
	}
}

// TestAll_J09_WhatDiesIsStartedAgain, and a server at the address that it had.
func TestAll_J09_WhatDiesIsStartedAgain(t *testing.T) {
	t.Parallel()
	p := startProgram(t, "-orders", "0", "-every", "1s", "-takes", "1m")
	p.readTo("running")
	for _, member := range []string{"server", "worker a", "worker b", "River UI"} {
		was := regexp.MustCompile(`(?m)` + member + ` +pid (\d+) *(|http://127\.0\.0\.1:\d+/.*)$`).FindStringSubmatch(p.said.String())
		if was == nil {
			t.Fatalf("no process %q:\n%s", member, &p.said)
		}
		if pid, err := strconv.Atoi(was[1]); err != nil || syscall.Kill(pid, syscall.SIGKILL) != nil {
			t.Fatalf("%s cannot be killed (%v)", was[0], err)
		}
		p.readTo(member + " runs again as pid")
		if !strings.HasSuffix(p.said.String(), " s "+was[2]+"\n") {
			t.Errorf("%s was at %q:\n%s", member, was[2], &p.said)
		}
	}
	p.readTo(": answered in") // by the new server
	if err := p.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	p.end(exitInterrupted)
}

func TestAll_InterruptLeavesNothing(t *testing.T) {
	t.Parallel()
	p := startProgram(t, "-orders", "0", "-takes", "1m")
	p.readTo("running") // a report is under way
	if err := p.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	p.end(exitInterrupted)
}

// TestAll_ChildrenEndWithTheirParent: it is killed and cannot tell them.
func TestAll_ChildrenEndWithTheirParent(t *testing.T) {
	t.Parallel()
	p := startProgram(t, "-orders", "0", "-takes", "1m")
	p.readTo("running")
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	p.end(-1)
}

func TestAll_ServerThatCannotStartIsExplained(t *testing.T) {
	t.Parallel()
	taken, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	_, port, err := net.SplitHostPort(taken.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	p := startProgram(t, "-port", port)
	p.end(exitBad)
	if said := p.stderr.String(); !strings.Contains(said, "server does not start") || !strings.Contains(said, "address already in use") {
		t.Errorf("it said %q", said)
	}
}

func TestRun_RoleNeedsADatabase(t *testing.T) {
	t.Setenv("DATABASE_URL", "") // the process's, so this test does not run beside others
	var stderr strings.Builder
	if status := run(t.Context(), options{role: roleWorker}, nil, io.Discard, &stderr); status != exitBad || !strings.Contains(stderr.String(), "DATABASE_URL") {
		t.Errorf("exit status %d: %s", status, &stderr)
	}
}
