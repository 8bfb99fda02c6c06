package main

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"
)

// report prints the table, and last the line that programs read.
func (b *bench) report(w io.Writer, took time.Duration) error {
	t := &strings.Builder{}
	b.head(t, took)
	for _, set := range settings() {
		b.table(t, set)
	}
	t.WriteString(legend)
	t.WriteString(b.summary() + "\n")
	_, err := io.WriteString(w, t.String())
	return err
}

const legend = `
bare    begin, effect, commit                   ours    txidem.Run, first call
floor   bare and the insert of the record       replay  txidem.Run, call that is recorded
five    begin, claim, effect, finish, commit    batch   txidem.RunBatch, first call
by hand claim, commit; finish, commit           leased  txidem.RunLeased, first call
                                                x bare  median (middle half)

`

// head says what was measured on.
func (b *bench) head(t *strings.Builder, took time.Duration) {
	fmt.Fprintf(t, "PostgreSQL %s (%s)\n%s; %d CPUs for server and client\n",
		b.db.server.Version(), b.db.server.Source(), b.db.durability, runtime.NumCPU())
	fmt.Fprintf(t, "%d round(s) of %v per shape and setting, %.0f s in all\nround trip of select 1:",
		b.options.rounds, b.options.time, took.Seconds())
	for i, l := range b.links {
		fmt.Fprintf(t, "%s %s (%s)", []string{"", ","}[i], micro(l.roundTrip), l.name)
	}
	t.WriteString("\n")
	if strings.Contains(b.db.server.Source(), "tmpfs") {
		t.WriteString("the data is in memory, where fsync costs nothing: what is added to bare weighs more than on a disk\n")
	}
	if b.db.checkpoint != "" {
		fmt.Fprintf(t, "no checkpoints (%s): more of the WAL is page images\n", b.db.checkpoint)
	}
}

const (
	headFormat = "  %-7s %5s  %9s  %-18s %8s  %-18s %9s %12s\n"
	lineFormat = "  %-7s %5.1f  %9s  %-18s %8.0f  %-18s %7.0f B %12.0f\n"
)

func (b *bench) table(w io.Writer, set setting) {
	workers := "1 worker"
	if set.workers > 1 {
		workers = fmt.Sprintf("%d workers", set.workers)
	}
	fmt.Fprintf(w, "\n%s, %s\n", b.links[set.link].name, workers)
	fmt.Fprintf(w, headFormat, "", "turns", "p50", "x bare", "calls/s", "x bare", "WAL/call", "allocs/call")
	for i, s := range b.shapes {
		fmt.Fprintf(w, lineFormat, s.name, b.turns[i],
			micro(time.Duration(median(b.of(i, set, latency)))), b.ratio(i, bare, set, latency),
			median(b.of(i, set, rate)), b.ratio(i, bare, set, rate),
			median(b.of(i, set, wal)), median(b.of(i, set, allocs)))
	}
}

func micro(d time.Duration) string { return fmt.Sprintf("%d us", d.Microseconds()) }

// summary is the last line. of_floor is ours against floor slice by slice, like the other ratios, and not the quotient
// of two medians.
func (b *bench) summary() string {
	one, many := setting{direct, 1}, setting{direct, mostWorkers}
	far, farMany := setting{distant, 1}, setting{distant, mostWorkers}
	return fmt.Sprintf("bench: lat_1ms=%.2f lat_sock=%.2f tput16=%.2f tput16_1ms=%.2f floor=%.2f of_floor=%.2f vs_five=%.2f replay=%.2f allocs=%.0f batch_1ms=%.2f batch_tput16=%.2f leased_1ms=%.2f",
		b.ratio(ours, bare, far, latency).median,
		b.ratio(ours, bare, one, latency).median,
		b.ratio(ours, bare, many, rate).median,
		b.ratio(ours, bare, farMany, rate).median,
		b.ratio(floor, bare, many, rate).median,
		b.ratio(ours, floor, many, rate).median,
		b.ratio(ours, five, many, rate).median,
		b.ratio(replay, ours, one, rate).median,
		median(b.of(ours, one, allocs)),
		b.ratio(batch, bare, far, latency).median,
		b.ratio(batch, bare, many, rate).median,
		b.ratio(leased, byHand, far, latency).median)
}
