package main

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"
)

// report prints the table, and last the line that programs read.
func (g *growth) report(w io.Writer, took time.Duration) error {
	t := &strings.Builder{}
	fmt.Fprintf(t, "PostgreSQL %s (%s)\n%s, %s; %d CPUs for server and client\n",
		g.server.Version(), g.server.Source(), g.largest().db.durability, g.settings, runtime.NumCPU())
	fmt.Fprintf(t, "%v per size in turns of at most %v, %d worker(s), a sweep each %v; %.0f s in all, %.0f s of them loading\n",
		g.options.time, turnTime, g.options.workers, sweepEvery, took.Seconds(), g.loading.Seconds())
	if g.largest().db.checkpoint != "" {
		fmt.Fprintf(t, "no checkpoints on demand (%s)\n", g.largest().db.checkpoint)
	}
	g.sizesTable(t)
	g.sweepLines(t)
	t.WriteString("client heap after garbage collection:")
	for i, m := range g.heap {
		fmt.Fprintf(t, "%s %.1f MB %s", comma(i), float64(m.bytes)/1e6, m.when)
	}
	t.WriteString("\n\n" + g.summary() + "\n")
	_, err := io.WriteString(w, t.String())
	return err
}

func comma(i int) string {
	if i > 0 {
		return ","
	}
	return ""
}

const (
	sizesHead = "\n  %-8s %9s %9s %9s %-18s %9s %10s %12s %8s\n"
	sizesLine = "  %-8s %7.2fGB %9s %9s %-18s %9d %8.0f B %10.0f B %8d\n"
)

func (g *growth) sizesTable(w io.Writer) {
	first := g.sizes[0]
	fmt.Fprintf(w, sizesHead, "records", "on disk", "p50", "p99", "p50 x "+first.name, "calls", "WAL/call", "with sweeper", "swept")
	for _, s := range g.sizes {
		calls, swept, wal := s.total()
		fmt.Fprintf(w, sizesLine, s.name, float64(s.bytes)/1e9, micro(s.all.quantile(1, 2)), micro(s.all.quantile(99, 100)),
			s.against(first), calls, s.walPerCall(), float64(wal)/float64(calls), swept)
	}
	fmt.Fprintln(w)
}

// total sums up what happened beside the sweeper.
func (s *size) total() (calls, swept int, wal int64) {
	for _, t := range s.turns {
		calls, swept, wal = calls+t.calls, swept+t.swept, wal+t.wal
	}
	return calls, swept, wal
}

// walPerCall is without the sweeper, in bytes.
func (s *size) walPerCall() float64 {
	var calls int
	var wal int64
	for _, t := range s.turns {
		calls, wal = calls+t.quietCalls, wal+t.quietWAL
	}
	return float64(wal) / float64(calls)
}

// against compares the medians of neighbouring turns.
func (s *size) against(other *size) ratio {
	var of, per []float64
	for i := range s.turns {
		of, per = append(of, float64(s.turns[i].p50)), append(per, float64(other.turns[i].p50))
	}
	return ratioOf(of, per)
}

func (g *growth) sweepLines(w io.Writer) {
	f, name := g.sweeps, g.largest().name
	fmt.Fprintf(w, "sweeping %d expired records of %s beside one worker:", g.options.expire, name)
	for i, rate := range f.rates {
		fmt.Fprintf(w, "%s %.0f/s (calls meanwhile: p50 %s)", comma(i), rate, micro(f.beside[i]))
	}
	fmt.Fprintf(w, "\nsweeping nothing, %d rows deleted before: %s ms the first time, then %s ms; after a vacuum %s ms\n",
		f.dead, milli(f.first), milli(f.idle), milli(f.vacuumed))
}

func milli(d time.Duration) string { return fmt.Sprintf("%.2f", float64(d.Microseconds())/1000) }

// summary is the last line: goals are p50 <= 1.2, sweep_per_s >= 5000, sweep_idle_ms <= 5 (Q02, R12).
func (g *growth) summary() string {
	first, last := g.sizes[0], g.largest()
	pair := last.name + "/" + first.name
	return fmt.Sprintf("growth: p50_%s=%.2f p99_%s=%.2f sweep_per_s=%.0f sweep_idle_ms=%s wal_per_call=%.0f",
		pair, last.against(first).median,
		pair, float64(last.all.quantile(99, 100))/float64(first.all.quantile(99, 100)),
		median(g.sweeps.rates), milli(g.sweeps.idle), last.walPerCall())
}
