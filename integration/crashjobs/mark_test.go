package main

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/txonce/txonce/integration/internal/lives"
)

// proofs returns a mark for each point that proves it.
func proofs() map[point]mark {
	answered, unsent, sent, partly := exchange{Size: 9, Written: 9, Read: 5}, exchange{Size: 9}, exchange{Size: 9, Written: 9, Read: 0}, exchange{Size: 9, Written: 4, Read: 0}
	inside := func(t trace) trace {
		t.Computed, t.Locked, t.Open = true, true, answered
		return t
	}
	finishing := func(finish, heard exchange) trace {
		return inside(trace{Written: true, Finish: finish, Heard: heard})
	}
	recording := func(e exchange, returned bool) trace { return trace{Submitted: true, Record: e, Returned: returned} }
	all := make(map[point]mark)
	for p, seen := range map[point]trace{
		submitQueued:     recording(exchange{}, false),
		submitUnsent:     recording(unsent, false),
		submitPart:       recording(partly, false),
		submittedSent:    recording(sent, false),
		submittedUntold:  recording(answered, true),
		beginUnsent:      {Begin: unsent},
		beginSent:        {Begin: sent},
		computeBegun:     {},
		computeDone:      {Computed: true},
		commitLocked:     inside(trace{}),
		commitInside:     inside(trace{Statement: sent}),
		effectWritten:    inside(trace{Written: true}),
		effectUnsent:     finishing(unsent, exchange{}),
		effectPart:       finishing(partly, exchange{}),
		committedSent:    finishing(sent, exchange{}),
		committedSlow:    finishing(sent, exchange{}),
		committedUnheard: finishing(answered, unsent),
	} {
		all[p] = mark{Step: stepOf(p), Point: p, Attempt: "1.1", Trace: seen}
	}
	for p, seen := range map[point]trace{
		stopCompute: {Computed: true},
		stopOpen:    {Computed: true, Open: unsent},
		stopEffect:  finishing(unsent, exchange{}),
	} {
		all[p] = mark{Point: p, Stopped: true, Attempt: "1.1", Trace: seen}
	}
	return all
}

// TestMark_ProvesOnePoint: what was seen at one point is no proof of any other of its kind, but for the two that differ by the
// statement in front of COMMIT.
func TestMark_ProvesOnePoint(t *testing.T) {
	t.Parallel()
	all := proofs()
	for _, s := range steps() {
		for _, p := range points(s) {
			proof := all[p]
			if !proof.proven() || proof.Step != s {
				t.Errorf("%s is not proven by %+v", p, proof)
			}
			for _, q := range points(s) {
				seen := all[q]
				seen.Point = p
				slow := (p == committedSlow || p == committedSent) && (q == committedSlow || q == committedSent)
				if seen.proven() != (p == q || slow) {
					t.Errorf("seen at %s, told as %s: proven is %v", q, p, seen.proven())
				}
			}
			for _, wrong := range steps() {
				if seen := proof; wrong != s {
					if seen.Step = wrong; seen.proven() {
						t.Errorf("%s counts as a death at %s", p, wrong)
					}
				}
			}
		}
	}
	for _, p := range stopPoints() {
		proof := all[p]
		if !proof.proven() {
			t.Errorf("%s is not proven by %+v", p, proof)
		}
		if proof.Stopped = false; proof.proven() {
			t.Errorf("%s counts as a death", p)
		}
	}
	if (mark{}).proven() || (mark{Stopped: true, Attempt: "1.1"}).proven() {
		t.Error("an empty mark proves something")
	}
}

// Wait statuses as the kernel gives them.
const (
	byKill = syscall.WaitStatus(syscall.SIGKILL)
	byTerm = syscall.WaitStatus(syscall.SIGTERM)
	exit0  = syscall.WaitStatus(0)
	exit1  = syscall.WaitStatus(1 << 8)
)

func TestLife_CountsOnlyProvenDeathsBySIGKILL(t *testing.T) {
	t.Parallel()
	good := proofs()[effectPart]
	elsewhere := proofs()[committedUnheard]
	elsewhere.Step, elsewhere.Point = atEffect, effectPart
	for name, c := range map[string]struct {
		status  syscall.WaitStatus
		left    *mark
		stderr  string
		dead    bool
		problem string
	}{
		"killed with a mark":    {status: byKill, left: &good, dead: true},
		"lived":                 {status: exit0},
		"killed without a mark": {status: byKill, problem: "killed by somebody else"},
		"killed elsewhere":      {status: byKill, left: &elsewhere, problem: "not where it was to die"},
		"another signal":        {status: byTerm, left: &good, problem: "survived its death"},
		"ended with a mark":     {status: exit0, left: &good, problem: "survived its death"},
		"failed":                {status: exit1, problem: "ended with status 1"},
		"terminated":            {status: byTerm, problem: "signal terminated"},
		"complained":            {status: exit1, stderr: "no database\n", problem: "complains: no database"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLife(lives.End{Status: c.status, Stderr: []byte(c.stderr)}, c.left, nil)
			if d, dead := l.death(); dead != c.dead || dead && d.Step != atEffect {
				t.Errorf("death: %+v, %v; want %v", d, dead, c.dead)
			}
			if (l.problem == "") != (c.problem == "") || !strings.Contains(l.problem, c.problem) {
				t.Errorf("problem %q, want %q", l.problem, c.problem)
			}
		})
	}
}

func TestReadAnswers_ATornLineIsNoAnswer(t *testing.T) {
	t.Parallel()
	one, two := answer{Intent: 1, Job: "A"}, answer{Intent: 2, Error: "odd"}
	line := func(a answer) string {
		raw, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	for stdout, want := range map[string][]answer{
		"":                                  nil,
		line(one) + "\n" + line(two) + "\n": {one, two},
		line(one) + "\n" + line(two)[:12]:   {one},
		line(one) + "\n" + line(two):        {one},
	} {
		got, _, err := lives.Lines[answer]([]byte(stdout))
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%q: %v\n%s", stdout, err, diff)
		}
	}
	if _, _, err := lives.Lines[answer]([]byte("{\"Intent\n")); err == nil {
		t.Error("a line that is no answer is accepted")
	}
}
