package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// state is what a call's identity has come to. It leaves the zero value once, and stays.
type state struct {
	Done    bool
	Payload string
	Try     int    // that did it
	Kind    kind   // succeeded or failed; empty as long as nobody has seen the answer
	Text    string // the answer, byte for byte
}

// step says which states there can be behind an operation.
//
// Each identity is a register that is written once. A call whose answer was lost may have written it, at any moment behind its
// beginning, or not; each other one has a moment between its beginning and its answer at which what it says is so:
//
//   - an answer that is the call's own work: nobody had done it, and now it is done, by this try;
//   - an answer that is a replay: it had been done, for this payload, by the try that the answer names, with these bytes;
//   - in progress, a plain error of the handler (which ran, and was rolled back), and the status "none" or "running": nobody
//     had done it;
//   - a mismatch: it had been done for another payload;
//   - unavailable, or a fault by which nothing was changed: it may have been done, or not. This try has done nothing, then or later.
//
// "In progress" is no promise that it will be done. It needs somebody who is at it, which is not a matter of states: see unmet.
func step(s state, in asked, out said) []state {
	same := []state{s}
	switch out.Kind {
	case unknown:
		if s.Done || in.Question || in.Breaks {
			return same
		}
		return []state{s, {Done: true, Payload: in.Payload, Try: in.Try}}
	case succeeded, failed:
		return answered(s, in, out)
	case inProgress, broke, notEnded:
		if !s.Done {
			return same
		}
	case mismatch:
		if s.Done && s.Payload != in.Payload {
			return same
		}
	case nothing, fault:
		return same
	}
	return nil
}

// answered is what an answer says of the state.
func answered(s state, in asked, out said) []state {
	if !in.Question && !out.Replayed {
		if s.Done || out.Try != in.Try || in.Breaks {
			return nil
		}
		return []state{{Done: true, Payload: in.Payload, Try: in.Try, Kind: out.Kind, Text: out.Text}}
	}
	switch {
	case !s.Done, s.Try != out.Try, !in.Question && s.Payload != in.Payload:
		return nil
	case s.Kind != "" && (s.Kind != out.Kind || s.Text != out.Text):
		return nil
	}
	s.Kind, s.Text = out.Kind, out.Text
	return []state{s}
}

// model is step, as the checker wants it.
func model() porcupine.Model {
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{state{}} },
		Step: func(s, in, out any) (next []any) {
			for _, n := range step(s.(state), in.(asked), out.(said)) {
				next = append(next, n)
			}
			return next
		},
		DescribeOperation: func(in, out any) string { return describe(in.(asked), out.(said)) },
		DescribeState:     func(s any) string { return fmt.Sprintf("%+v", s) },
	}
	return m.ToModel()
}

func describe(in asked, out said) string {
	what := fmt.Sprintf("call %s, try %d", in.Payload, in.Try)
	switch {
	case in.Question:
		what = "ask"
	case in.Breaks:
		what += ", which breaks"
	}
	what += " -> " + string(out.Kind)
	if out.Kind.ends() {
		what += fmt.Sprintf(" by try %d, replayed: %v: %s", out.Try, out.Replayed, out.Text)
	}
	return what
}

// operations are those of one intent. The register is written once, and an answer names the try that has written it: a lost call
// that is not named has not, and would only make the search long.
func operations(ops []op) (all []porcupine.Operation) {
	named := make(map[int]bool)
	for _, o := range ops {
		if o.Said.Kind.ends() {
			named[o.Said.Try] = true
		}
	}
	for _, o := range ops {
		if o.Said.Kind == unknown && len(named) > 0 && !named[o.Asked.Try] {
			continue
		}
		until := o.Return
		if o.Said.Kind == unknown && !o.Asked.Question {
			until = math.MaxInt64 // it may have its effect later
		}
		all = append(all, porcupine.Operation{ClientId: o.Agent, Input: o.Asked, Call: int64(o.Call), Output: o.Said, Return: int64(until)})
	}
	return all
}

// longestCheck bounds the search for an order of one intent's operations.
const longestCheck = 20 * time.Second

// opinion is what the checker says of a history.
type opinion struct {
	result     porcupine.CheckResult // the worst
	operations int
	wrong      map[int]string // what is wrong with an intent
}

// mostPictures is how many pictures are drawn of what is wrong.
const mostPictures = 3

// check looks for an order of the operations of each intent that explains all answers. A picture of what cannot be explained goes
// to the folder.
func check(ops []op, folder string) opinion {
	of := make(map[int][]op)
	for _, o := range ops {
		of[o.Intent] = append(of[o.Intent], o)
	}
	found := opinion{result: porcupine.Ok, operations: len(ops), wrong: make(map[int]string)}
	m := model()
	for n, ops := range of {
		slices.SortStableFunc(ops, func(a, b op) int { return int(a.Call - b.Call) })
		history := operations(ops)
		switch result := porcupine.CheckOperationsTimeout(m, history, longestCheck); {
		case result != porcupine.Ok:
			found.note(n, result, draw(m, history, len(found.wrong), folder, n))
		case unmet(ops):
			found.note(n, porcupine.Illegal, "somebody heard that it is in progress, and nobody else had called")
		}
	}
	return found
}

func (p *opinion) note(intent int, result porcupine.CheckResult, what string) {
	p.wrong[intent] = what
	if p.result != porcupine.Illegal {
		p.result = result
	}
}

// draw draws a picture, unless there are enough.
func draw(m porcupine.Model, history []porcupine.Operation, before int, folder string, intent int) string {
	what := "no order of its operations explains the answers"
	if before >= mostPictures || folder == "" {
		return what
	}
	_, info := porcupine.CheckOperationsVerbose(m, history, longestCheck)
	path := filepath.Join(folder, fmt.Sprintf("chaos-intent-%d.html", intent))
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Sprintf("%s; there is no picture: %v", what, err)
	}
	if err := porcupine.VisualizePath(m, info, path); err != nil {
		return fmt.Sprintf("%s; there is no picture: %v", what, err)
	}
	return what + ": see " + path
}

// unmet reports whether somebody heard that a call is in progress before anybody else had called.
func unmet(ops []op) bool {
	return slices.ContainsFunc(ops, func(o op) bool {
		return o.Said.Kind == inProgress && !slices.ContainsFunc(ops, func(p op) bool {
			return !p.Asked.Question && p.Asked.Try != o.Asked.Try && p.Call < o.Return
		})
	})
}
