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
	jobEnded  kind   // done or failed, when it was told so of the job
	jobText   string // what came of the job
	differing int    // definite answers that contradicted the first
	call, job string // the ids that it knows
	attempts  int
	began     []int // the attempts that were the first of a round
	err       error // of the demo itself

	session *mcp.ClientSession
}

// effort is what the agent does in a round before it moves on and leaves the outcome unknown.
type effort struct {
	calls, asks int
	limit       time.Duration // for each answer
}

// carryOut makes all rounds: the agent crashed before it wrote the answer down, or the answer was dropped from the
// model's context, and it comes to the same step again.
func (a *agent) carryOut(ctx context.Context, e *errand) {
	defer e.hangUp()
	for range e.intent.rounds {
		e.call, e.job = "", ""
		a.pursue(ctx, e, act, effort{tries, asks, patience})
	}
}

// settle goes on with an unknown intent until the outcome is known.
func (a *agent) settle(ctx context.Context, e *errand) {
	defer e.hangUp()
	a.pursue(ctx, e, ask, effort{settleTries, settleAsks, settlePatience})
}

// pursue makes the call, and asks what became of it, until that is known.
func (a *agent) pursue(ctx context.Context, e *errand, next move, left effort) {
	e.began = append(e.began, e.attempts+1)
	copies := e.intent.copies // of the first call
	for next != stop && e.err == nil {
		in, n, more := a.question(e), 1, &left.asks
		if next == act || in == nil {
			in, n, more = e.intent, copies, &left.calls
			copies = 1
		}
		if *more--; *more < 0 {
			return
		}
		pause := breath
		next = act
		for _, got := range a.attempt(ctx, e, in, n, left.limit) {
			e.hear(got)
			next = max(next, a.after(in, got, left.calls <= 0))
			pause = max(pause, got.wait)
		}
		if next != stop {
			e.rest(ctx, pause)
		}
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
	if e.attempts++; in.tool == toolStatus {
		limit += askWait
	}
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
		if e.outcome() == nothing && (e.told == nothing || a.canAsk()) {
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
