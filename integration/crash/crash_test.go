package main

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
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
	if os.Getenv(workerEnv) != "" {
		os.Exit(work(os.Stdin, os.Stdout, os.Stderr))
	}
	dbtest.Main(m)
}

// testOptions are those of a run without flags, with another seed each time.
func testOptions(t *testing.T, kills string, more ...string) options {
	t.Helper()
	o, err := parseOptions(append([]string{"-n", kills}, more...), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

var lastLine = regexp.MustCompile(`^crash: kills=(\d+) by_step=claim:(\d+),handler:(\d+),finish:(\d+),commit:(\d+),reply:(\d+) ` +
	`intents=(\d+) effects=(\d+) duplicates=(\d+) lost=(\d+) wrong_answers=(\d+)$`)

// TestCrash_R02_R09_I1_I2_I5_KilledAtEveryStep runs the program as people do.
func TestCrash_R02_R09_I1_I2_I5_KilledAtEveryStep(t *testing.T) {
	t.Parallel()
	kills := "300"
	if testing.Short() {
		kills = "60"
	}
	o := testOptions(t, kills)
	var stdout, stderr bytes.Buffer
	status := run(t.Context(), o, &stdout, &stderr)
	t.Logf("seed %d\n%s%s", o.seed, stderr.String(), stdout.String())
	if status != lives.ExitGood {
		t.Errorf("exit status %d, want %d", status, lives.ExitGood)
	}
	lines := strings.Split(strings.TrimSuffix(stdout.String(), "\n"), "\n")
	found := lastLine.FindStringSubmatch(lines[len(lines)-1])
	if found == nil {
		t.Fatalf("the last line is %q", lines[len(lines)-1])
	}
	figure := func(i int) int {
		n, err := strconv.Atoi(found[i])
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for i := 2; i <= 6; i++ {
		if 10*figure(i) < o.kills {
			t.Errorf("%d of %d kills at step %s", figure(i), o.kills, steps()[i-2])
		}
	}
	if figure(1) != o.kills || figure(8) == 0 || figure(8) > figure(7) {
		t.Errorf("%d kills, want %d; %d effects of %d intents", figure(1), o.kills, figure(8), figure(7))
	}
	for i := 9; i <= 11; i++ {
		if figure(i) != 0 {
			t.Errorf("the last line is %q, want no violation", found[0])
		}
	}
}

// TestCrash_R18_OneMode: each way to run alone.
func TestCrash_R18_OneMode(t *testing.T) {
	t.Parallel()
	for _, m := range allModes() {
		t.Run(string(m), func(t *testing.T) {
			t.Parallel()
			tortured(t, testOptions(t, "10", "-mode", string(m)), (*report).Good)
		})
	}
}

// TestCrash_PlantsAreFound: a mistake in the workers must show in the figure that is meant for it.
func TestCrash_PlantsAreFound(t *testing.T) {
	t.Parallel()
	for planted, shows := range dbtest.Sample(t, 1, map[plant]func(*report) bool{
		effectOutsideTx:    func(r *report) bool { return r.duplicates > 0 && r.lost > 0 && r.wrong > 0 },
		answerBeforeCommit: func(r *report) bool { return r.wrong > 0 && r.duplicates == 0 },
		keyPerAttempt:      func(r *report) bool { return r.duplicates > 0 && r.wrong > 0 },
	}) {
		t.Run(string(planted), func(t *testing.T) {
			t.Parallel()
			tortured(t, testOptions(t, "40", "-plant", string(planted)), func(r *report) bool { return !r.Good() && shows(r) })
		})
	}
	for _, m := range sample(allModes()) {
		t.Run(string(m), func(t *testing.T) {
			t.Parallel()
			tortured(t, testOptions(t, "20", "-plant", "1", "-mode", string(m)), func(r *report) bool {
				return !r.Good() && r.duplicates > 0
			})
		})
	}
}

// sample returns the cases, and with -short one of them, another one each time.
func sample[T any](all []T) []T {
	if i := rand.IntN(len(all)); testing.Short() {
		return all[i : i+1]
	}
	return all
}

// tortured runs workers in a database of the test's, and fails if that does not show what it is to.
func tortured(t *testing.T, o options, shows func(*report) bool) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	r, err := torture(t.Context(), o, lives.Place{URL: dbtest.URL(t)}, &stderr)
	if err != nil {
		t.Fatal(err)
	}
	r.Write(&stdout, &stderr)
	if !shows(r) {
		t.Errorf("seed %d\n%s%s", o.seed, stderr.String(), stdout.String())
	}
}

// TestCrash_OneIsolationLevel: the flag holds for all intents.
func TestCrash_OneIsolationLevel(t *testing.T) {
	t.Parallel()
	for _, level := range sample(allIsolations()) {
		t.Run(strings.ReplaceAll(string(level), " ", "_"), func(t *testing.T) {
			t.Parallel()
			tortured(t, testOptions(t, "28", "-isolation", string(level)), (*report).Good)
		})
	}
}

// TestCrash_Interrupted: a run that is interrupted in the middle leaves no process behind and says so.
func TestCrash_Interrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	began := time.Now()
	_, err := torture(ctx, testOptions(t, "50"), lives.Place{URL: dbtest.URL(t)}, &trigger{of: "crash: 5 of 50", do: cancel})
	if err == nil || errors.Is(err, lives.ErrLeft) {
		t.Errorf("torture: %v; want an interruption that leaves nothing", err)
	}
	t.Logf("after %v: %v", time.Since(began), err)
}

func TestCrash_InterruptedStatus(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var stdout bytes.Buffer
	status := run(ctx, testOptions(t, "50"), &stdout, &trigger{of: "crash: 5 of 50", do: cancel})
	if status != lives.ExitInterrupted || stdout.Len() > 0 {
		t.Errorf("exit status %d, want %d; output %q", status, lives.ExitInterrupted, stdout.String())
	}
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
