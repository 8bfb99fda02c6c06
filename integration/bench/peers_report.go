package main

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"
)

// leastToDBOS is the goal (Q01): our rate with 16 workers, to DBOS's. That for jobs is leastShare (Q03).
const leastToDBOS = 5.0

// report prints the tables, and last the line that programs read.
func (p *peersBench) report(w io.Writer, took time.Duration) error {
	t := &strings.Builder{}
	fmt.Fprintf(t, "PostgreSQL %s (%s)\n%s; %d CPUs for server and client\n", p.db.server.Version(), p.db.server.Source(), p.db.durability, runtime.NumCPU())
	fmt.Fprintf(t, "%d round(s) of %v per peer and setting, %.0f s in all; one pool of %d for all, and one more for DBOS with two\n",
		p.options.rounds, p.options.time, took.Seconds(), dbosConns)
	p.callsTable(t)
	p.jobs.ratesTable(t)
	p.jobs.timesTable(t)
	t.WriteString(peersLegend)
	p.goals(t)
	fmt.Fprintf(t, "bench-peers: vs_dbos_tput=%.2f vs_dbos_lat=%.2f vs_river_jobs=%.2f\n", p.rateTo(peerDBOS).median, p.latencyOfDBOS(), p.toRiver())
	_, err := io.WriteString(w, t.String())
	return err
}

const peersLegend = `
DBOS: RunAsTransaction in a workflow whose id is the key, with its system database on a pool of its own, or on the one that all
share, which is quicker, and what the last line is of. The work is one insert, and the answer is waited for. The last two rows have no library: a
transaction with the effect, and one that also inserts our record. Jobs are those of bench jobs. In brackets the middle half.

`

const (
	peersHead = "\n%-29s %11s %9s %9s %9s %9s %7s  %s\n"
	peersLine = "  %-27s %11.1f %6.0f us %9.0f %9.0f %7.0f B %7.0f  %v\n"
)

func (p *peersBench) callsTable(w io.Writer) {
	one, many := setting{direct, 1}, setting{direct, mostWorkers}
	fmt.Fprintf(w, peersHead, "a call with a key", "", "1 worker", "1 worker", "16", "1 worker", "1", "16 workers")
	fmt.Fprintf(w, strings.TrimPrefix(peersHead, "\n"), "", "round trips", "p50", "calls/s", "calls/s", "WAL/call", "allocs", "Run's rate to its rate")
	for i, s := range p.shapes {
		fmt.Fprintf(w, peersLine, s.name, p.turns[i], median(p.of(i, one, latency))*1e-3, median(p.of(i, one, rate)), median(p.of(i, many, rate)),
			median(p.of(i, one, wal)), median(p.of(i, one, allocs)), p.rateTo(i))
	}
}

// rateTo is our rate with 16 workers, to that of a peer.
func (p *peersBench) rateTo(peer int) ratio {
	return p.ratio(peerOurs, peer, setting{direct, mostWorkers}, rate)
}

// latencyOfDBOS is that of one worker, to ours.
func (p *peersBench) latencyOfDBOS() float64 {
	return p.ratio(peerDBOS, peerOurs, setting{direct, 1}, latency).median
}

// toRiver is the rate of our jobs with 16 workers, to plain River's.
func (p *peersBench) toRiver() float64 { return p.jobs.share(mostWorkers, jobRate.perSecond).median }

// goals says what was met.
func (p *peersBench) goals(w io.Writer) {
	word := map[bool]string{true: "met", false: "missed"}
	for _, peer := range []int{peerDBOSTwoPools, peerDBOS} {
		to := p.rateTo(peer).median
		fmt.Fprintf(w, "calls with %d workers, to %s: %.2f, the goal is %.0f or more: %s\n", mostWorkers, p.shapes[peer].name, to, leastToDBOS, word[to >= leastToDBOS])
	}
	fmt.Fprintf(w, "jobs with %d workers, to plain River: %.2f, the goal is %.1f or more: %s\n", mostWorkers, p.toRiver(), leastShare, word[p.toRiver() >= leastShare])
}
