package main

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/txonce/txonce/integration/internal/lives"
	"github.com/txonce/txonce/statustool"
)

// agents is how many there are.
const agents = 10

// How long agents wait for an answer, and how long at most when they are impatient on purpose.
const (
	patience   = 2 * time.Second
	impatience = 60 * time.Millisecond
)

// mostBehind bounds what an agent catches up with that had to wait.
const mostBehind = 10 * time.Second

// agent makes calls, one after the other.
type agent struct {
	*storm
	n      int
	rng    *rand.Rand
	client *client
}

func (s *storm) newAgent(n int) *agent {
	return &agent{storm: s, n: n, rng: rand.New(rand.NewPCG(s.o.seed, uint64(1+n))), client: newClient(s.book)}
}

// run makes calls until storming ends, as many in a second as are an agent's share.
func (a *agent) run(ctx, storming context.Context) {
	defer a.client.close()
	for next := time.Now(); storming.Err() == nil; {
		a.step(ctx)
		gap := time.Duration(float64(time.Second) * agents / a.o.rate)
		next = next.Add(gap/2 + rand.N(gap))
		if behind := time.Now().Add(-mostBehind); next.Before(behind) {
			next = behind
		}
		if lives.Pause(storming, time.Until(next)) != nil {
			return
		}
	}
}

// step does one thing: calls for a new intent, or for one that is open, calls again for any, calls with another payload, or asks.
func (a *agent) step(ctx context.Context) {
	select {
	case i := <-a.shared:
		a.call(ctx, i, rightPayload)
		return
	default:
	}
	i, found := intent{}, false
	draw := a.rng.IntN(100)
	switch {
	case draw < 40:
	case draw < 65:
		i, found = a.board.anOpen(a.rng)
	default:
		i, found = a.board.any(a.rng)
	}
	if !found {
		i = a.board.next()
		if a.rng.IntN(3) == 0 {
			select {
			case a.shared <- i: // for another agent, at the same time
			default:
			}
		}
	}
	switch {
	case found && draw >= 94:
		a.ask(ctx, i)
	case draw >= 86 || !found && draw < 2:
		a.call(ctx, i, otherPayload)
	default:
		a.call(ctx, i, rightPayload)
	}
}

// call calls for an intent once.
func (a *agent) call(ctx context.Context, i intent, payload string) said {
	limit := patience
	if a.rng.IntN(10) == 0 {
		limit = time.Millisecond + rand.N(impatience)
	}
	s := a.callFor(ctx, i, asked{Payload: payload, Breaks: a.rng.IntN(12) == 0}, limit)
	switch {
	case s.Job != "" && a.rng.IntN(3) == 0:
		a.poll(ctx, s.Job)
	case (s.Kind == inProgress || s.Kind == unknown) && a.rng.IntN(3) == 0:
		a.ask(ctx, i)
	}
	return s
}

// callFor calls for an intent once, at one of the servers that are there. Where none is, nothing was called.
func (a *agent) callFor(ctx context.Context, i intent, what asked, limit time.Duration) said {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	what.Try = a.board.try()
	for _, n := range a.rng.Perm(roles()[server]) {
		begin := a.history.now()
		if s, left := a.client.call(ctx, n, i, what); left {
			a.note(i, begin, what, s)
			return s
		}
	}
	_ = lives.Pause(ctx, lives.LookAgain)
	return said{Kind: nothing}
}

// ask asks what became of the call of an intent.
func (a *agent) ask(ctx context.Context, i intent) said {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	begin := a.history.now()
	s := statusOf(a.client.question(ctx, a.rng.IntN(roles()[server]), i.id().String(), 0))
	a.note(i, begin, asked{Question: true}, s)
	return s
}

func (a *agent) note(i intent, begin time.Duration, what asked, s said) {
	a.history.add(op{Agent: a.n, Intent: i.N, Call: begin, Return: a.history.now(), Asked: what, Said: s})
	switch {
	case s.Kind == strange:
		a.complain("intent %d (%s): strange: %s", i.N, i.Tool, s.Detail)
	case s.Kind.ends():
		a.board.heard(i.N, s)
	}
}

// poll waits for a job for a while. It is there, for its call has committed.
func (a *agent) poll(ctx context.Context, job string) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	before := a.endOf(job)
	r, err := a.client.question(ctx, a.rng.IntN(roles()[server]), job, time.Second)
	if err == nil {
		a.compare(job, before, r.State)
	}
}

// insist calls for an intent until there is an answer, or ctx ends. Another payload may have had the key first.
func (a *agent) insist(ctx context.Context, i intent) {
	payload := rightPayload
	for ctx.Err() == nil {
		s := a.callFor(ctx, i, asked{Payload: payload}, patience)
		switch {
		case s.Kind.ends():
			return
		case s.Kind == mismatch && payload == rightPayload:
			payload = otherPayload
		case s.Kind == mismatch:
			payload = rightPayload
		}
		_ = lives.Pause(ctx, 10*lives.LookAgain)
	}
}

// askAll asks what became of an intent, and of its job, until it is told.
func (a *agent) askAll(ctx context.Context, i intent) {
	for ctx.Err() == nil && a.ask(ctx, i).Kind == nothing {
		_ = lives.Pause(ctx, 10*lives.LookAgain)
	}
	answer, _ := a.board.answer(i.N)
	for answer.Job != "" && ctx.Err() == nil {
		r, err := a.client.question(ctx, a.rng.IntN(roles()[server]), answer.Job, 0)
		if err == nil && r.State != statustool.StateUnavailable {
			a.compare(answer.Job, a.endOf(answer.Job), r.State)
			a.told(answer.Job, r)
			return
		}
		_ = lives.Pause(ctx, 10*lives.LookAgain)
	}
}
