package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// killed is a history without calls and with so many deaths at each step of runs.
func killed(claim, handler, finish, commit, reply int) history {
	return history{deaths: deathsOf(runMode, claim, handler, finish, commit, reply)}
}

func deathsOf(m mode, counts ...int) (deaths []mark) {
	for i, n := range counts {
		s := steps()[i]
		for range n {
			deaths = append(deaths, mark{Mode: m, Step: s, Point: m.pointFor(s, 0)})
		}
	}
	return deaths
}

func emptyBooks() books { return books{} }

func TestReport_NeedsTheKillsThatWereAskedForAndATenthAtEachStep(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		h       history
		problem string
	}{
		"as asked":      {h: killed(20, 20, 20, 20, 20)},
		"just enough":   {h: killed(10, 30, 30, 20, 10)},
		"too few":       {h: killed(20, 20, 20, 20, 19), problem: "99 kills, 100 were asked for"},
		"none":          {h: killed(0, 0, 0, 0, 0), problem: "0 kills"},
		"one is short":  {h: killed(9, 23, 23, 23, 22), problem: "step claim has 9 of 100 kills"},
		"one has none":  {h: killed(25, 25, 25, 25, 0), problem: "step reply has 0 of 100 kills"},
		"something odd": {h: history{problems: []string{"odd"}, deaths: killed(20, 20, 20, 20, 20).deaths}, problem: "odd"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newReport(options{kills: 100, modes: []mode{runMode}}, c.h, emptyBooks(), 0)
			problems := strings.Join(r.problems, "\n")
			if r.Good() != (c.problem == "") || !strings.Contains(problems, c.problem) {
				t.Errorf("good: %v, problems: %q; want %q", r.Good(), problems, c.problem)
			}
		})
	}
}

func TestReport_EachModeNeedsItsShare(t *testing.T) {
	t.Parallel()
	o := options{kills: 41, modes: []mode{runMode, leasedMode}}
	for name, c := range map[string]struct {
		run, leased []int
		problem     string
	}{
		"as asked":         {[]int{5, 4, 4, 4, 4}, []int{4, 4, 4, 4, 4}, ""},
		"one has too few":  {[]int{5, 4, 4, 4, 5}, []int{4, 4, 4, 4, 3}, "leased: 19 kills, 20 were asked for"},
		"a step has none":  {[]int{5, 4, 4, 4, 4}, []int{8, 4, 4, 4, 0}, "leased: step reply has 0 of 20 kills"},
		"all have too few": {[]int{4, 4, 4, 4, 4}, []int{4, 4, 4, 4, 4}, "40 kills, 41 were asked for"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := history{deaths: append(deathsOf(runMode, c.run...), deathsOf(leasedMode, c.leased...)...)}
			r := newReport(o, h, emptyBooks(), 0)
			problems := strings.Join(r.problems, "\n")
			if r.Good() != (c.problem == "") || !strings.Contains(problems, c.problem) {
				t.Errorf("good: %v, problems: %q; want %q", r.Good(), problems, c.problem)
			}
		})
	}
}

func TestReport_LastLines(t *testing.T) {
	t.Parallel()
	h, b := honest()
	for i := range h.told {
		h.told[i].Mode = runMode
	}
	for i := range h.deaths {
		h.deaths[i].Mode = runMode
	}
	h.deaths = append(h.deaths, deathsOf(runMode, 1, 2, 3, 4, 5)...)
	h.deaths = append(h.deaths, deathsOf(txMode, 1, 1, 1, 1, 1)...)
	b.effects = append(b.effects, effect{0, "2.0.1/tx"})
	say(&h, answer{Mode: txMode, Intent: 0, Class: done, Raw: []byte(doneRaw), ID: "C"})
	var stdout, stderr bytes.Buffer
	newReport(options{kills: 22, modes: []mode{runMode, txMode}}, h, b, 0).Write(&stdout, &stderr)
	const want = `
crash: run: kills=17 by_step=claim:1,handler:2,finish:4,commit:4,reply:6 intents=2 effects=1 duplicates=0 lost=0 wrong_answers=0
crash: tx: kills=5 by_step=claim:1,handler:1,finish:1,commit:1,reply:1 intents=1 effects=1 duplicates=1 lost=0 wrong_answers=1
crash: kills=22 by_step=claim:2,handler:3,finish:5,commit:5,reply:7 intents=2 effects=2 duplicates=1 lost=0 wrong_answers=1
`
	if !strings.HasSuffix(stdout.String(), want) {
		t.Errorf("got %q, want the last lines %q", stdout.String(), want)
	}
	if !strings.Contains(stderr.String(), "! intent 0 has 2 effects, of attempts 1.0.1/run, 2.0.1/tx\n") {
		t.Errorf("the duplicate is not explained: %q", stderr.String())
	}
}

func TestParseOptions(t *testing.T) {
	t.Parallel()
	o, err := parseOptions(nil, &bytes.Buffer{})
	if err != nil || o.kills != 300 || o.seed == 0 || o.plant != noPlant || len(o.isolations) != 3 || len(o.modes) != 4 {
		t.Errorf("without flags: %+v, %v", o, err)
	}
	o, err = parseOptions([]string{"-n", "7", "-seed", "9", "-plant", "1", "-isolation", "SERIALIZABLE", "-mode", "tx"}, &bytes.Buffer{})
	if err != nil || o.kills != 7 || o.seed != 9 || o.plant != effectOutsideTx || len(o.isolations) != 1 || o.isolations[0] != "serializable" ||
		!slices.Equal(o.modes, []mode{txMode}) {
		t.Errorf("with all flags: %+v, %v", o, err)
	}
	for _, args := range []string{"-n 0", "-n x", "-plant none", "-isolation snapshot", "-mode none", "surplus", "-unheard-of"} {
		var stderr bytes.Buffer
		if _, err := parseOptions(strings.Fields(args), &stderr); err == nil || stderr.Len() == 0 {
			t.Errorf("%s: %v, %q; want an error that is printed", args, err, stderr.String())
		}
	}
}
