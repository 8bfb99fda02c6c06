package main

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"
)

// The goals (Q03): messages a second from the call to the receiver, and how much longer a protected call takes that publishes one.
const (
	leastUnordered = 3000
	leastOrdered   = 1000
	mostPublish    = 1.3
)

// report prints the tables, and last the line that programs read.
func (b *outboxBench) report(w io.Writer, took time.Duration) error {
	t := &strings.Builder{}
	fmt.Fprintf(t, "PostgreSQL %s (%s)\n%s; %d CPUs for server and client; %.0f s in all\n",
		b.db.server.Version(), b.db.server.Source(), b.db.durability, runtime.NumCPU(), took.Seconds())
	if b.bloat != nil {
		b.bloat.report(t)
	} else {
		fmt.Fprintf(t, "%d round(s) of %v per setting; bodies of %d B; a relay makes %d attempts at a time\n", b.options.rounds, b.options.time, bodySize, b.options.concurrency)
		b.tables(t)
	}
	_, err := io.WriteString(w, t.String())
	return err
}

func (b *outboxBench) tables(w io.Writer) {
	for _, of := range []struct {
		measured bool
		table    func(io.Writer)
	}{{b.rates != nil, b.ratesTable}, {b.trips != nil, b.tripsTable}, {b.drains != nil, b.drainsTable}, {b.calls != nil, b.callsTable}} {
		if of.measured {
			of.table(w)
		}
	}
	if b.rates != nil && b.trips != nil && b.calls != nil {
		b.goals(w)
	}
}

const (
	outRatesHead = "\n%-32s %9s %-13s %8s %8s %10s %9s\n"
	outRatesLine = "  %-30s %9.0f %-13s %8.0f %8.0f %7s us %7.0f B\n"
	outTripsHead = "\n%-48s %9s %9s %9s\n"
	outTripsLine = "  %-46s %6.1f ms %6.1f ms %6.1f ms\n"
	outDrainLine = "  %-46s %9.0f %s\n"
)

func (b *outboxBench) ratesTable(w io.Writer) {
	fmt.Fprintf(w, outRatesHead, fmt.Sprintf("published by %d, delivered", mostWorkers), "msgs/s", "middle half", "backlog", "at end", "CPU/msg", "WAL/msg")
	for _, c := range b.rates {
		rates := c.of(rateSample.perSecond)
		fmt.Fprintf(w, outRatesLine, c.name, median(rates), fmt.Sprintf("(%.0f-%.0f)", quantile(rates, 1, 4), quantile(rates, 3, 4)),
			median(c.of(rateSample.waiting)), median(c.of(rateSample.atEnd)), b.spentOn(c), median(c.of(rateSample.logged)))
	}
	fmt.Fprintf(w, "\nCalls: txidem.Run, whose handler does nothing but publish. Backlog: messages committed or about to be, and not\n"+
		"delivered; %d at most: where there are nearly as many, who publishes waits for the relay. The first relay is in the\n"+
		"process that publishes. CPU and WAL are those of a message's whole way, the publishing included.\n", mostUndelivered)
}

func (s rateSample) perSecond() float64 { return s.rate }
func (s rateSample) waiting() float64   { return s.backlog }
func (s rateSample) atEnd() float64     { return s.left }
func (s rateSample) spent() float64     { return s.cpu }
func (s rateSample) logged() float64    { return s.wal }

func (c *rateCell) of(number func(rateSample) float64) []float64 {
	var all []float64
	for _, s := range c.samples {
		all = append(all, number(s))
	}
	return all
}

// spentOn is the CPU time of a message, where that of the server is known too.
func (b *outboxBench) spentOn(c *rateCell) string {
	if len(b.pids) == 0 {
		return "?"
	}
	return known(c.of(rateSample.spent), 1e-3)
}

func (c *rateCell) rate() float64 { return median(c.of(rateSample.perSecond)) }

func (b *outboxBench) tripsTable(w io.Writer) {
	fmt.Fprintf(w, outTripsHead, fmt.Sprintf("from COMMIT to the receiver, %d messages/s", tripsPerSecond), "p50", "p99", "longest")
	for _, c := range b.trips {
		fmt.Fprintf(w, outTripsLine, c.name, inMS(quantile(c.took, 1, 2)), inMS(quantile(c.took, 99, 100)), inMS(quantile(c.took, len(c.took)-1, len(c.took))))
	}
}

func (b *outboxBench) drainsTable(w io.Writer) {
	fmt.Fprintf(w, "\n%-48s %9s\n", fmt.Sprintf("a backlog of %d, one relay", b.options.backlog), "msgs/s")
	for _, c := range b.drains {
		fmt.Fprintf(w, outDrainLine, c.name, median(c.rates), fmt.Sprintf("(%.0f-%.0f)", quantile(c.rates, 1, 4), quantile(c.rates, 3, 4)))
	}
}

func (b *outboxBench) callsTable(w io.Writer) {
	p := b.calls
	fmt.Fprintf(w, jobsHead, "a protected call that has", p.shapes[callWithout].name, p.shapes[callWith].name, "times")
	row := func(name, unit string, set setting, scale float64, number func(sample) float64) {
		fmt.Fprintf(w, jobsLine, name, fmt.Sprintf("%.0f%s", median(p.of(callWithout, set, number))*scale, unit),
			fmt.Sprintf("%.0f%s", median(p.of(callWith, set, number))*scale, unit), p.ratio(callWith, callWithout, set, number))
	}
	near, many := setting{direct, 1}, setting{direct, mostWorkers}
	row("p50, "+p.links[direct].name, " us", near, 1e-3, latency)
	row("p50, "+p.links[distant].name, " us", setting{distant, 1}, 1e-3, latency)
	row(fmt.Sprintf("calls/s, %d workers", mostWorkers), "", many, 1, rate)
	if cpuKnown && len(p.pids) > 0 {
		row("CPU of client and server", " us", near, 1e-3, spent)
		row(fmt.Sprintf("CPU, %d workers", mostWorkers), " us", many, 1e-3, spent)
	}
	row("WAL", " B", near, 1, wal)
	fmt.Fprintf(w, jobsLine, "round trips", fmt.Sprintf("%.1f", p.turns[callWithout]), fmt.Sprintf("%.1f", p.turns[callWith]), "")
	fmt.Fprintf(w, "\nNo relay is running. In brackets the middle half.\n")
}

func spent(s sample) float64 { return s.cpu }

// cost is how much longer a call takes that publishes a message.
func (b *outboxBench) cost(link int) float64 {
	return b.calls.ratio(callWith, callWithout, setting{link, 1}, latency).median
}

// goals says what was met, and the line.
func (b *outboxBench) goals(w io.Writer) {
	fmt.Fprintln(w)
	word := map[bool]string{true: "met", false: "missed"}
	unordered, ordered := b.rates[unorderedCalls].rate(), b.rates[orderedCalls].rate()
	for _, of := range []struct {
		name string
		rate float64
		goal float64
	}{{b.rates[unorderedCalls].name, unordered, leastUnordered}, {b.rates[orderedCalls].name, ordered, leastOrdered}} {
		fmt.Fprintf(w, "%s: %.0f messages a second, the goal is %.0f or more: %s\n", of.name, of.rate, of.goal, word[of.rate >= of.goal])
	}
	for _, link := range []int{direct, distant} {
		cost := b.cost(link)
		fmt.Fprintf(w, "a call with a message, to one without, %s: %.2f, the goal is %.1f or less: %s\n", b.calls.links[link].name, cost, mostPublish, word[cost <= mostPublish])
	}
	fmt.Fprintf(w, "bench-outbox: unordered_per_s=%.0f ordered_per_s=%.0f p50_ms=%.2f publish_cost=%.2f\n",
		unordered, ordered, inMS(median(b.trips[nearTrips].took)), b.cost(direct))
}
