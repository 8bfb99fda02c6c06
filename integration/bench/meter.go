package main

import (
	"fmt"
	"io"
	"os"
	"time"
)

// meter shows how far a load is, how fast, and how long it will take: on a line that changes where there is a terminal,
// else on a line now and then.
type meter struct {
	out      io.Writer
	what     string
	of       int
	terminal bool
	began    time.Time
	shown    time.Time
}

// lineEvery is the time between two lines where they stay.
const lineEvery = 10 * time.Second

func newMeter(out io.Writer, what string, of int) *meter {
	m := &meter{out: out, what: what, of: of, began: time.Now(), shown: time.Now()}
	if file, ok := out.(*os.File); ok {
		info, err := file.Stat()
		m.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return m
}

func (m *meter) at(n int) {
	done := n >= m.of
	if !m.terminal && !done && time.Since(m.shown) < lineEvery {
		return
	}
	m.shown = time.Now()
	took := m.shown.Sub(m.began)
	line := fmt.Sprintf("growth: %s: %d of %d (%d %%), %.0f a second", m.what, n, m.of, 100*n/m.of, float64(n)/took.Seconds())
	if !done {
		left := time.Duration(float64(took) * float64(m.of-n) / float64(n))
		line += fmt.Sprintf(", %v to go", left.Round(time.Second))
	}
	if m.terminal {
		line = "\r\x1b[K" + line
	}
	if done || !m.terminal {
		line += "\n"
	}
	_, _ = io.WriteString(m.out, line)
}
