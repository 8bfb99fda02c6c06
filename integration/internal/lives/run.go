package lives

import (
	"context"
	"fmt"
	"io"
)

// The exit statuses of a program that kills.
const (
	ExitGood        = 0
	ExitBad         = 1
	ExitUsage       = 2
	ExitInterrupted = 130
)

// Report is what a run has found out.
type Report interface {
	Write(stdout, stderr io.Writer)
	Good() bool
}

// Run is a program that kills: it makes the run on a server, writes the report, and returns the exit status.
func Run(ctx context.Context, program string, seed uint64, stdout, stderr io.Writer, torture func(Place) (Report, error)) int {
	var r Report
	err := OnServer(ctx, program, seed, stderr, func(p Place) (err error) {
		r, err = torture(p)
		return err
	})
	switch {
	case ctx.Err() != nil:
		_, _ = fmt.Fprintf(stderr, "\n%s: interrupted: %v\n", program, err)
		return ExitInterrupted
	case err != nil:
		_, _ = fmt.Fprintf(stderr, "%s: %v\n", program, err)
		return ExitBad
	}
	r.Write(stdout, stderr)
	if !r.Good() {
		return ExitBad
	}
	return ExitGood
}

// mostProblems is how many problems are printed. The figures count all of them.
const mostProblems = 20

// WriteProblems writes a line for each problem, which begins with an exclamation mark.
func WriteProblems(w io.Writer, problems []string) {
	for _, problem := range problems[:min(len(problems), mostProblems)] {
		_, _ = fmt.Fprintln(w, "!", problem)
	}
	if more := len(problems) - mostProblems; more > 0 {
		_, _ = fmt.Fprintf(w, "! and %d more\n", more)
	}
}
