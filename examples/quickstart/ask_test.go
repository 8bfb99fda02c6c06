package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestAgent_AsksInsteadOfActing holds what the agent does behind each answer.
func TestAgent_AsksInsteadOfActing(t *testing.T) {
	t.Parallel()
	a := &agent{keyed: map[string]bool{toolStatus: true}}
	plain := &agent{keyed: map[string]bool{}} // of a server without get_status
	repeats, asks := &intent{tool: toolRefund, way: sameKey}, &intent{tool: toolRefund, way: asking}
	question := &intent{tool: toolStatus, way: noKey}
	for label, c := range map[string]struct {
		agent *agent
		in    *intent
		kind  kind
		last  bool
		want  move
	}{
		"lost, and it repeats":          {a, repeats, nothing, false, act},
		"lost, its retries are used up": {a, repeats, nothing, true, ask},
		"lost, and it asks":             {a, asks, nothing, false, ask},
		"the question's answer is lost": {a, question, nothing, false, ask},
		"in progress":                   {a, repeats, running, false, ask},
		"still running":                 {a, question, waiting, false, ask},
		"a job":                         {a, repeats, accepted, false, ask},
		"a job, and nobody to ask":      {plain, repeats, accepted, false, stop},
		"none":                          {a, question, again, false, act},
		"succeeded":                     {a, question, done, false, stop},
		"failed":                        {a, question, failed, false, stop},
		"refused":                       {a, repeats, refused, false, stop},
	} {
		if got := c.agent.after(c.in, answer{kind: c.kind}, c.last); got != c.want {
			t.Errorf("%s: %d, want %d", label, got, c.want)
		}
	}
}

func TestAgent_KnowsWhatToAskBy(t *testing.T) {
	t.Parallel()
	a, in := &agent{run: "run", keyed: map[string]bool{toolStatus: true}}, &intent{number: 7, tool: toolRefund, way: asking}
	wait := number("wait_seconds", 1)
	for label, c := range map[string]struct {
		agent *agent
		e     errand
		want  []field
	}{
		"tool and key":           {a, errand{intent: in}, []field{text("tool", toolRefund), text("idempotency_key", "run/step-7"), wait}},
		"the call's id":          {a, errand{intent: in, call: "c"}, []field{text("id", "c"), wait}},
		"the job's id":           {a, errand{intent: in, call: "c", job: "j"}, []field{text("id", "j"), wait}},
		"without a key":          {a, errand{intent: &intent{tool: toolRefund, way: noKey}}, nil},
		"without a key, an id":   {a, errand{intent: &intent{tool: toolRefund, way: noKey}, call: "c"}, []field{text("id", "c"), wait}},
		"there is nobody to ask": {&agent{}, errand{intent: in, call: "c"}, nil},
	} {
		var got []field
		if q := c.agent.question(&c.e); q != nil {
			got = q.fields
			if q.tool != toolStatus || q.about != toolRefund {
				t.Errorf("%s: %+v", label, q)
			}
		}
		if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(field{})); diff != "" {
			t.Errorf("%s: %s", label, diff)
		}
	}
}
