package main

import (
	"time"
)

// askWait is how long a question waits for the end of what it is about, on the server.
const askWait = time.Second

// question is what the agent asks about its errand: for the job, or for the call by its id, or else by tool and key. It is nil
// where there is nothing to ask, or no name for the call: then there is only repeating it.
func (a *agent) question(e *errand) *intent {
	q := *e.intent
	q.tool, q.about, q.way = toolStatus, e.intent.tool, noKey
	switch {
	case !a.canAsk():
		return nil
	case e.job != "":
		q.fields = []field{text("id", e.job)}
	case e.call != "":
		q.fields = []field{text("id", e.call)}
	case e.intent.way != noKey:
		q.fields = []field{text("tool", e.intent.tool), text("idempotency_key", e.intent.key(a.run))}
	default:
		return nil
	}
	q.fields = append(q.fields, number("wait_seconds", int(askWait.Seconds())))
	return &q
}

// canAsk reports whether the server has the tool.
func (a *agent) canAsk() bool {
	_, there := a.keyed[toolStatus]
	return there
}

// move is what the agent does next.
type move int

const (
	act  move = iota // it makes the call, for the first time or again
	ask              // it asks what became of the call, or of the job
	stop             // it knows
)

// after says what to do behind an answer, or behind none. last is for a call that is not to be made again in this round.
func (a *agent) after(in *intent, got answer, last bool) move {
	switch got.kind {
	case nothing:
		if in.tool == toolStatus || in.way == asking || last {
			return ask
		}
		return act
	case running, waiting:
		return ask
	case accepted:
		if a.canAsk() {
			return ask
		}
	case again:
		return act
	}
	return stop
}

// hear takes in one answer.
func (e *errand) hear(got answer) {
	switch {
	case got.call != "":
		e.call = got.call
	case got.job != "":
		e.job = got.job
	}
	told, text := &e.told, &e.text
	if got.job != "" && got.kind != accepted {
		told, text = &e.jobEnded, &e.jobText
	}
	switch {
	case !got.definite():
	case *told == nothing:
		*told, *text = got.kind, got.text
	case got.kind != *told || got.text != *text:
		e.differing++
	}
}
