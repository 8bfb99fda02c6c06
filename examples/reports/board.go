package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/txonce/txonce/statustool"
	"github.com/txonce/txonce/toolcall"
)

// board shows what happens: below, on a terminal, one bar for each report, above them what was said. Where the output is no
// terminal, each report has a line now and then.
type board struct {
	out      io.Writer
	terminal bool
	began    time.Time

	mu    sync.Mutex
	rows  []*row
	drawn int // lines that are on the terminal below what was said
}

// row is one report.
type row struct {
	order    Order
	job      string
	standing statustool.Report
	shown    string // what its last line was about, where there is no terminal
}

// mostRows is how many reports fit.
const mostRows = 16

func newBoard(out io.Writer) *board {
	b := &board{out: out, began: time.Now()}
	if file, ok := out.(*os.File); ok {
		info, err := file.Stat()
		b.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return b
}

// say shows a line for good, above the bars.
func (b *board) say(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.erase()
	b.line(fmt.Sprintf(format, args...))
	b.draw()
}

func (b *board) line(text string) {
	_, _ = fmt.Fprintf(b.out, "%6.1f s  %s\n", time.Since(b.began).Seconds(), text)
}

// add gives an order a row.
func (b *board) add(order Order) *row {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := &row{order: order, standing: statustool.Report{State: "ordered"}}
	b.rows = append(b.rows, r)
	b.redraw()
	return r
}

// show shows how far a report is.
func (b *board) show(r *row, job string, s statustool.Report) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r.job, r.standing = job, s
	b.redraw()
	if b.terminal {
		return
	}
	if about := fmt.Sprint(s.State, s.Attempts, int(r.fraction()*4)); about != r.shown {
		r.shown = about
		b.line(r.String())
	}
}

func (b *board) redraw() {
	b.erase()
	b.draw()
}

func (b *board) erase() {
	if b.drawn > 0 {
		_, _ = fmt.Fprintf(b.out, "\x1b[%dA\x1b[J", b.drawn) // up, and clear to the end
	}
}

func (b *board) draw() {
	if !b.terminal {
		return
	}
	rows := b.rows[max(0, len(b.rows)-mostRows):]
	for _, r := range rows {
		_, _ = fmt.Fprintln(b.out, r)
	}
	b.drawn = len(rows)
}

// end leaves the bars as they are.
func (b *board) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.drawn = 0
}

const barWidth = 20

// String is the row in less than 80 columns.
func (r *row) String() string {
	full := min(max(int(r.fraction()*barWidth), 0), barWidth)
	bar := strings.Repeat("█", full) + strings.Repeat("░", barWidth-full)
	line := fmt.Sprintf("%s %-5s %d  %s %3.0f %%  %s", r.order.Order, r.order.Region, r.order.Year, bar, 100*r.fraction(), r.says())
	if runes := []rune(line); len(runes) >= 80 {
		line = string(runes[:79])
	}
	return line
}

func (r *row) says() string {
	s := r.standing
	attempt := ""
	if s.Attempts > 1 {
		attempt = fmt.Sprintf(", attempt %d", s.Attempts)
	}
	switch {
	case s.State == toolcall.StateSucceeded:
		return "done by " + reportIn(s).MadeBy + attempt
	case s.Progress != nil && s.Progress.Message != "":
		return s.Progress.Message + attempt
	}
	return string(s.State) + attempt
}

// fraction is how much of the bar is full.
func (r *row) fraction() float64 {
	switch s := r.standing; {
	case s.State == toolcall.StateSucceeded:
		return 1
	case s.Progress != nil:
		return s.Progress.Fraction
	}
	return 0
}

// reportIn is what a job that is done came to.
func reportIn(s statustool.Report) (out Report) {
	_ = json.Unmarshal(s.Result, &out) // the job's own type
	return out
}
