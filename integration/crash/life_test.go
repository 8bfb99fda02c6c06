package main

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/txonce/txonce/integration/internal/lives"
)

// Wait statuses as the kernel gives them.
const (
	byKill = syscall.WaitStatus(syscall.SIGKILL)
	byTerm = syscall.WaitStatus(syscall.SIGTERM)
	exit0  = syscall.WaitStatus(0)
	exit1  = syscall.WaitStatus(1 << 8)
)

// proofs returns a mark for each point of a mode that proves it.
func proofs(m mode) map[point]mark {
	if m == batchMode {
		return batchProofs()
	}
	answered, unsent, sent, partly := exchange{Size: 9, Written: 9, Read: 5}, exchange{Size: 9}, exchange{Size: 9, Written: 9, Read: 0}, exchange{Size: 9, Written: 4, Read: 0}
	last := func(e exchange) trace { return trace{Claim: answered, Handled: true, Finish: e} }
	commit := last
	if m == txMode {
		commit = func(e exchange) trace { return trace{Claim: answered, Handled: true, Finish: answered, Commit: e} }
	}
	told := func(n int) trace {
		t := commit(answered)
		t.Returned, t.Line, t.Told = true, 80, n
		return t
	}
	traces := map[point]trace{
		claimUnsent:  {Claim: unsent},
		claimSent:    {Claim: sent},
		claimHeld:    {Claim: answered},
		betweenTwo:   {Claim: answered, Statements: 1, Statement: answered},
		inStatement:  {Claim: answered, Statements: 3, Statement: sent},
		finishUnsent: last(unsent),
		finishPart:   last(partly),
		commitSent:   commit(sent),
		commitSlow:   commit(sent),
		replyUntold:  told(0),
		replyTorn:    told(30),
	}
	if m == txMode {
		traces[finishHeld] = commit(unsent)
	}
	return marksOf(m, traces)
}

func batchProofs() map[point]mark {
	whole := func(written, read int) trace {
		return trace{Handled: true, Whole: exchange{Size: 90, Written: written, Read: read}, Parts: parts{Record: 20, Effects: 50, Commit: 80}}
	}
	told := func(n int) trace {
		t := whole(90, 5)
		t.Returned, t.Line, t.Told = true, 80, n
		return t
	}
	return marksOf(batchMode, map[point]trace{
		claimUnsent: whole(0, 0), claimPart: whole(20, 0), inEffects: whole(51, 0), finishPart: whole(80, 0),
		commitSent: whole(90, 0), commitSlow: whole(90, 0), replyUntold: told(0), replyTorn: told(30),
	})
}

func marksOf(m mode, traces map[point]trace) map[point]mark {
	all := make(map[point]mark)
	for _, s := range steps() {
		for _, p := range m.points(s) {
			all[p] = mark{Mode: m, Step: s, Point: p, Trace: traces[p]}
			if all[p].Trace.Claim.Read > 0 || m == batchMode {
				proof := all[p]
				proof.Attempt = made
				all[p] = proof
			}
		}
	}
	return all
}

// TestMark_ProvesOnePoint: what was seen at one point is no proof of any other, but for the two that differ by the
// statement in front of COMMIT.
func TestMark_ProvesOnePoint(t *testing.T) {
	t.Parallel()
	for _, m := range allModes() {
		t.Run(string(m), func(t *testing.T) {
			t.Parallel()
			all := proofs(m)
			for p, proof := range all {
				if !proof.proven() {
					t.Errorf("%s is not proven by %+v", p, proof)
				}
				for q, seen := range all {
					seen.Step, seen.Point = proof.Step, p
					if same := q == p || q.isCommit() && p.isCommit(); seen.proven() != same {
						t.Errorf("seen at %s, told as %s: proven is %v", q, p, seen.proven())
					}
				}
				for _, wrong := range steps() {
					seen := proof
					if seen.Step = wrong; seen.proven() && wrong != proof.Step {
						t.Errorf("%s counts as a death at %s", p, wrong)
					}
				}
			}
			if (mark{Mode: m}).proven() {
				t.Error("an empty mark proves something")
			}
		})
	}
}

// TestMark_ABatchThatGoesOnAsRunProvesItsPoints: such a call has two turns.
func TestMark_ABatchThatGoesOnAsRunProvesItsPoints(t *testing.T) {
	t.Parallel()
	for _, p := range []point{claimUnsent, finishPart, commitSent, commitSlow, replyUntold, replyTorn} {
		seen := proofs(runMode)[p]
		seen.Mode, seen.Trace.Handled = batchMode, true
		if !seen.proven() {
			t.Errorf("%s is not proven by %+v", p, seen)
		}
	}
	for _, p := range []point{claimSent, claimHeld, betweenTwo, inStatement, finishUnsent} {
		seen := proofs(runMode)[p]
		if seen.Mode = batchMode; seen.proven() {
			t.Errorf("%s is a point of a batch", p)
		}
	}
}

func (p point) isCommit() bool { return strings.HasPrefix(string(p), string(atCommit)) }

func TestLife_CountsOnlyProvenDeathsBySIGKILL(t *testing.T) {
	t.Parallel()
	good, err := json.Marshal(proofs(runMode)[finishPart])
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := proofs(runMode)[commitSent]
	elsewhere.Step, elsewhere.Point = atFinish, finishPart
	bad, err := json.Marshal(elsewhere)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		status       syscall.WaitStatus
		left, stderr string
		dead         bool
		problem      string
	}{
		"killed with a mark":    {status: byKill, left: string(good), dead: true},
		"lived":                 {status: exit0},
		"killed without a mark": {status: byKill, problem: "killed by somebody else"},
		"killed elsewhere":      {status: byKill, left: string(bad), problem: "not where it was to die"},
		"half a mark":           {status: byKill, left: string(good[:20]), problem: "cannot be understood"},
		"another signal":        {status: byTerm, left: string(good), problem: "survived its death"},
		"ended with a mark":     {status: exit0, left: string(good), problem: "survived its death"},
		"failed":                {status: exit1, problem: "ended with status 1"},
		"terminated":            {status: byTerm, problem: "signal terminated"},
		"complained":            {status: exit1, stderr: "no database\n", problem: "complains: no database"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLife(lives.End{Status: c.status, Stderr: []byte(c.stderr)}, []byte(c.left))
			if d, dead := l.death(); dead != c.dead || dead && d.Step != atFinish {
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
	first, second := `{"Intent":1,"Class":"done","Raw":"MQ=="}`, `{"Intent":2,"Class":"failed"}`
	one := answer{Intent: 1, Class: done, Raw: []byte("1")}
	two := answer{Intent: 2, Class: failed}
	for name, c := range map[string]struct {
		stdout string
		want   []answer
		torn   bool
	}{
		"nothing":             {stdout: ""},
		"two":                 {stdout: first + "\n" + second + "\n", want: []answer{one, two}},
		"a half":              {stdout: first + "\n" + second[:12], want: []answer{one}, torn: true},
		"all but a line feed": {stdout: first + "\n" + second, want: []answer{one}, torn: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, torn, err := lives.Lines[answer]([]byte(c.stdout))
			if diff := cmp.Diff(c.want, got); diff != "" || torn != c.torn || err != nil {
				t.Errorf("torn %v, %v\n%s", torn, err, diff)
			}
		})
	}
	if _, _, err := lives.Lines[answer]([]byte(first[:9] + "\n")); err == nil {
		t.Error("a line that is no answer is accepted")
	}
}
