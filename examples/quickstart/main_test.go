package main

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// childVariable makes the test binary be the program, for the test that speaks to it on stdio.
const childVariable = "QUICKSTART_TEST_ARGS"

func TestMain(m *testing.M) {
	if args, ok := os.LookupEnv(childVariable); ok {
		os.Args = append(os.Args[:1], strings.Fields(args)...)
		main()
	}
	goleak.VerifyTestMain(m)
}

func TestParseOptions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args  string
		wrong string // part of what is said; empty if the arguments are good
	}{
		{args: ""},
		{args: "-unprotected -seed 7"},
		{args: "-serve http -address 127.0.0.1:0"},
		{args: "-serve stdio"},
		{args: "-serve pigeon", wrong: "use http or stdio"},
		{args: "-seed -1", wrong: "invalid value"},
		{args: "protected", wrong: "unexpected argument"},
	} {
		var said bytes.Buffer
		o, err := parseOptions(strings.Fields(c.args), &said)
		switch {
		case c.wrong == "" && (err != nil || o.seed == 0):
			t.Errorf("%q: options %+v, error %v, want a seed and no error", c.args, o, err)
		case c.wrong != "" && (err == nil || !strings.Contains(said.String(), c.wrong)):
			t.Errorf("%q: error %v, said %q, want %q in it", c.args, err, said.String(), c.wrong)
		}
	}
}

// The environment is the process's, so this test does not run beside others.
func TestRun_WrongDatabaseURLIsOneLine(t *testing.T) {
	for _, url := range []string{"postgres://nobody@127.0.0.1:1/none", "mysql://x", "postgres://%zz"} {
		t.Setenv("TXONCE_TEST_DATABASE_URL", url)
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), options{seed: 1}, &stdout, &stderr); code != exitBad {
			t.Errorf("%s: exit status %d, want %d", url, code, exitBad)
		}
		if said := stderr.String(); strings.Count(said, "\n") > 2 || !strings.Contains(said, "TXONCE_TEST_DATABASE_URL") {
			t.Errorf("%s: said %q, want one line or two that name the variable", url, said)
		}
		if stdout.Len() > 0 {
			t.Errorf("%s: wrote %q to stdout", url, &stdout)
		}
	}
}

func TestRun_InterruptedEndsSoon(t *testing.T) {
	t.Parallel()
	for _, after := range []time.Duration{0, 200 * time.Millisecond, 2 * time.Second, 3 * time.Second} {
		ctx, cancel := context.WithCancel(t.Context())
		var interrupted time.Time
		timer := time.AfterFunc(after, func() {
			interrupted = time.Now()
			cancel()
		})
		var stdout, stderr bytes.Buffer
		code := run(ctx, options{seed: 1}, &stdout, &stderr)
		took := time.Since(interrupted)
		if timer.Stop(); code == exitGood {
			continue // it was done before
		}
		if code != exitInterrupted || !strings.Contains(stderr.String(), "interrupted") {
			t.Errorf("interrupted after %v: exit status %d, want %d; stderr:\n%s", after, code, exitInterrupted, &stderr)
		}
		if took > 5*time.Second { // a second or two on a machine that is not busy with other tests
			t.Errorf("interrupted after %v: ended %v later", after, took)
		}
	}
}
