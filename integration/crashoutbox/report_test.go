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
	for i, n := range counts {
		for range n {
			h.deaths = append(h.deaths, dead{mark: mark{Step: steps()[i], Point: points(steps()[i])[0]}})
		}
	}
	return h, b
}

func TestReport_NeedsKillsAtEachStep(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		deaths  []int
		problem string
	}{
		"as asked":     {[]int{20, 20, 20, 10, 10, 10, 10}, ""},
		"too few":      {[]int{20, 20, 20, 10, 10, 10, 9}, "99 kills, 100 were asked for"},
		"one is short": {[]int{20, 20, 20, 20, 10, 10, 4}, "step settling has 4 of 104 kills"},
		"one has none": {[]int{0, 20, 20, 20, 20, 10, 10}, "step publish has 0 of 100 kills"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, b := killed(c.deaths...)
			r := newReport(options{kills: 100}, h, b, 0)
			problems := strings.Join(r.problems, "\n")
			if r.Good() != (c.problem == "") || !strings.Contains(problems, c.problem) {
				t.Errorf("good: %v, problems: %q; want %q", r.Good(), problems, c.problem)
			}
		})
	}
}

// TestReport_Recoveries: until a message is seen again, be it with another relay that dies, but not by the request of the dead one.
func TestReport_Recoveries(t *testing.T) {
	t.Parallel()
	begin := time.Now()
	at := func(seconds int) time.Time { return begin.Add(time.Duration(seconds) * time.Second) }
	h := history{
		arrivals: []arrival{
			{ID: "A", At: at(0)}, {ID: "A", At: at(1).Add(leastGap / 2)}, {ID: "B", At: at(15)}, {ID: "C", At: at(12).Add(lateness), Act: late}, {ID: "A", At: at(40)},
		},
		deaths: []dead{
			{mark{Has: []string{"A", "B", "C", "D"}}, at(1)},
			{mark{Has: []string{"A"}}, at(12)},
		},
	}
	want := []time.Duration{11 * time.Second, 11 * time.Second, 14 * time.Second, 28 * time.Second}
	if got := slices.Sorted(slices.Values(h.recoveries())); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestReport_LastLines(t *testing.T) {
	t.Parallel()
	h, b := killed(3, 2, 2, 1, 1, 1, 1)
	h.problems, h.stopped = []string{"odd"}, []time.Duration{time.Second}
	without(&h, "A")
	r := newReport(options{kills: 11}, h, b, 0)
	r.recovered = []time.Duration{7 * time.Second, 9 * time.Second, 12300 * time.Millisecond}
	var stdout, stderr bytes.Buffer
	r.Write(&stdout, &stderr)
	const want = `
crash-outbox: kills=11 by_step=publish:3,published:2,idle:2,claimed:1,before:1,after:1,settling:1 stopped=1 recovery_max_s=12.3 recovery_p50_s=9.0 recoveries=3
crash-outbox: messages=3 deliveries=4 distinct=2 lost=1 out_of_order=0 wrong_key=0
`
	if !strings.HasSuffix(stdout.String(), want) {
		t.Errorf("got %q, want the last lines %q", stdout.String(), want)
	}
	if !strings.Contains(stderr.String(), "! odd\n") {
		t.Errorf("what is wrong is not explained: %q", stderr.String())
	}
}

func TestParseOptions(t *testing.T) {
	t.Parallel()
	o, err := parseOptions(nil, &bytes.Buffer{})
	if err != nil || o.kills != 60 || o.seed == 0 || o.plant != noPlant || o.stuck != time.Minute {
		t.Errorf("without flags: %+v, %v", o, err)
	}
	o, err = parseOptions([]string{"-n", "7", "-seed", "9", "-plant", "1", "-stuck", "5s"}, &bytes.Buffer{})
	if want := (options{kills: 7, seed: 9, plant: deleteFirst, stuck: 5 * time.Second}); err != nil || o != want {
		t.Errorf("got %+v, %v, want %+v", o, err, want)
	}
	for _, p := range plants() {
		if o, err := parseOptions([]string{"-plant", string(p)}, &bytes.Buffer{}); err != nil || o.plant != p {
			t.Errorf("-plant %s: %+v, %v", p, o, err)
		}
	}
	for _, args := range []string{"-n 6", "-n x", "-plant none", "-stuck 0s", "surplus", "-unheard-of"} {
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
		if s, w := o.share(server), o.share(relay); s+w != kills || s < 2*kills/7 || w < 5*kills/7 {
			t.Errorf("of %d kills, servers have %d and relays %d", kills, s, w)
		}
	}
	if !slices.Equal(append(stepsOf(server), stepsOf(relay)...), steps()) {
		t.Error("the steps of the roles are not the steps")
	}
}
