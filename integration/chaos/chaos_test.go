package main

import (
	"bytes"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/txonce/txonce/integration/internal/servers"
	"github.com/txonce/txonce/internal/dbtest"
)

func TestMain(m *testing.M) {
	if os.Getenv(processEnv) != "" {
		os.Exit(live(os.Stdin, os.Stderr))
	}
	servers.Main(m)
}

// brewed makes a short run on a server of its own, with fewer calls than usual, and returns its report and its output.
func brewed(t *testing.T, time string, more ...string) (r *result, stdout string) {
	t.Helper()
	o, err := parseOptions(append([]string{"-time", time, "-rate", "12", "-pictures", t.TempDir()}, more...), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	db, err := startPostgres(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Stop(); err != nil {
			t.Error(err)
		}
	})
	var out, errs bytes.Buffer
	if r, err = brew(t.Context(), o, db, &errs); err != nil {
		t.Fatalf("seed %d: %v", o.seed, err)
	}
	r.Write(&out, &errs)
	t.Logf("seed %d\n%s%s", o.seed, errs.String(), out.String())
	return r, out.String()
}

var (
	lastLine  = regexp.MustCompile(`^chaos: intents=(\d+) calls=(\d+) kills=server:(\d+),worker:(\d+),relay:(\d+),db:(\d+) effects=(\d+) duplicates=0 lost=0 wrong_answers=0 jobs_stuck=0 messages_lost=0$`)
	storyLine = regexp.MustCompile(`^chaos: calls_per_s=[\d.]+ stops=server:\d+,worker:\d+,relay:\d+ leaves=server:\d+,worker:\d+,relay:\d+ porcupine=Ok operations=\d+ recovery`)
)

// TestChaos_R19_R02_J09_NothingIsLostOrDoubled: servers, workers, relays and the database are killed while agents make calls.
func TestChaos_R19_R02_J09_NothingIsLostOrDoubled(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("a run of make chaos; not with -short, for .ci/run has a longer one")
	}
	r, stdout := brewed(t, "12s")
	if !r.Good() {
		t.Errorf("the run is not good: %q", r.problems)
	}
	lines := strings.Split(strings.TrimSuffix(stdout, "\n"), "\n")
	last := lastLine.FindStringSubmatch(lines[len(lines)-1])
	if last == nil || !storyLine.MatchString(lines[max(len(lines)-2, 0)]) {
		t.Fatalf("the last lines are %q", lines)
	}
	for _, figure := range last[1:] {
		if n, err := strconv.Atoi(figure); err != nil || n == 0 {
			t.Errorf("%q: want none of the first seven figures to be 0", last[0])
		}
	}
}

// TestChaos_R19_R02_J09_PlantsAreFound: a mistake in the processes must show in the figure that is meant for it. One run after
// the other: each is seven processes and a server.
func TestChaos_R19_R02_J09_PlantsAreFound(t *testing.T) {
	t.Parallel()
	type signs struct{ wanted, foreign func(*result) int } // the second is of a mistake that is not planted
	none := func(*result) int { return 0 }
	for planted, of := range dbtest.Sample(t, 1, map[plant]signs{
		unprotected:     {func(r *result) int { return min(r.duplicates, r.wrongAnswers) }, none},
		rewrites:        {func(r *result) int { return r.wrongAnswers }, func(r *result) int { return r.duplicates }},
		effectOutsideTx: {func(r *result) int { return r.duplicates }, none},
		deleteFirst:     {func(r *result) int { return r.messagesLost }, func(r *result) int { return r.duplicates + r.wrongAnswers }},
		forgets:         {func(r *result) int { return r.lost }, func(r *result) int { return r.duplicates + r.wrongAnswers + r.messagesLost }},
		neverEnds:       {func(r *result) int { return r.jobsStuck }, func(r *result) int { return r.duplicates + r.lost + r.messagesLost }},
	}) {
		t.Run(string(planted), func(t *testing.T) {
			// A slow machine makes few calls in that time, and then a longer run is needed.
			for _, length := range []string{"10s", "30s", "90s"} {
				r, _ := brewed(t, length, "-plant", string(planted), "-stuck", "20s")
				if of.foreign(r) > 0 {
					t.Fatalf("something else shows: %+v", r.verdict)
				}
				if of.wanted(r) > 0 {
					if r.Good() {
						t.Error("a run with a mistake is good")
					}
					return
				}
				t.Logf("after %s the mistake does not show: %+v", length, r.verdict)
			}
			t.Error("the mistake does not show")
		})
	}
}

// TestOptions_LeastKills: a short run must have fewer kills, and no run none.
func TestOptions_LeastKills(t *testing.T) {
	t.Parallel()
	for time, want := range map[string]int{"5s": 1, "36s": 2, "90s": 5, "3m": 10, "1h": 10} {
		o, err := parseOptions([]string{"-time", time}, os.Stderr)
		if got := o.least(); err != nil || got != want {
			t.Errorf("least of %s: %d, %v; want %d", time, got, err, want)
		}
	}
}

// TestOptions_BadOnesAreRefused: with what to use instead.
func TestOptions_BadOnesAreRefused(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"-time", "1s"}, {"-rate", "0"}, {"-stuck", "0s"}, {"-plant", "nothing"}, {"more"}} {
		var said bytes.Buffer
		if _, err := parseOptions(args, &said); err == nil || !strings.HasPrefix(said.String(), "chaos: ") {
			t.Errorf("%q: %v, %q", args, err, said.String())
		}
	}
}
