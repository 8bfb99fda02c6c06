package main

import (
	"fmt"
	"io"
	"os"
	"sync"
)

// progress shows that the demo moves: one line that changes on a terminal, else a line now and then.
type progress struct {
	out      io.Writer
	terminal bool

	mu   sync.Mutex
	what string
	n    int
	of   int
}

// progressEvery is after how many steps there is a line where the output is no terminal.
const progressEvery = 20

func newProgress(out io.Writer) *progress {
	p := &progress{out: out}
	if file, ok := out.(*os.File); ok {
		info, err := file.Stat()
		p.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return p
}

// begin starts a count.
func (p *progress) begin(what string, of int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.what, p.n, p.of = what, 0, of
	p.show()
}

// step is called by any number of goroutines.
func (p *progress) step() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n++
	p.show()
}

// end leaves the line of a terminal as it is and goes to the next.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.terminal {
		_, _ = fmt.Fprintln(p.out)
	}
}

func (p *progress) show() {
	switch {
	case p.terminal:
		_, _ = fmt.Fprintf(p.out, "\r%s: %d of %d", p.what, p.n, p.of)
	case p.n == p.of || p.n%progressEvery == 0 && p.n > 0:
		_, _ = fmt.Fprintf(p.out, "%s: %d of %d\n", p.what, p.n, p.of)
	}
}
