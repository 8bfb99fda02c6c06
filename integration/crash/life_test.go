package main

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Wait statuses as the kernel gives them.
const (
	byKill = syscall.WaitStatus(syscall.SIGKILL)
	byTerm = syscall.WaitStatus(syscall.SIGTERM)
	exit0  = syscall.WaitStatus(0)
	exit1  = syscall.WaitStatus(1 << 8)
)

// proofs returns a mark for each point that proves it.
func proofs() map[point]mark {
	answered, unsent, sent, partly := exchange{9, 9, 5}, exchange{Size: 9}, exchange{9, 9, 0}, exchange{9, 4, 0}
	m := func(s step, p point, attempt string, t trace) mark {
		return mark{Step: s, Point: p, Attempt: attempt, Trace: t}
	}
	return map[point]mark{
		claimUnsent:  m(atClaim, claimUnsent, "", trace{Claim: unsent}),
		claimSent:    m(atClaim, claimSent, "", trace{Claim: sent}),
		claimHeld:    m(atClaim, claimHeld, made, trace{Claim: answered}),
		betweenTwo:   m(atHandler, betweenTwo, made, trace{Claim: answered, Statements: 1, Statement: answered}),
		inStatement:  m(atHandler, inStatement, made, trace{Claim: answered, Statements: 3, Statement: sent}),
		finishUnsent: m(atFinish, finishUnsent, made, trace{Claim: answered, Handled: true, Finish: unsent}),
		finishPart:   m(atFinish, finishPart, made, trace{Claim: answered, Handled: true, Finish: partly}),
		commitSent:   m(atCommit, commitSent, made, trace{Claim: answered, Handled: true, Finish: sent}),
		commitSlow:   m(atCommit, commitSlow, made, trace{Claim: answered, Handled: true, Finish: sent}),
		replyUntold:  m(atReply, replyUntold, made, trace{Claim: answered, Handled: true, Finish: answered, Returned: true, Line: 80}),
		replyTorn:    m(atReply, replyTorn, made, trace{Claim: answered, Handled: true, Finish: answered, Returned: true, Line: 80, Told: 30}),
	}
}

// TestMark_ProvesOnePoint: what was seen at one point is no proof of any other, but for the two that differ by the
// statement in front of COMMIT.
func TestMark_ProvesOnePoint(t *testing.T) {
	t.Parallel()
	all := proofs()
	n := 0
	for _, s := range steps() {
		for _, p := range s.points() {
			n++
			if !all[p].proven() {
				t.Errorf("%s is not proven by %+v", p, all[p])
			}
			for q, m := range all {
				m.Step, m.Point = s, p
				if same := q == p || q.isCommit() && p.isCommit(); m.proven() != same {
					t.Errorf("seen at %s, told as %s: proven is %v", q, p, m.proven())
				}
			}
			for _, wrong := range steps() {
				m := all[p]
				if m.Step = wrong; m.proven() && wrong != s {
					t.Errorf("%s counts as a death at %s", p, wrong)
				}
			}
		}
	}
	if n != len(all) {
		t.Errorf("%d points, %d proofs", n, len(all))
	}
	if (mark{}).proven() {
		t.Error("an empty mark proves something")
	}
}

func (p point) isCommit() bool { return strings.HasPrefix(string(p), string(atCommit)) }

func TestLife_CountsOnlyProvenDeathsBySIGKILL(t *testing.T) {
	t.Parallel()
	good, err := json.Marshal(proofs()[finishPart])
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := proofs()[commitSent]
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
			l := newLife(c.status, nil, []byte(c.stderr), []byte(c.left), nil)
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
			got, torn, err := readAnswers([]byte(c.stdout))
			if diff := cmp.Diff(c.want, got); diff != "" || torn != c.torn || err != nil {
				t.Errorf("torn %v, %v\n%s", torn, err, diff)
			}
		})
	}
	if _, _, err := readAnswers([]byte(first[:9] + "\n")); err == nil {
		t.Error("a line that is no answer is accepted")
	}
}
