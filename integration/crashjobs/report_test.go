package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"
)

// killed is an honest history with so many deaths at each step.
func killed(counts ...int) (history, books) {
	h, b := honest()
	h.deaths = nil
	for i, n := range counts {
		for range n {
			h.deaths = append(h.deaths, mark{Step: steps()[i], Point: points(steps()[i])[0]})
		}
	}
	return h, b
}

func TestReport_J04_NeedsKillsAtEachStepAndSoonRecovery(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		deaths    []int
		recovered []time.Duration
		problem   string
	}{
		"as asked":     {[]int{20, 20, 20, 10, 10, 10, 10}, []time.Duration{longestGap}, ""},
		"unmeasured":   {[]int{20, 20, 20, 10, 10, 10, 10}, nil, ""},
		"too few":      {[]int{20, 20, 20, 10, 10, 10, 9}, nil, "99 kills, 100 were asked for"},
		"one is short": {[]int{20, 20, 20, 20, 10, 10, 4}, nil, "step committed has 4 of 104 kills"},
		"one has none": {[]int{0, 20, 20, 20, 20, 10, 10}, nil, "step submit has 0 of 100 kills"},
		"too late":     {[]int{20, 20, 20, 10, 10, 10, 10}, []time.Duration{time.Second, longestGap + time.Second}, "went on after 16.0 s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, b := killed(c.deaths...)
			r := newReport(options{kills: 100}, h, b, c.recovered, 0)
			problems := strings.Join(r.problems, "\n")
			if r.Good() != (c.problem == "") || !strings.Contains(problems, c.problem) {
				t.Errorf("good: %v, problems: %q; want %q", r.Good(), problems, c.problem)
			}
		})
	}
}

func TestReport_LastLines(t *testing.T) {
	t.Parallel()
	h, b := killed(3, 2, 2, 1, 1, 1, 1)
	h.problems = []string{"odd"}
	b.effects = append(b.effects, effect{0, "A", "4.1"})
	b.jobs = append(b.jobs, row{ID: "E", Intent: 3, State: "queued"})
	recovered := []time.Duration{9 * time.Second, 7 * time.Second, 12300 * time.Millisecond}
	var stdout, stderr bytes.Buffer
	newReport(options{kills: 11}, h, b, recovered, 0).Write(&stdout, &stderr)
	const want = `
crash-jobs: kills=11 by_step=submit:3,submitted:2,begin:2,compute:1,commit:1,effect:1,committed:1 stopped=1 recovery_max_s=12.3 recovery_p50_s=9.0 recoveries=3
crash-jobs: jobs=5 executions=7 effects=2 duplicates=1 lost=0 stuck=1
`
	if !strings.HasSuffix(stdout.String(), want) {
		t.Errorf("got %q, want the last lines %q", stdout.String(), want)
	}
	if !strings.Contains(stderr.String(), "! odd\n") || !strings.Contains(stderr.String(), "! intent 0 has 2 effects") {
		t.Errorf("what is wrong is not explained: %q", stderr.String())
	}
}

func TestParseOptions(t *testing.T) {
	t.Parallel()
	o, err := parseOptions(nil, &bytes.Buffer{})
	if err != nil || o.kills != 200 || o.seed == 0 || o.plant != noPlant || o.recoveries != 24 || o.stuck != time.Minute {
		t.Errorf("without flags: %+v, %v", o, err)
	}
	o, err = parseOptions([]string{"-n", "7", "-seed", "9", "-plant", "1", "-stuck", "5s"}, &bytes.Buffer{})
	if want := (options{kills: 7, seed: 9, plant: completeTx, stuck: 5 * time.Second}); err != nil || o != want {
		t.Errorf("got %+v, %v, want %+v", o, err, want)
	}
	for _, p := range plants() {
		if o, err := parseOptions([]string{"-plant", string(p)}, &bytes.Buffer{}); err != nil || o.plant != p || o.recoveries != 0 {
			t.Errorf("-plant %s: %+v, %v", p, o, err)
		}
	}
	for _, args := range []string{"-n 6", "-n x", "-plant none", "-recoveries -1", "-stuck 0s", "surplus", "-unheard-of"} {
		var stderr bytes.Buffer
		if _, err := parseOptions(strings.Fields(args), &stderr); err == nil || stderr.Len() == 0 {
			t.Errorf("%s: %v, %q; want an error that is printed", args, err, stderr.String())
		}
	}
}

func TestOptions_ShareIsTheSameAtEachStep(t *testing.T) {
	t.Parallel()
	for _, kills := range []int{7, 70, 400} {
		o := options{kills: kills}
		if s, w := o.share(server), o.share(worker); s+w != kills || s < 2*kills/7 || w < 5*kills/7 {
			t.Errorf("of %d kills, servers have %d and workers %d", kills, s, w)
		}
	}
	if !slices.Equal(append(stepsOf(server), stepsOf(worker)...), steps()) {
		t.Error("the steps of the roles are not the steps")
	}
}
