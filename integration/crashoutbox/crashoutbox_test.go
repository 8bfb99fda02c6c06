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

// testOptions are those of a run without flags, with another seed each time.
func testOptions(t *testing.T, kills string, more ...string) options {
	t.Helper()
	o, err := parseOptions(append([]string{"-n", kills}, more...), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

var (
	lastLine  = regexp.MustCompile(`^crash-outbox: messages=(\d+) deliveries=(\d+) distinct=(\d+) lost=(\d+) out_of_order=(\d+) wrong_key=(\d+)$`)
	killsLine = regexp.MustCompile(`^crash-outbox: kills=(\d+) by_step=publish:\d+,published:\d+,idle:\d+,claimed:\d+,before:\d+,after:\d+,settling:\d+ stopped=\d+ recovery`)
)

// TestCrashOutbox_O01_O02_O03_KilledAtEveryStep runs the program as people do.
func TestCrashOutbox_O01_O02_O03_KilledAtEveryStep(t *testing.T) {
	t.Parallel()
	kills := "21"
	if testing.Short() {
		kills = "7"
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
	if figure(before, 1) < o.kills {
		t.Errorf("%q: want %d kills", before[0], o.kills)
	}
	if n := figure(last, 1); n == 0 || figure(last, 2) <= n || figure(last, 3) != n {
		t.Errorf("%q: want messages, more deliveries, and as many distinct ones", last[0])
	}
	for i := 4; i <= 6; i++ {
		if figure(last, i) != 0 {
			t.Errorf("%q: want no violation", last[0])
		}
	}
}

// TestCrashOutbox_PlantsAreFound: a mistake in the processes must show in the figure that is meant for it.
func TestCrashOutbox_PlantsAreFound(t *testing.T) {
	t.Parallel()
	for planted, shows := range dbtest.Sample(t, 1, map[plant]func(*report) bool{
		deleteFirst:      func(r *report) bool { return r.lost > 0 },
		noLock:           func(r *report) bool { return r.outOfOrder > 0 && r.lost == 0 },
		keyPerAttempt:    func(r *report) bool { return r.wrongKey > 0 && r.lost == 0 },
		publishOutsideTx: func(r *report) bool { return r.distinct > r.messages },
	}) {
		t.Run(string(planted), func(t *testing.T) {
			t.Parallel()
			o := testOptions(t, "14", "-plant", string(planted))
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

// TestCrashOutbox_Interrupted: a run that is interrupted in the middle leaves no process behind and says so.
func TestCrashOutbox_Interrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	began := time.Now()
	_, err := torture(ctx, testOptions(t, "50"), lives.Place{URL: dbtest.URL(t)}, &trigger{of: "crash-outbox: 5 of 50", do: cancel})
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
