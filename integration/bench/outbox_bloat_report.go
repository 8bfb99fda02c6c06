package main

import (
	"fmt"
	"io"
)

const (
	bloatHead = "\n%-24s %8s %8s %10s %10s %9s %10s %10s\n"
	bloatLine = "  %-22s %8.0f %8d %7.1f ms %7.1f ms %9.0f %7.2f ms %7.2f ms\n"
)

// report prints the tables, and last the line that programs read.
func (l *bloat) report(w io.Writer) {
	fmt.Fprintf(w, "%d messages a second, published %d in a transaction, half of them with one of %d ordering keys; bodies of %d B; one relay, %d attempts at a time;\n"+
		"messages are kept for a minute. A snapshot (REPEATABLE READ) is held in the same database for %v\n",
		bloatPerSecond, bloatEach, bloatKeys, bodySize, l.bench.options.concurrency, l.bench.options.bloat)
	fmt.Fprintf(w, bloatHead, "", "msgs/s", "waiting", "trip p50", "trip p99", "claims/s", "claim p50", "claim p99")
	for _, s := range l.states {
		fmt.Fprintf(w, bloatLine, s.name, s.rate, s.waiting, inMS(s.trip.p50), inMS(s.trip.p99), s.claimRate, inMS(s.claim.p50), inMS(s.claim.p99))
	}
	fmt.Fprintf(w, "\nA trip is from the answer of COMMIT to the receiver; a claim is one round trip of the relay.\n")
	fmt.Fprintf(w, "\n%-24s", "MB, of indexes, dead")
	for _, table := range bloatTables() {
		fmt.Fprintf(w, " %26s", table)
	}
	fmt.Fprintln(w)
	for _, s := range l.states {
		fmt.Fprintf(w, "  %-22s", s.name)
		for _, t := range s.tables {
			fmt.Fprintf(w, " %8.1f %7.1f %9d", inMB(t.table), inMB(t.indexes), t.dead)
		}
		fmt.Fprintln(w)
	}
	l.summary(w)
}

// pendingMB is the size of the backlog's table with its indexes.
func (s *bloatState) pendingMB() float64 { return inMB(s.tables[0].table + s.tables[0].indexes) }

func (l *bloat) summary(w io.Writer) {
	free, held := &l.states[0], &l.states[l.last[0]]
	vacuumed, end := &l.states[l.last[1]], &l.states[len(l.states)-1]
	fmt.Fprintf(w, "\nmessage_pending with its indexes behind the vacuum: %.1f MB, at the end %.1f MB\n", vacuumed.pendingMB(), end.pendingMB())
	fmt.Fprintf(w, "bench-outbox: bloat_msgs_per_s=%.0f claim_p99_ms=%.2f claim_p99_held_ms=%.2f trip_p99_ms=%.1f trip_p99_held_ms=%.1f pending_held_mb=%.1f pending_end_mb=%.1f\n",
		held.rate, inMS(free.claim.p99), inMS(held.claim.p99), inMS(free.trip.p99), inMS(held.trip.p99), held.pendingMB(), end.pendingMB())
}
