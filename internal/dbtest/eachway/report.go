package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"
)

// event is a line of go test -json.
type event struct{ Action, Package, Test, Output string }

// report is what one run of the go command says.
type report struct {
	packages []*suite
	took     time.Duration
	err      error // beside failed tests
}

// suite is the run of one package.
type suite struct {
	name   string
	ranOn  string // as the tests say
	ended  string // pass, fail or skip; "" where the run broke off
	passed int    // tests, those with subtests and subtests counted alike
	failed []string
	skips  []skip
	output map[string]string // by test, "" for the package's own
}

type skip struct{ test, reason string }

// read reads the output of go test -json. Lines that are not JSON, such as those of the compiler, are left.
func read(r io.Reader) *report {
	all := &report{}
	for lines := json.NewDecoder(r); ; {
		var e event
		if err := lines.Decode(&e); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			all.err = fmt.Errorf("eachway: the output of go test -json ends in the middle: %w", err)
			return all
		}
		if e.Package != "" {
			all.suite(e.Package).take(e)
		}
	}
}

func (r *report) suite(name string) *suite {
	for _, s := range r.packages {
		if s.name == name {
			return s
		}
	}
	s := &suite{name: name, output: make(map[string]string)}
	r.packages = append(r.packages, s)
	return s
}

func (s *suite) take(e event) {
	switch {
	case e.Action == "output":
		s.output[e.Test] += e.Output
		if text, ok := strings.CutPrefix(e.Output, "dbtest: PostgreSQL "); ok {
			s.ranOn = "PostgreSQL " + strings.TrimSpace(text)
		}
	case e.Test == "" && (e.Action == "pass" || e.Action == "fail" || e.Action == "skip"):
		s.ended = e.Action
	case e.Action == "pass":
		s.passed++
		delete(s.output, e.Test)
	case e.Action == "fail":
		s.failed = append(s.failed, e.Test)
	case e.Action == "skip":
		s.skips = append(s.skips, skip{e.Test, reason(s.output[e.Test])})
	}
}

// reason finds the text of t.Skip among what a test said: the last line that names a place in a test.
func reason(output string) string {
	lines := strings.Split(output, "\n")
	for _, line := range slices.Backward(lines) {
		if _, text, ok := strings.Cut(line, "_test.go:"); ok {
			_, text, _ = strings.Cut(text, ": ")
			return text
		}
	}
	return "without a reason"
}

func (r *report) failed() []string {
	var failed []string
	for _, s := range r.packages {
		failed = append(failed, s.failed...)
	}
	return failed
}

// print says how each package fared, and reports whether all is well.
func (r *report) print(out io.Writer, w way) bool {
	ok := r.err == nil && len(r.packages) > 0
	for _, s := range r.packages {
		wrong := s.check(w)
		verdict := "ok"
		if wrong != "" {
			ok, verdict = false, "FAILED: "+wrong
		}
		ranOn := s.ranOn
		if ranOn == "" {
			ranOn = w.String()
		}
		fmt.Fprintf(out, "pooler: %s on %s: %s, %d tests passed, %d skipped\n", path.Base(s.name), ranOn, verdict, s.passed, len(s.skips))
		if wrong != "" {
			s.printFailures(out)
		}
	}
	fmt.Fprintf(out, "pooler: %s took %s\n", w, r.took.Round(time.Second))
	if r.err != nil {
		fmt.Fprintln(out, r.err)
	}
	return ok
}

// check says what is wrong with the run of a package, if anything. That it ran on what it was to run on has to be said by
// the tests themselves.
func (s *suite) check(w way) string {
	want := []string{w.mode, "directly"}
	if w.pooler != "" {
		want[1] = "through " + w.pooler
	}
	switch {
	case s.ended != "pass" || len(s.failed) > 0:
		return fmt.Sprintf("%d tests failed", len(s.failed))
	case s.passed == 0:
		return "no test has run"
	case !strings.HasSuffix(s.ranOn, ", "+want[0]) || !strings.Contains(s.ranOn, " "+want[1]):
		return fmt.Sprintf("the tests say that they ran on %q", s.ranOn)
	}
	return ""
}

func (s *suite) printFailures(out io.Writer) {
	for _, name := range append(s.failed, "") {
		fmt.Fprint(out, s.output[name])
	}
}
