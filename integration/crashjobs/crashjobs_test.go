package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/txonce/txonce/integration/internal/lives"
	"github.com/txonce/txonce/internal/dbtest"
)

func TestMain(m *testing.M) {
	if os.Getenv(processEnv) != "" {
		os.Exit(live(os.Stdin, os.Stdout, os.Stderr))
	}
	dbtest.Main(m)
}

// testOptions are those of a run without flags, with another seed each time, and without the measurement: it is a minute of its own.
func testOptions(t *testing.T, kills string, more ...string) options {
	t.Helper()
	o, err := parseOptions(append([]string{"-n", kills, "-recoveries", "0"}, more...), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

var (
	lastLine  = regexp.MustCompile(`^crash-jobs: jobs=(\d+) executions=(\d+) effects=(\d+) duplicates=(\d+) lost=(\d+) stuck=(\d+)$`)
	killsLine = regexp.MustCompile(`^crash-jobs: kills=(\d+) by_step=submit:\d+,submitted:\d+,begin:\d+,compute:\d+,commit:\d+,effect:\d+,committed:\d+ stopped=(\d+) recovery`)
)

// TestCrashJobs_J01_J02_J06_J07_KilledAtEveryStep runs the program as people do.
func TestCrashJobs_J01_J02_J06_J07_KilledAtEveryStep(t *testing.T) {
	t.Parallel()
	kills := "28"
	if testing.Short() {
		kills = "14"
	}
	o := testOptions(t, kills)
	var stdout, stderr bytes.Buffer
	status := run(t.Context(), o, &stdout, &stderr)
	t.Logf("seed %d\n%s%s", o.seed, stderr.String(), stdout.String())
	if status != lives.ExitGood {
		t.Errorf("exit status %d, want %d", status, lives.ExitGood)
	}
	lines := strings.Split(strings.TrimSuffix(stdout.String(), "\n"), "\n")
	last, before := lastLine.FindStringSubmatch(lines[len(lines)-1]), killsLine.FindStringSubmatch(lines[max(len(lines)-2, 0)])
	if last == nil || before == nil {
		t.Fatalf("the last lines are %q", lines)
	}
	figure := func(found []string, i int) int {
		n, err := strconv.Atoi(found[i])
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if figure(before, 1) < o.kills || !testing.Short() && figure(before, 2) == 0 {
		t.Errorf("%q: want %d kills, and workers that were stopped", before[0], o.kills)
	}
	if n := figure(last, 1); n == 0 || figure(last, 2) <= n || figure(last, 3) == 0 || figure(last, 3) > n {
		t.Errorf("%q: want jobs, more executions, and no more effects", last[0])
	}
	for i := 4; i <= 6; i++ {
		if figure(last, i) != 0 {
			t.Errorf("%q: want no violation", last[0])
		}
	}
}

// TestCrashJobs_J04_JobsOfAKilledWorkerGoOn measures as the program does. How long it takes is not looked at here: the machine
// may be busy.
func TestCrashJobs_J04_JobsOfAKilledWorkerGoOn(t *testing.T) {
	t.Parallel()
	p := lives.Place{URL: dbtest.URL(t)}
	pool, err := prepare(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	watch, alive, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = watch.Close(), alive.Close() }()
	o := testOptions(t, "7")
	w := &torturer{o: o, pool: pool, schedule: newSchedule(o, p), alive: alive}
	found, err := w.recoveries(t.Context(), 1)
	if left := lives.ProcessesLeft(alive, watch); err != nil || left != nil {
		t.Fatal(err, left)
	}
	t.Log(found, w.history.problems)
	if len(found) != patients*perPatient || len(w.history.problems) > 0 {
		t.Errorf("%d jobs went on, want %d; %v", len(found), patients*perPatient, w.history.problems)
	}
	for _, d := range found {
		if d <= 0 {
			t.Errorf("a job went on %v before its worker was killed", -d)
		}
	}
}

// TestCrashJobs_PlantsAreFound: a mistake in the processes must show in the figure that is meant for it.
func TestCrashJobs_PlantsAreFound(t *testing.T) {
	t.Parallel()
	for planted, shows := range dbtest.Sample(t, 1, map[plant]func(*report) bool{
		completeTx:         func(r *report) bool { return r.duplicates > 0 },
		effectOutsideTx:    func(r *report) bool { return r.duplicates > 0 },
		answerBeforeCommit: func(r *report) bool { return r.lost > 0 && r.duplicates == 0 },
		noRescue:           func(r *report) bool { return r.stuck > 0 && r.duplicates == 0 },
	}) {
		t.Run(string(planted), func(t *testing.T) {
			t.Parallel()
			o := testOptions(t, "21", "-plant", string(planted), "-stuck", "5s")
			var stdout, stderr bytes.Buffer
			r, err := torture(t.Context(), o, lives.Place{URL: dbtest.URL(t)}, &stderr)
			if err != nil {
				t.Fatal(err)
			}
			r.Write(&stdout, &stderr)
			if r.Good() || !shows(r) {
				t.Errorf("seed %d\n%s%s", o.seed, stderr.String(), stdout.String())
			}
		})
	}
}

// TestCrashJobs_Interrupted: a run that is interrupted in the middle leaves no process behind and says so.
func TestCrashJobs_Interrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	began := time.Now()
	_, err := torture(ctx, testOptions(t, "50"), lives.Place{URL: dbtest.URL(t)}, &trigger{of: "crash-jobs: 5 of 50", do: cancel})
	if err == nil || errors.Is(err, lives.ErrLeft) {
		t.Errorf("torture: %v; want an interruption that leaves nothing", err)
	}
	t.Logf("after %v: %v", time.Since(began), err)
}

// trigger is a writer that does something once when a text comes along.
type trigger struct {
	of   string
	do   func()
	once sync.Once
}

func (t *trigger) Write(b []byte) (int, error) {
	if strings.Contains(string(b), t.of) {
		t.once.Do(t.do)
	}
	return len(b), nil
}
