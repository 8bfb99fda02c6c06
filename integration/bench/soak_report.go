package main

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"
)

const (
	soakHead = "\n%-34s %12s %12s\n"
	soakLine = "  %-32s %12s %12s\n"
)

// report prints the table and what it says, and last the line that programs read. It returns what is not good.
func (s *soak) report(w io.Writer, took time.Duration) error {
	t := &strings.Builder{}
	fmt.Fprintf(t, "PostgreSQL %s (%s)\n%s; %d CPUs for server and client\n", s.db.server.Version(), s.db.server.Source(), s.db.durability, runtime.NumCPU())
	fmt.Fprintf(t, "%d calls a second for %v, %.0f s in all; records are kept for %v; a pool of %d\n", s.options.rate, s.options.time, took.Seconds(), s.options.retention(), soakConns)
	for i, kind := range s.world.kinds() {
		fmt.Fprintf(t, "%s %d %% %s", comma(i), kind.percent, kind.name)
	}
	t.WriteString("\n")
	s.table(t)
	all := s.verdicts()
	for _, v := range all {
		fmt.Fprintf(t, "%s: %s\n", v.text, map[bool]string{true: "met", false: "missed"}[v.good])
	}
	if s.options.time < judgedFrom {
		fmt.Fprintf(t, "memory and tables are judged from %v on\n", judgedFrom)
	}
	failures, _ := s.books.failures()
	fmt.Fprintf(t, "soak: rss_growth=%.2f goroutines=%d->%d calls=%d errors=%d\n",
		s.growth(), s.start().goroutines, s.end().goroutines, s.books.done.Load(), failures)
	if _, err := io.WriteString(w, t.String()); err != nil {
		return err
	}
	return judge(all)
}

// table has what was found behind the warm-up and at the end.
func (s *soak) table(w io.Writer) {
	start, end := s.start(), s.end()
	fmt.Fprintf(w, soakHead, "medians of a tenth of the run", "until "+start.at.Round(time.Second).String(), "at the end")
	row := func(name string, number func(soakSample) string) {
		fmt.Fprintf(w, soakLine, name, number(start), number(end))
	}
	row("RSS of the process", func(s soakSample) string { return megabytes(s.rss) })
	row("heap after garbage collection", func(s soakSample) string { return megabytes(s.heap) })
	row("goroutines beside calls", func(s soakSample) string { return fmt.Sprint(s.goroutines) })
	row("connections of the pool", func(s soakSample) string { return fmt.Sprint(s.conns) })
	row("sessions that the server has", func(s soakSample) string { return fmt.Sprint(s.sessions) })
	row("p50 of an operation", func(s soakSample) string { return micro(s.p50) })
	row("p99 of an operation", func(s soakSample) string { return micro(s.p99) })
	row("p99 from COMMIT to the receiver", func(s soakSample) string { return micro(s.trip) })
	before := mostBytes([]soakSample{start})
	for _, t := range end.tables {
		if used := max(before[t.name], t.bytes()); used > mostEmpty {
			fmt.Fprintf(w, soakLine, t.name+" with indexes", megabytes(before[t.name]), megabytes(t.bytes()))
		}
	}
	fmt.Fprintln(w)
}

// mostEmpty is the size up to which a table with its indexes is not worth a line.
const mostEmpty = 128 << 10

func megabytes(bytes int64) string { return fmt.Sprintf("%.1f MB", inMB(bytes)) }
