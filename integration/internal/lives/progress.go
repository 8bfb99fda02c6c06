package lives

import (
	"fmt"
	"io"
	"os"
	"sync"
)

// Progress shows how far a run is: one line that changes on a terminal, else a line for each tenth.
type Progress struct {
	out      io.Writer
	program  string
	terminal bool
	of       int

	mu     sync.Mutex
	n      int
	tenths int
}

// NewProgress shows the progress of a program through so many kills.
func NewProgress(out io.Writer, program string, of int) *Progress {
	p := &Progress{out: out, program: program, of: of}
	if file, ok := out.(*os.File); ok {
		info, err := file.Stat()
		p.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return p
}

// At is called by any number of goroutines, perhaps not in order.
func (p *Progress) At(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n <= p.n {
		return
	}
	p.n = n
	switch tenths := 10 * n / p.of; {
	case p.terminal:
		_, _ = fmt.Fprintf(p.out, "\r%s: %d of %d kills", p.program, n, p.of)
	case tenths > p.tenths:
		p.tenths = tenths
		_, _ = fmt.Fprintf(p.out, "%s: %d of %d kills\n", p.program, n, p.of)
	}
}

// End leaves the line of a terminal as it is and goes to the next.
func (p *Progress) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.terminal {
		_, _ = fmt.Fprintln(p.out)
	}
}
