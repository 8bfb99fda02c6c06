package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/txonce/txonce/internal/dbtest"
)

// childVariable makes the test binary be the program, for tests of its processes.
const childVariable = "REPORTS_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		main()
	}
	dbtest.Main(m)
}

func TestParseOptions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args  string
		wrong string // part of what is said; empty if the arguments are good
	}{
		{args: ""},
		{args: "-orders 0 -takes 1s -kill -port 8080 -ui-port 8081"},
		{args: "all -orders 3"},
		{args: "server -port 8080 -schema other"},
		{args: "worker -name c -takes 1s -lease 2s"},
		{args: "ui -leash"},
		{args: "clerk", wrong: "use server, worker or ui"},
		{args: "-takes 1h", wrong: "must be between 0 and 5m0s"},
		{args: "-orders -1", wrong: "must be 0"},
		{args: "-every -1s", wrong: "must be 0 or more"},
		{args: "ui -kill", wrong: "not defined"},
		{args: "-orders 3 server", wrong: "the role comes first"},
	} {
		var said bytes.Buffer
		_, err := parseOptions(strings.Fields(c.args), &said)
		switch {
		case c.wrong == "" && err != nil:
			t.Errorf("%q: error %v, want none", c.args, err)
		case c.wrong != "" && (err == nil || !strings.Contains(said.String(), c.wrong)):
			t.Errorf("%q: error %v, said %q, want %q in it", c.args, err, said.String(), c.wrong)
		}
	}
}
