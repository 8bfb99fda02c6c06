package txidemtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"time"
)

// env is set in a process that is to die: a spec as JSON.
const env = "TXIDEMTEST_DIE"

// spec says which call such a process makes, and where it dies.
type spec struct {
	Test, Tool, URL, App string
	Intent               int
	Point                point
}

// dying is what such a process prints in front of its end, as the proof that it was there.
const dying = "txidemtest: this process kills itself now"

// The exit statuses of a process that could not.
const (
	exitAlive    = 86 // the call has returned, and the point was not reached
	exitOrphaned = 87 // the test that started it is gone
	exitBad      = 88
)

// Dying reports whether this process is one that [Run] started to kill it. It has a database already.
func Dying() bool { return os.Getenv(env) != "" }

func specOf() (spec, bool) {
	text, ok := os.LookupEnv(env)
	if !ok {
		return spec{}, false
	}
	var s spec
	return s, json.Unmarshal([]byte(text), &s) == nil
}

// die makes the call of the spec and ends this process on the way.
func (s spec) die(ctx context.Context, tool Tool) {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // ends when the test does
		os.Exit(exitOrphaned)
	}()
	k := &kit{tool: tool, url: s.URL, app: s.App, stage: &stage{}}
	if err := k.connect(ctx); err != nil {
		fmt.Println(err)
		os.Exit(exitBad)
	}
	o := newOrder(s.Point)
	o.die = killSelf
	k.stage.begin(o)
	said := k.call(ctx, s.Intent, o)
	if s.Point.Place == returned {
		killSelf()
	}
	fmt.Println(said)
	os.Exit(exitAlive)
}

// killSelf ends the process as nothing else does: no deferred function, no closing of a connection.
func killSelf() {
	fmt.Println(dying)
	if p, err := os.FindProcess(os.Getpid()); err == nil {
		_ = p.Kill()
	}
	select {} // the signal may take its time
}

// killAt lets a process die at the point in a first call, looks at what is left of it, and repeats the call.
func (k *kit) killAt(ctx context.Context, p point) (string, error) {
	intent := k.next()
	died, err := k.child(ctx, spec{Test: k.test, Tool: k.tool.Name, URL: k.url, App: k.app, Intent: intent, Point: p})
	if err != nil {
		return "", err
	}
	k.stage.begin(nil)
	k.missed = !died
	if problem, err := k.settle(ctx); problem != "" || err != nil {
		return problem, err
	}
	n, err := k.count(ctx, intent)
	switch {
	case err != nil:
		return "", err
	case died && !p.commit && n > 0 && !k.tool.Elsewhere:
		return fmt.Sprintf("before the call is repeated, the query counts %d effects of intent %d, want none, for nothing was committed: %s", n, intent, causeEarly), nil
	case n != 0 && n != k.tool.Want, died && p.Place == returned && n != k.tool.Want:
		return fmt.Sprintf("before the call is repeated, the query counts %d effects of intent %d, want %d: %s", n, intent, k.tool.Want, causeOutside), nil
	}
	return k.over(ctx, intent, nil)
}

// startTimeout is how long a process that is to die may take to come to its call.
const startTimeout = time.Minute

// child starts a process and reports whether it died where it should. It is gone when child returns.
func (k *kit) child(ctx context.Context, s spec) (died bool, err error) {
	text, err := json.Marshal(s)
	if err != nil {
		return false, err
	}
	binary, err := os.Executable()
	if err != nil {
		return false, fmt.Errorf("txidemtest: find the test binary: %w", err)
	}
	timeout := startTimeout + k.tool.Timeout + k.patience()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, binary, "-test.run="+pattern(s.Test), "-test.count=1", "-test.timeout="+timeout.String())
	cmd.Env = append(os.Environ(), env+"="+string(text))
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = k.patience()
	stdin, err := cmd.StdinPipe() // open as long as this process lives
	if err != nil {
		return false, err
	}
	defer func() { _ = stdin.Close() }()
	err = cmd.Run()
	byHand := runtime.GOOS != "windows" && cmd.ProcessState != nil && cmd.ProcessState.Exited() // a kill is an exit there
	var exit *exec.ExitError
	switch {
	case strings.Contains(out.String(), dying) && !byHand:
		return true, nil
	case errors.As(err, &exit) && exit.ExitCode() == exitAlive:
		return false, nil
	}
	return false, fmt.Errorf("txidemtest: the test binary, started again to be killed, did not get to the call in test %s (%v); "+
		"what is in front of Run must work there too: %.2000s", s.Test, err, out.String())
}

// pattern is the -test.run that matches one test and no other.
func pattern(test string) string {
	parts := strings.Split(test, "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	return strings.Join(parts, "/")
}
