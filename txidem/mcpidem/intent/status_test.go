package intent_test

import (
	"errors"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/txidem/mcpidem/intent"
)

func state(s string) any { return map[string]any{"state": s} }

// TestMiddleware_M10_AsksBeforeItRepeats plays each answer of a status tool to a call whose answer was lost.
func TestMiddleware_M10_AsksBeforeItRepeats(t *testing.T) {
	t.Parallel()
	running := map[string]any{"state": "running", "retry_after_seconds": 9}
	for label, c := range map[string]struct {
		states          []any
		asked           []fault
		attempts, polls int
		least           time.Duration
	}{
		"none":             {states: []any{state("none")}, attempts: 2, polls: 1},
		"succeeded":        {states: []any{state("succeeded")}, attempts: 2, polls: 1},
		"failed":           {states: []any{state("failed")}, attempts: 2, polls: 1},
		"unknown":          {states: []any{state("unknown")}, attempts: 2, polls: 1},
		"running":          {states: []any{running, running, state("succeeded")}, attempts: 2, polls: 3, least: 18 * time.Second},
		"the tool fails":   {states: []any{errors.New("no database")}, attempts: 2, polls: 1},
		"no state":         {states: []any{map[string]any{}}, attempts: 2, polls: 1},
		"its answer lost":  {states: []any{state("none")}, asked: []fault{lostAfter}, attempts: 2, polls: 1},
		"it does not come": {asked: []fault{silentBefore}, attempts: 2, polls: 1, least: 30 * time.Second},
	} {
		t.Run(label, func(t *testing.T) {
			lab(t, &intent.Config{StatusTool: "get_status"}, func(t *testing.T, w *world, s *mcp.ClientSession) {
				w.wire.plan, w.wire.asked, w.states = []fault{lostAfter}, c.asked, c.states
				start := time.Now()
				r, err := call(inStep(t), s, 5)
				if err != nil || r.IsError || w.count() != 1 {
					t.Fatalf("%v, %v, %d effects", err, r, w.count())
				}
				if w.wire.attempts() != c.attempts || w.wire.polls != c.polls || time.Since(start) < c.least {
					t.Errorf("%d attempts, %d questions in %v", w.wire.attempts(), w.wire.polls, time.Since(start))
				}
			})
		})
	}
}

// TestMiddleware_M10_ExpiredIsNotRepeated: the record is gone, and the same call would run again.
func TestMiddleware_M10_ExpiredIsNotRepeated(t *testing.T) {
	lab(t, &intent.Config{StatusTool: "get_status"}, func(t *testing.T, w *world, s *mcp.ClientSession) {
		w.wire.plan, w.states = []fault{lostAfter}, []any{state("expired")}
		_, err := call(inStep(t), s, 5)
		if unknown := wantUnknown(t, err); !errors.Is(err, intent.ErrExpired) || unknown.Attempts != 1 || w.count() != 1 {
			t.Errorf("%v, %d effects", err, w.count())
		}
	})
}

// TestMiddleware_M10_RunningForeverEndsInAQuestion: the deadline counts for the questions too.
func TestMiddleware_M10_RunningForeverEndsInAQuestion(t *testing.T) {
	lab(t, &intent.Config{StatusTool: "get_status"}, func(t *testing.T, w *world, s *mcp.ClientSession) {
		w.wire.plan = []fault{silentAfter}
		for range 1000 {
			w.states = append(w.states, state("running"))
		}
		start := time.Now()
		_, err := call(inStep(t), s, 5)
		if unknown := wantUnknown(t, err); unknown.Attempts != 1 || time.Since(start) > 2*time.Minute || w.wire.polls < 10 {
			t.Errorf("%v after %v, %d questions", err, time.Since(start), w.wire.polls)
		}
	})
}

// TestMiddleware_M10_WhatIsKnownIsNotAsked: a refusal says that nothing was done.
func TestMiddleware_M10_WhatIsKnownIsNotAsked(t *testing.T) {
	lab(t, &intent.Config{StatusTool: "get_status"}, func(t *testing.T, w *world, s *mcp.ClientSession) {
		w.wire.plan = []fault{noServer, noServer}
		if _, err := call(inStep(t), s, 5); err != nil || w.wire.polls != 0 {
			t.Errorf("%v, %d questions", err, w.wire.polls)
		}
	})
}
