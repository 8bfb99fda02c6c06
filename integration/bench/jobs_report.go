package main

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"
)

// The goals: our share of plain River's rate, and how much longer a call takes that submits a job.
const (
	leastShare = 0.8
	mostTimes  = 1.5
)

// report prints the tables, and last the line that programs read.
func (j *jobsBench) report(w io.Writer, took time.Duration) error {
	t := &strings.Builder{}
	fmt.Fprintf(t, "PostgreSQL %s (%s)\n%s; %d CPUs for server and client\n", j.db.server.Version(), j.db.server.Source(), j.db.durability, runtime.NumCPU())
	fmt.Fprintf(t, "%d round(s) of %v per side and setting, %.0f s in all; River fetches at most each %v and at least each %v\n",
		j.options.rounds, j.options.time, took.Seconds(), fetchCooldown, fetchPoll)
	j.ratesTable(t)
	j.timesTable(t)
	j.callsTable(t)
	t.WriteString(jobsLegend)
	j.goals(t)
	fmt.Fprintf(t, "bench-jobs: tput=%.2f submit_p50_ms=%.2f pickup_p50_ms=%.2f\n", j.share(mostWorkers, jobRate.perSecond).median,
		inMS(j.calls.p50(callSubmits, setting{direct, 1})), inMS(medianOf(j.times[ourJobs], pickupTime)))
	_, err := io.WriteString(w, t.String())
	return err
}

const jobsLegend = `
A job is submitted in a transaction with nothing else; its work is one insert. Plain River: InsertTx, JobCompleteTx in
the worker's transaction. Ours: SubmitTx, a definition whose work does nothing but commit. In brackets the middle half.

`

const (
	jobsHead = "\n%-32s %13s %13s  %s\n"
	jobsLine = "  %-30s %13s %13s  %v\n"
)

func (j *jobsBench) ratesTable(w io.Writer) {
	fmt.Fprintf(w, jobsHead, "jobs that wait", j.sides[plainRiver].name, j.sides[ourJobs].name, "ours to River")
	for _, workers := range workerCounts() {
		for _, of := range rateRows() {
			if of.name == cpuRow && median(j.ratesOf(ourJobs, workers, of.number)) == 0 {
				continue
			}
			fmt.Fprintf(w, jobsLine, fmt.Sprintf("%s, %d worker(s)", of.name, workers),
				fmt.Sprintf("%.0f%s", median(j.ratesOf(plainRiver, workers, of.number)), of.unit),
				fmt.Sprintf("%.0f%s", median(j.ratesOf(ourJobs, workers, of.number)), of.unit), j.share(workers, of.number))
		}
	}
}

// rateRow is a row of the table of rates.
type rateRow struct {
	name, unit string
	number     func(jobRate) float64
}

const cpuRow = "CPU per job"

func rateRows() []rateRow {
	return []rateRow{
		{"jobs per second", "", jobRate.perSecond},
		{cpuRow, " us", jobRate.cpuPerJob},
		{"WAL per job", " B", jobRate.walPerJob},
		{"allocations per job", "", jobRate.allocsPerJob},
	}
}

func (r jobRate) perSecond() float64    { return r.rate }
func (r jobRate) cpuPerJob() float64    { return r.cpu }
func (r jobRate) walPerJob() float64    { return r.wal }
func (r jobRate) allocsPerJob() float64 { return r.allocs }

func (j *jobsBench) ratesOf(side, workers int, number func(jobRate) float64) []float64 {
	var all []float64
	for _, r := range j.rates[jobsCell{side, workers}] {
		all = append(all, number(r))
	}
	return all
}

// share compares ours with plain River's slice by slice.
func (j *jobsBench) share(workers int, number func(jobRate) float64) ratio {
	return ratioOf(j.ratesOf(ourJobs, workers, number), j.ratesOf(plainRiver, workers, number))
}

func (j *jobsBench) timesTable(w io.Writer) {
	fmt.Fprintf(w, jobsHead, "one job at a time, p50", j.sides[plainRiver].name, j.sides[ourJobs].name, "ours to River")
	for _, of := range []struct {
		name string
		time func(jobTimes) time.Duration
	}{{"BEGIN to COMMIT", submitTime}, {"COMMIT to work", pickupTime}, {"work to its end", workTime}, {"submitted to done", doneTime}} {
		fmt.Fprintf(w, jobsLine, of.name, micro(medianOf(j.times[plainRiver], of.time)), micro(medianOf(j.times[ourJobs], of.time)),
			ratioOf(numbersOf(j.times[ourJobs], of.time), numbersOf(j.times[plainRiver], of.time)))
	}
}

func numbersOf(all []jobTimes, time func(jobTimes) time.Duration) []float64 {
	numbers := make([]float64, len(all))
	for i, t := range all {
		numbers[i] = float64(time(t))
	}
	return numbers
}

func (j *jobsBench) callsTable(w io.Writer) {
	shapes := j.calls.shapes
	fmt.Fprintf(w, jobsHead, "a protected call that", shapes[callInserts].name, shapes[callSubmits].name, "times")
	for _, link := range []int{direct, distant} {
		set := setting{link, 1}
		fmt.Fprintf(w, jobsLine, "p50, "+j.calls.links[link].name, micro(j.calls.p50(callInserts, set)), micro(j.calls.p50(callSubmits, set)), j.longer(link))
	}
	fmt.Fprintf(w, jobsLine, "round trips", fmt.Sprintf("%.1f", j.calls.turns[callInserts]), fmt.Sprintf("%.1f", j.calls.turns[callSubmits]), "")
	fmt.Fprintf(w, jobsLine, "WAL", fmt.Sprintf("%.0f B", median(j.calls.of(callInserts, setting{direct, 1}, wal))),
		fmt.Sprintf("%.0f B", median(j.calls.of(callSubmits, setting{direct, 1}, wal))), j.calls.ratio(callSubmits, callInserts, setting{direct, 1}, wal))
}

// longer is how much longer a call takes that submits.
func (j *jobsBench) longer(link int) ratio {
	return j.calls.ratio(callSubmits, callInserts, setting{link, 1}, latency)
}

// goals says what was met.
func (j *jobsBench) goals(w io.Writer) {
	word := map[bool]string{true: "met", false: "missed"}
	share := j.share(mostWorkers, jobRate.perSecond).median
	fmt.Fprintf(w, "rate with %d workers, to plain River: %.2f, the goal is %.1f or more: %s\n", mostWorkers, share, leastShare, word[share >= leastShare])
	for _, link := range []int{direct, distant} {
		times := j.longer(link).median
		fmt.Fprintf(w, "a call that submits, to one that writes a row, %s: %.2f, the goal is %.1f or less: %s\n", j.calls.links[link].name, times, mostTimes, word[times <= mostTimes])
	}
}

func inMS(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
