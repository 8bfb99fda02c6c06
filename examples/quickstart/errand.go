package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// errand is the agent's work on one intent, and what it was told in the end.
type errand struct {
	intent    *intent
	told      kind   // done, failed or accepted, or nothing as long as it is unknown
	text      string // of the first definite answer
	differing int    // definite answers that contradicted the first
	job       string // the job that it was told of last
	jobEnded  kind   // done or failed, when it was told so
	attempts  int
	began     []int // the attempts that were the first of a round
	err       error // of the demo itself

	session *mcp.ClientSession
}

// carryOut makes all rounds: the agent crashed before it wrote the answer down, or the answer was dropped from the
// model's context, and it comes to the same step again.
func (a *agent) carryOut(ctx context.Context, e *errand) {
	defer e.hangUp()
	for range e.intent.rounds {
		a.pursue(ctx, e, tries, patience)
		a.follow(ctx, e, asks)
	}
}

// settle repeats an unknown intent until the outcome is known.
func (a *agent) settle(ctx context.Context, e *errand) {
	defer e.hangUp()
	if e.told == nothing {
		a.pursue(ctx, e, settleTries, settlePatience)
	}
	if e.outcome() == nothing {
		a.follow(ctx, e, settleAsks)
	}
}

// pursue repeats the call until there is a definite answer, at most n times.
func (a *agent) pursue(ctx context.Context, e *errand, n int, limit time.Duration) {
	e.began = append(e.began, e.attempts+1)
	for try := 0; try < n && e.err == nil; try++ {
		copies := 1
		if try == 0 {
			copies = e.intent.copies
		}
		settled, pause := false, breath
		for _, got := range a.attempt(ctx, e, e.intent, copies, limit) {
			settled = e.hear(got) || settled
			pause = max(pause, got.wait)
		}
		if settled {
			return
		}
		e.rest(ctx, pause)
	}
}

// rest waits before the next attempt.
func (e *errand) rest(ctx context.Context, pause time.Duration) {
	select {
	case <-ctx.Done():
		e.err = ctx.Err()
	case <-time.After(pause):
	}
}

// attempt sends one or more copies of a call at the same moment.
func (a *agent) attempt(ctx context.Context, e *errand, in *intent, copies int, limit time.Duration) []answer {
	e.attempts++
	session, err := a.sessionOf(ctx, e)
	if err != nil {
		e.err = err
		return nil
	}
	answers, errs := make([]answer, copies), make([]error, copies)
	broken := make([]bool, copies)
	var group sync.WaitGroup
	for i := range copies {
		group.Go(func() {
			answers[i], broken[i], errs[i] = a.send(ctx, session, in, callName{e.intent.number, e.attempts, i}, limit)
		})
	}
	group.Wait()
	if e.err = errors.Join(errs...); e.err != nil {
		return nil
	}
	if e.intent.way == newSession || slices.Contains(broken, true) {
		e.hangUp()
	}
	return answers
}

// hear takes in one answer and reports whether it is definite.
func (e *errand) hear(got answer) bool {
	if got.job != "" {
		e.job = got.job
	}
	switch {
	case !got.definite():
		return got.kind == refused
	case e.told == nothing:
		e.told, e.text = got.kind, got.text
	case got.kind != e.told || got.text != e.text:
		e.differing++
	}
	return true
}

// outcome is what the agent knows in the end. Of a job that is whether it has succeeded.
func (e *errand) outcome() kind {
	if e.told == accepted {
		return e.jobEnded
	}
	return e.told
}

// work is all that the agent did.
type work struct {
	errands   []*errand
	unsettled int    // errands whose outcome it did not know after its usual tries
	jobs      int    // that were submitted
	reused    string // what the server said to a key that came back with other arguments; empty if it was not asked
}

// workOn works on all intents, then settles those whose outcome is unknown.
func (a *agent) workOn(ctx context.Context, intents []*intent, p *progress) (*work, error) {
	w := &work{}
	for _, in := range intents {
		w.errands = append(w.errands, &errand{intent: in})
	}
	p.begin("intents", len(w.errands))
	a.each(ctx, w.errands, a.carryOut, p.step)
	p.end()
	var unknown []*errand
	for _, e := range w.errands {
		if e.outcome() == nothing {
			unknown = append(unknown, e)
		}
	}
	if len(unknown) > 0 && ctx.Err() == nil {
		p.begin("unknown outcomes settled", len(unknown))
		a.each(ctx, unknown, a.settle, p.step)
		p.end()
	}
	w.unsettled = len(unknown)
	for _, e := range w.errands {
		if e.err != nil {
			return nil, e.err
		}
	}
	return w, ctx.Err()
}

// reuseKey sends a key that was used once more, with other arguments: a mistake of an agent. It returns what the server
// made of it.
func (a *agent) reuseKey(ctx context.Context, errands []*errand) (string, error) {
	i := slices.IndexFunc(errands, func(e *errand) bool {
		return e.intent.tool == toolRefund && e.intent.way == sameKey && e.told == done
	})
	if i < 0 {
		return "", errors.New("there is no refund whose key could be used again")
	}
	e := errands[i]
	defer e.hangUp()
	changed := *e.intent
	changed.fields = slices.Clone(changed.fields)
	changed.fields[1] = number("cents", 1)
	for range settleTries {
		e.attempts++
		session, err := a.sessionOf(ctx, e)
		if err != nil {
			return "", err
		}
		got, broken, err := a.send(ctx, session, &changed, callName{changed.number, e.attempts, 0}, settlePatience)
		if err != nil {
			return "", err
		}
		if got.kind != nothing {
			return got.status, nil
		}
		if broken {
			e.hangUp()
		}
	}
	return "", errors.New("the network swallowed every answer")
}

// sessionOf returns the errand's session, a new one if there is none.
func (a *agent) sessionOf(ctx context.Context, e *errand) (*mcp.ClientSession, error) {
	if e.session == nil {
		session, err := a.connect(ctx)
		if err != nil {
			return nil, err
		}
		e.session = session
	}
	return e.session, nil
}

func (e *errand) hangUp() {
	if e.session != nil {
		_ = e.session.Close()
		e.session = nil
	}
}
