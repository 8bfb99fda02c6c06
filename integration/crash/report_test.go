package main

import (
	"bytes"
	"strings"
	"testing"
)

// killed is a history without calls and with so many deaths at each step.
func killed(claim, handler, finish, commit, reply int) history {
	var h history
	for i, n := range []int{claim, handler, finish, commit, reply} {
		s := steps()[i]
		for range n {
			h.deaths = append(h.deaths, mark{Step: s, Point: s.pointFor(0)})
		}
	}
	return h
}

func emptyBooks() books { return books{counts: map[int]int{}} }

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
			r := newReport(options{kills: 100}, c.h, emptyBooks(), 0)
			problems := strings.Join(r.problems, "\n")
			if r.good() != (c.problem == "") || !strings.Contains(problems, c.problem) {
				t.Errorf("good: %v, problems: %q; want %q", r.good(), problems, c.problem)
			}
		})
	}
}

func TestReport_LastLine(t *testing.T) {
	t.Parallel()
	h, b := honest()
	h.deaths = append(h.deaths, killed(1, 2, 3, 4, 5).deaths...)
	b.effects = append(b.effects, effect{0, "2.0.1"})
	var stdout, stderr bytes.Buffer
	newReport(options{kills: 17}, h, b, 0).write(&stdout, &stderr)
	const want = "\ncrash: kills=17 by_step=claim:1,handler:2,finish:4,commit:4,reply:6 intents=2 effects=2 duplicates=1 lost=0 wrong_answers=0\n"
	if !strings.HasSuffix(stdout.String(), want) {
		t.Errorf("got %q, want a last line %q", stdout.String(), want)
	}
	if !strings.Contains(stderr.String(), "! intent 0 has 2 effects, of attempts 1.0.1, 2.0.1\n") {
		t.Errorf("the duplicate is not explained: %q", stderr.String())
	}
}

func TestParseOptions(t *testing.T) {
	t.Parallel()
	o, err := parseOptions(nil, &bytes.Buffer{})
	if err != nil || o.kills != 300 || o.seed == 0 || o.plant != noPlant || len(o.isolations) != 3 {
		t.Errorf("without flags: %+v, %v", o, err)
	}
	o, err = parseOptions([]string{"-n", "7", "-seed", "9", "-plant", "1", "-isolation", "SERIALIZABLE"}, &bytes.Buffer{})
	if err != nil || o.kills != 7 || o.seed != 9 || o.plant != effectOutsideTx || len(o.isolations) != 1 || o.isolations[0] != "serializable" {
		t.Errorf("with all flags: %+v, %v", o, err)
	}
	for _, args := range []string{"-n 0", "-n x", "-plant none", "-isolation snapshot", "surplus", "-unheard-of"} {
		var stderr bytes.Buffer
		if _, err := parseOptions(strings.Fields(args), &stderr); err == nil || stderr.Len() == 0 {
			t.Errorf("%s: %v, %q; want an error that is printed", args, err, stderr.String())
		}
	}
}

func TestProgress_OneLineForEachTenth(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p := newProgress(&out, 40)
	for _, n := range []int{1, 2, 3, 5, 4, 6, 40} {
		p.at(n)
	}
	p.end()
	if want := "crash: 5 of 40 kills\ncrash: 40 of 40 kills\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}
