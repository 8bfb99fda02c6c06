package main

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/txonce/txonce/statustool"
	"github.com/txonce/txonce/toolcall"
)

// TestBoard_BarsAreDrawnOver: a terminal has each report once, below what was said.
func TestBoard_BarsAreDrawnOver(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	b := newBoard(&out)
	b.terminal = true
	r := b.add(north())
	b.say("hello")
	b.show(r, "", statustool.Report{State: toolcall.StateRunning, Progress: &statustool.Progress{Fraction: 0.5, Message: "worker a: June"}, Attempts: 2})
	b.end()
	b.say("bye")
	lines := screen(out.String())
	if len(lines) < 3 || !strings.HasSuffix(lines[0], "hello") || lines[1] != "R-7 north 2024  ██████████░░░░░░░░░░  50 %  worker a: June, attempt 2" || !strings.HasSuffix(lines[2], "bye") {
		t.Errorf("%q", lines)
	}
}

// screen is what a terminal shows.
func screen(written string) (lines []string) {
	for line := range strings.Lines(written) {
		for {
			rest, up := strings.CutPrefix(line, "\x1b[1A\x1b[J")
			if !up {
				break
			}
			lines, line = lines[:len(lines)-1], rest
		}
		lines = append(lines, strings.TrimSuffix(line, "\n"))
	}
	return lines
}

// TestBoard_PlainOutputHasALineNowAndThen: at the quarters, and when something changes.
func TestBoard_PlainOutputHasALineNowAndThen(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	b := newBoard(&out)
	r := b.add(north())
	for i := range 101 {
		b.show(r, "", statustool.Report{State: toolcall.StateRunning, Progress: &statustool.Progress{Fraction: float64(i) / 100}})
	}
	if n := strings.Count(out.String(), "\n"); n != 5 || strings.Contains(out.String(), "\x1b") {
		t.Errorf("%d lines:\n%s", n, &out)
	}
}

// TestRow_SaysWhoMadeIt: what get_status says of a report that is done has no progress any more.
func TestRow_SaysWhoMadeIt(t *testing.T) {
	t.Parallel()
	r := &row{order: north(), standing: statustool.Report{State: toolcall.StateSucceeded, Result: []byte(`{"made_by":"worker a"}`)}}
	if got, want := r.String(), "R-7 north 2024  ████████████████████ 100 %  done by worker a"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestRow_FitsIntoALine(t *testing.T) {
	t.Parallel()
	r := &row{order: Order{Order: "R-123456", Region: "north", Year: 2024}}
	for _, s := range []statustool.Report{
		{},
		{State: toolcall.StateQueued, Attempts: 50},
		{State: toolcall.StateRunning, Progress: &statustool.Progress{Fraction: 7, Message: strings.Repeat("ä", 500)}},
		{State: toolcall.StateSucceeded, Result: []byte(`{"made_by":"` + strings.Repeat("b", 100) + `"}`)},
	} {
		r.standing = s
		if line := r.String(); utf8.RuneCountInString(line) >= 80 || !utf8.ValidString(line) {
			t.Errorf("%q", line)
		}
	}
}
