package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/txonce/txonce/integration/internal/servers"
	"github.com/txonce/txonce/internal/dbtest"
	"github.com/txonce/txonce/internal/devpg"
)

// quickLeavesOut are tests of the core that a quick run does without: they go through what others do once, with chance and for long, or
// break a server of their own.
const quickLeavesOut = `Model|DuplicatesAmongFaults|CutsAtCommit|CutsAtTheStoring|SerializableCalls|ServerKilled|Standby`

// roomInMemory is for the data of a container that nobody kills. Local servers have theirs in memory anyway, where there is room.
const roomInMemory = 4096

// runner runs suites and remembers how they fared.
type runner struct {
	options
	draw           *rand.Rand
	stdout, stderr io.Writer
	lines          []string
	skips          skips
	bad            bool
}

// core runs the tests of the core on a server of the place.
func (r *runner) core(ctx context.Context, c combination) {
	cfg := &servers.Config{Parameters: devpg.ForTests()}
	if c.place.Container() {
		cfg.Megabytes = roomInMemory
	}
	s, err := c.place.Start(ctx, cfg)
	if err != nil {
		r.fail(err)
		return
	}
	_, _ = fmt.Fprintf(r.stderr, "suites: PostgreSQL %s, %s\n", s.Version(), s.Source())
	for _, w := range c.ways {
		args := append(r.test(), "-p=2") // no more, since packages share the server's connections
		if r.quick {
			args = append(args, "-skip", quickLeavesOut)
		}
		env := []string{devpg.EnvTestURL + "=" + s.URL(), dbtest.EnvExecMode + "=" + w.mode, dbtest.EnvPooler + "=" + w.pooler}
		report := r.goTest(ctx, append(args, r.packagesOf(w, r.draw)...), env)
		if ctx.Err() != nil {
			r.fail(fmt.Errorf("suites: interrupted: %w", context.Cause(ctx)))
			break
		}
		r.note(report, w.String(), func(one *suite) string { return one.checkCore(s.Version(), w) }, c.place.String())
		r.skips.add(c.place.Name()+", "+w.String(), report)
	}
	if err := s.Stop(); err != nil {
		r.fail(err)
	}
}

// own runs the suites that bring their own servers.
func (r *runner) own(ctx context.Context, places []servers.Place) {
	report := r.goTest(ctx, append(append(r.test(), "-p=3"), ownPackages()...), nil)
	whole := os.Getenv(servers.EnvServers) == "containers" // asked for, so that nothing may be missing
	r.note(report, "own servers", func(one *suite) string { return one.checkOwn(places, whole) }, "")
	r.skips.add("own servers", report)
}

// test is how the go command begins.
func (r *runner) test() []string {
	args := []string{"test", "-json", "-count=1", "-timeout=30m"}
	if r.race {
		args = append(args, "-race")
	}
	if r.quick {
		args = append(args, "-short")
	}
	return args
}

// goTest runs the go command once, and shows that it goes on.
func (r *runner) goTest(ctx context.Context, args, env []string) *report {
	var out, own bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", args...)
	// The go command waits for its tests when it is interrupted: all of them are told.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = io.MultiWriter(&out, &ticker{out: r.stderr}), io.MultiWriter(r.stderr, &own)
	begin := time.Now()
	err := cmd.Run()
	report := read(&out)
	report.took = time.Since(begin)
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		report.err = fmt.Errorf("suites: cannot run the go command: %w", err)
	} else if err != nil && len(report.failed()) == 0 {
		report.err = fmt.Errorf("suites: go test failed, and no test did: %w; see what it says above: %s", err, strings.TrimSpace(own.String()))
	}
	return report
}

// note prints how the packages of a run fared.
func (r *runner) note(report *report, how string, check func(*suite) string, place string) {
	lines, ok := report.lines(check, how, place)
	for _, line := range lines {
		_, _ = fmt.Fprintln(r.stdout, line)
	}
	r.lines = append(r.lines, lines...)
	if !ok {
		r.bad = true
		report.printFailures(r.stdout, check)
	}
	_, _ = fmt.Fprintf(r.stderr, "suites: %s took %s\n", how, report.took.Round(time.Second))
}

func (r *runner) fail(err error) {
	r.bad = true
	_, _ = fmt.Fprintln(r.stderr, err)
}

// end prints what was skipped, and all lines once more, and returns the exit status.
func (r *runner) end() int {
	r.skips.print(r.stdout)
	_, _ = fmt.Fprintln(r.stdout, "suites: all of them once more")
	for _, line := range r.lines {
		_, _ = fmt.Fprintln(r.stdout, line)
	}
	if r.bad || len(r.lines) == 0 {
		return 1
	}
	return 0
}
