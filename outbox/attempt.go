package outbox

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"
)

// begin makes an attempt of a message in its own goroutine, which has one of the destination's slots. A publisher that does not
// heed its context keeps the slot, and nobody else waits for it.
func (r *relay) begin(ctx context.Context, s *slots, m *claimed) {
	s.take(1)
	free := func() {
		if s.take(-1) == 1 {
			notify(r.freed)
		}
	}
	r.attempts.Go(func() {
		v, over := m.attempt(context.WithoutCancel(ctx))
		r.results <- result{m, v}
		select {
		case <-over:
			free()
		default:
			go func() {
				<-over
				free()
			}()
		}
	})
}

// notify tells whoever reads c, if nobody has told it yet.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// attempt does what is to be done with a message, and says what came of it. over is closed when nothing of it runs any more.
func (m *claimed) attempt(ctx context.Context) (v verdict, over <-chan struct{}) {
	nothing := make(chan struct{})
	close(nothing)
	switch {
	case time.Since(m.at) > margin/2: // this process was held up: another relay may have the message before this one is through
		return verdict{letBe: true}, nothing
	case m.toSend():
		out, over := within(ctx, m.d.Timeout, func(ctx context.Context) (Outcome, error) { return m.d.Publisher.Deliver(ctx, m.Delivery) })
		return m.sent(out), over
	case m.unanswered == 0:
		return m.notSent(), nothing
	case m.d.Probe == nil || m.Attempt > 2*m.d.Retry.attempts():
		return m.unknown(), nothing
	}
	out, over := within(ctx, m.d.Timeout, func(ctx context.Context) (Outcome, error) { return m.d.Probe(ctx, m.Delivery) })
	return m.probed(out), over
}

// patience is how long a publisher may take to notice that its context has ended.
const patience = time.Second

// within calls one of the user's functions, and waits for what it returns a little longer than it has time. An error, a panic and
// the end of its goroutine are outcomes too.
func within(ctx context.Context, timeout time.Duration, call func(context.Context) (Outcome, error)) (Outcome, <-chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	came, over := make(chan Outcome, 1), make(chan struct{})
	go func() {
		defer close(over)
		defer cancel()
		out := Outcome{Reason: "the publisher ended its goroutine"}
		defer func() {
			if v := recover(); v != nil {
				out = Outcome{Reason: fmt.Sprintf("the publisher panicked: %v\n%s", v, debug.Stack())}
			}
			came <- out
		}()
		answer, err := call(ctx)
		if out = answer; err != nil {
			out = unanswered(ctx, answer, err)
		} else if out.Class < Unanswered || out.Class > Gone {
			out.Class, out.Reason = Unanswered, fmt.Sprintf("the publisher returned the class %d, which there is not: %s", out.Class, out.Reason)
		}
	}()
	select {
	case out := <-came:
		return out, over
	case <-ctx.Done():
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case out := <-came:
		return out, over
	case <-timer.C:
		return Outcome{Reason: fmt.Sprintf("no answer within %v, and the publisher does not heed its context", timeout)}, over
	}
}

// unanswered is the outcome of a call that returned an error.
func unanswered(ctx context.Context, answer Outcome, err error) Outcome {
	answer.Class = Unanswered
	if answer.Reason = err.Error(); errors.Is(ctx.Err(), context.DeadlineExceeded) {
		answer.Reason = "no answer in time: " + answer.Reason
	}
	return answer
}
