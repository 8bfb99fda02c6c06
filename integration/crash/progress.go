package main

import (
	"fmt"
	"io"
	"os"
	"sync"
)

// progress shows how far a run is: one line that changes on a terminal, else a line for each tenth.
type progress struct {
	out      io.Writer
	terminal bool
	of       int

	mu     sync.Mutex
	n      int
	tenths int
}

func newProgress(out io.Writer, of int) *progress {
	p := &progress{out: out, of: of}
	if file, ok := out.(*os.File); ok {
		info, err := file.Stat()
		p.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return p
}

// at is called by any number of goroutines, perhaps not in order.
func (p *progress) at(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n <= p.n {
		return
	}
	p.n = n
	switch tenths := 10 * n / p.of; {
	case p.terminal:
		_, _ = fmt.Fprintf(p.out, "\rcrash: %d of %d kills", n, p.of)
	case tenths > p.tenths:
		p.tenths = tenths
		_, _ = fmt.Fprintf(p.out, "crash: %d of %d kills\n", n, p.of)
	}
}

// end leaves the line of a terminal as it is and goes to the next.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.terminal {
		_, _ = fmt.Fprintln(p.out)
	}
}
