package failover

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/txonce/txonce/txidem"
)

const (
	callers = 20

	// callTimeout is how long a caller waits before it makes the call again. A server that is frozen says nothing.
	callTimeout = 10 * time.Second

	// think is what a caller does between two calls.
	think = 20 * time.Millisecond

	// shortest and longest are the pauses between two tries. Callers that come again and again at once keep a busy server, to which
	// all of them connect anew, from ever getting done with one.
	shortest, longest = 50 * time.Millisecond, time.Second
)

// load is callers at work.
type load struct {
	*world
	enough chan struct{} // closed: they begin no further call
	all    sync.WaitGroup
}

// begin starts callers. They end when the load is over, and with the test.
func (w *world) begin() *load {
	l := &load{world: w, enough: make(chan struct{})}
	ctx, cancel := context.WithCancel(w.t.Context())
	for n := range callers {
		l.all.Go(func() { l.caller(ctx, n) })
	}
	w.t.Cleanup(func() {
		cancel()
		l.all.Wait()
	})
	return l
}

// caller makes one call after the other, each until it is answered. Each third one is made twice at a time, each fifth one again.
func (l *load) caller(ctx context.Context, n int) {
	for i := 0; ctx.Err() == nil; i++ {
		select {
		case <-l.enough:
			return
		case <-time.After(think):
		}
		in := intent{tools()[(n+i)%len(tools())], fmt.Sprintf("%d-%d", n, i)}
		var both sync.WaitGroup
		if i%3 == 0 {
			both.Go(func() { l.untilAnswered(ctx, in) })
		}
		l.untilAnswered(ctx, in)
		both.Wait()
		if i%5 == 0 {
			l.untilAnswered(ctx, in)
		}
	}
}

// untilAnswered repeats the call, as callers do, and writes down what it hears.
func (l *load) untilAnswered(ctx context.Context, in intent) {
	for pause := shortest; ctx.Err() == nil; pause = min(2*pause, longest) {
		bounded, cancel := context.WithTimeout(ctx, callTimeout)
		got, err := l.call(bounded, in)
		cancel()
		switch {
		case err == nil:
			l.heard.heard(in, got.Raw)
			return
		case !txidem.Retryable(err):
			l.t.Errorf("%v: %v; no caller would repeat that", in, err)
			return
		}
		l.heard.failed(fmt.Errorf("%v: %w", in, err))
		wait := pause/2 + rand.N(pause)
		if busy, ok := errors.AsType[*txidem.InProgressError](err); ok {
			wait = busy.RetryAfter
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
}

// end has callers finish what they have begun.
func (l *load) end() {
	l.t.Helper()
	close(l.enough)
	done := make(chan struct{})
	go func() {
		l.all.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(patience):
		l.t.Fatal("callers do not get their answers")
	}
}

// answered waits until there are n more answers, of each tool.
func (l *load) answered(n int) {
	l.t.Helper()
	before := len(l.heard.all())
	defer func() {
		if l.t.Failed() {
			l.t.Logf("%d answers; the last error that a caller heard: %v", len(l.heard.all()), l.heard.lastError())
		}
	}()
	eventually(l.t, "calls are answered", func() bool {
		all := l.heard.all()
		return len(all) >= before+n && ofEach(all, before, 2)
	})
}
