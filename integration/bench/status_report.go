package main

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"
)

// The goals: reads a second of calls that have ended, and how long somebody who waits learns of an end in another process.
const (
	leastReads = 20_000
	mostWake   = 100 * time.Millisecond
)

// report prints the tables, and last the line that programs read.
func (s *statusBench) report(w io.Writer, took time.Duration) error {
	t := &strings.Builder{}
	fmt.Fprintf(t, "PostgreSQL %s (%s)\n%s; %d CPUs for server and client; %.0f s in all\n",
		s.db.server.Version(), s.db.server.Source(), s.db.durability, runtime.NumCPU(), took.Seconds())
	s.readsTable(t)
	s.wakesTable(t)
	s.goals(t)
	fmt.Fprintf(t, "bench-status: reads_per_s=%.0f rowless_reads_per_s=%.0f wake_p99_ms=%.1f conns=%d\n",
		s.rate(readFinished), s.rate(readRowless), inMS(s.wake()), s.conns())
	_, err := io.WriteString(w, t.String())
	return err
}

const (
	readsHead = "\n%-35s %9s  %-18s %10s %10s %10s\n"
	readsLine = "%-35s %9.0f  %-18s %7s us %7s us %10s\n"
	wakesHead = "\n%-35s %9s %9s %9s %9s %9s %6s\n"
	wakesLine = "%-35s %6.1f ms %6.1f ms %6.1f ms %9.1f %6.1f ms %6d\n"
)

func (s *statusBench) readsTable(w io.Writer) {
	fmt.Fprintf(w, readsHead, fmt.Sprintf("%d workers, one call each", mostWorkers), "reads/s", "to the row alone", "client", "server", "CPUs allow")
	for i, kind := range s.kinds {
		fmt.Fprintf(w, readsLine, kind.name, s.rate(i), ratioOf(s.of(i, readSample.perSecond), s.of(readRow, readSample.perSecond)),
			known(s.of(i, readSample.ofClient), 1e-3), known(s.of(i, readSample.ofServer), 1e-3), s.allowed(i))
	}
	fmt.Fprintf(w, "\nClient and server are the CPU time of a read; what the CPUs allow is what they could do if nothing else had to be done.\n")
}

func (r readSample) perSecond() float64 { return r.rate }
func (r readSample) ofClient() float64  { return r.client }
func (r readSample) ofServer() float64  { return r.server }

func (r readSample) ofBoth() float64 { return r.client + r.server }

// known writes a median where the server's part of it could be measured.
func known(numbers []float64, unit float64) string {
	if m := median(numbers); cpuKnown && m > 0 {
		return fmt.Sprintf("%.0f", m*unit)
	}
	return "?"
}

// allowed is how many reads there would be in a second of all CPUs.
func (s *statusBench) allowed(kind int) string {
	all, server := s.of(kind, readSample.ofBoth), s.of(kind, readSample.ofServer)
	if median(server) == 0 {
		return "?"
	}
	return known([]float64{float64(runtime.NumCPU()) * 1e9 / median(all)}, 1)
}

func (s *statusBench) of(kind int, number func(readSample) float64) []float64 {
	var all []float64
	for _, sample := range s.samples[kind] {
		all = append(all, number(sample))
	}
	return all
}

func (s *statusBench) rate(kind int) float64 { return median(s.of(kind, readSample.perSecond)) }

func (s *statusBench) wakesTable(w io.Writer) {
	fmt.Fprintf(w, wakesHead, fmt.Sprintf("%d wait, %d ends/s", s.options.waiters, s.options.perSec), "p50", "p99", "longest", "looks/s", "a look", "conns")
	for _, c := range s.wakes {
		fmt.Fprintf(w, wakesLine, c.name, inMS(quantile(c.took, 1, 2)), inMS(quantile(c.took, 99, 100)), inMS(quantile(c.took, len(c.took)-1, len(c.took))),
			float64(c.looks)/c.lasted.Seconds(), inMS(c.look), c.conns)
	}
	fmt.Fprintf(w, "\nA wake is from the answer of COMMIT to the answer of the status tool; a look is one question to one source. Connections\n"+
		"are the most that were open, of a pool of %d where nothing but waiting is done, and of %d where the work is done as well.\n\n", fewConns, manyConns)
}

// wake is the worse of those who wait for another process.
func (s *statusBench) wake() (p99 time.Duration) {
	for _, c := range s.wakes {
		if !c.near {
			p99 = max(p99, quantile(c.took, 99, 100))
		}
	}
	return p99
}

func (s *statusBench) conns() (most int) {
	for _, c := range s.wakes {
		if !c.near {
			most = max(most, c.conns)
		}
	}
	return most
}

// goals says what was met.
func (s *statusBench) goals(w io.Writer) {
	word := map[bool]string{true: "met", false: "missed"}
	fmt.Fprintf(w, "reads of calls that have ended: %.0f a second, the goal is %d or more: %s\n", s.rate(readFinished), leastReads, word[s.rate(readFinished) >= leastReads])
	fmt.Fprintf(w, "p99 of those who wait for another process: %.1f ms, the goal is %.0f ms or less: %s\n", inMS(s.wake()), inMS(mostWake), word[s.wake() <= mostWake])
}
