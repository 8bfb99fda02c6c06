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

	"github.com/txonce/txonce/integration/internal/servers"
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
	name    string
	ranOn   []string // as the tests say
	figures []string // what they have measured
	ended   string   // pass, fail or skip; "" where the run broke off
	passed  int      // tests, those with subtests and subtests counted alike
	failed  []string
	skips   []skip
	output  map[string]string // by test, "" for the package's own
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
			all.err = fmt.Errorf("suites: the output of go test -json ends in the middle: %w", err)
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
		if text, ok := strings.CutPrefix(e.Output, "ran on: "); ok {
			s.ranOn = append(s.ranOn, strings.TrimSpace(text))
		}
		if text, ok := strings.CutPrefix(e.Output, "measured: "); ok {
			s.figures = append(s.figures, strings.TrimSpace(text))
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

// lines says how each package fared, a line each, and reports whether all is well. check says what is wrong with one, if anything.
func (r *report) lines(check func(*suite) string, how, place string) ([]string, bool) {
	var all []string
	ok := r.err == nil && len(r.packages) > 0
	for _, s := range r.packages {
		verdict := "ok"
		if wrong := check(s); wrong != "" {
			ok, verdict = false, "FAILED: "+wrong
		}
		where := strings.Join(s.ranOn, "; ")
		if where == "" {
			where = how
		}
		if place != "" {
			where += " (" + place + ")"
		}
		all = append(all, fmt.Sprintf("suite: %s on %s: %s, %d tests passed, %d skipped", path.Base(s.name), where, verdict, s.passed, len(s.skips)))
		for _, figure := range s.figures {
			all = append(all, "  "+figure)
		}
	}
	if r.err != nil {
		all = append(all, r.err.Error())
	}
	return all, ok
}

// checkCore says what is wrong with the run of a package of the core, if anything. That it ran on what it was to run on has to be
// said by the tests themselves.
func (s *suite) checkCore(version string, w way) string {
	if wrong := s.check(); wrong != "" {
		return wrong
	}
	want := []string{"PostgreSQL " + version + ", directly, " + w.modeName(), "", ""}
	if w.pooler != "" {
		want = []string{"PostgreSQL " + version, " through " + w.pooler + " ", ", " + w.modeName()}
	}
	if len(s.ranOn) != 1 || !strings.HasPrefix(s.ranOn[0], want[0]) || !strings.Contains(s.ranOn[0], want[1]) || !strings.HasSuffix(s.ranOn[0], want[2]) {
		return fmt.Sprintf("the tests say that they ran on %q", s.ranOn)
	}
	return ""
}

// checkOwn says what is wrong with the run of a package that brings its servers, if anything: it must say that it ran in each place. One that is
// to be whole must not skip a test.
func (s *suite) checkOwn(places []servers.Place, whole bool) string {
	if wrong := s.check(); wrong != "" {
		return wrong
	}
	if whole && len(s.skips) > 0 {
		return fmt.Sprintf("%d tests were skipped", len(s.skips))
	}
	for _, p := range places {
		if !slices.ContainsFunc(s.ranOn, func(said string) bool { return strings.HasSuffix(said, ", "+p.String()) }) {
			return fmt.Sprintf("the tests say that they ran on %q, and not in the %s", s.ranOn, p)
		}
	}
	return ""
}

func (s *suite) check() string {
	switch {
	case s.ended != "pass" || len(s.failed) > 0:
		return fmt.Sprintf("%d tests failed", len(s.failed))
	case s.passed == 0:
		return "no test has run"
	}
	return ""
}

// printFailures prints what the tests said that failed, and what is said beside tests.
func (r *report) printFailures(out io.Writer, check func(*suite) string) {
	for _, s := range r.packages {
		if check(s) == "" {
			continue
		}
		for _, name := range append(s.failed, "") {
			_, _ = fmt.Fprint(out, s.output[name])
		}
	}
}
