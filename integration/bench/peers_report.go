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
	fmt.Fprintf(t, "%d round(s) of %v per peer and setting, %.0f s in all; one pool of %d for both\n", p.options.rounds, p.options.time, took.Seconds(), dbosConns)
	p.callsTable(t)
	p.jobs.ratesTable(t)
	p.jobs.timesTable(t)
	t.WriteString(peersLegend)
	p.goals(t)
	fmt.Fprintf(t, "bench-peers: vs_dbos_tput=%.2f vs_dbos_lat=%.2f vs_river_jobs=%.2f\n", p.toDBOS(), p.latencyOfDBOS(), p.toRiver())
	_, err := io.WriteString(w, t.String())
	return err
}

const peersLegend = `
DBOS: RunAsTransaction in a workflow whose id is the key, on the pool of the system database. Ours: txidem.Run. The work is one
insert, and the answer is waited for. Jobs are those of bench jobs. In brackets the middle half.

`

func (p *peersBench) callsTable(w io.Writer) {
	fmt.Fprintf(w, jobsHead, "a call with a key", p.shapes[peerDBOS].name, p.shapes[peerOurs].name, "ours to DBOS")
	row := func(name, unit string, set setting, scale float64, number func(sample) float64) {
		fmt.Fprintf(w, jobsLine, name, fmt.Sprintf("%.0f%s", median(p.of(peerDBOS, set, number))*scale, unit),
			fmt.Sprintf("%.0f%s", median(p.of(peerOurs, set, number))*scale, unit), p.ratio(peerOurs, peerDBOS, set, number))
	}
	for _, set := range peerSettings() {
		workers := fmt.Sprintf(", %d worker(s)", set.workers)
		row("p50"+workers, " us", set, 1e-3, latency)
		row("calls per second"+workers, "", set, 1, rate)
		row("WAL per call"+workers, " B", set, 1, wal)
		row("allocations per call"+workers, "", set, 1, allocs)
	}
	fmt.Fprintf(w, jobsLine, "round trips", fmt.Sprintf("%.1f", p.turns[peerDBOS]), fmt.Sprintf("%.1f", p.turns[peerOurs]), "")
}

// toDBOS is our rate with 16 workers, to DBOS's.
func (p *peersBench) toDBOS() float64 {
	return p.ratio(peerOurs, peerDBOS, setting{direct, mostWorkers}, rate).median
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
	fmt.Fprintf(w, "calls with %d workers, to DBOS: %.2f, the goal is %.0f or more: %s\n", mostWorkers, p.toDBOS(), leastToDBOS, word[p.toDBOS() >= leastToDBOS])
	fmt.Fprintf(w, "jobs with %d workers, to plain River: %.2f, the goal is %.1f or more: %s\n", mostWorkers, p.toRiver(), leastShare, word[p.toRiver() >= leastShare])
}
