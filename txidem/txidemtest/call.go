package txidemtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime/pprof"
	"time"

	"github.com/txonce/txonce/toolcall"
	"github.com/txonce/txonce/txidem"
)

// said is what a call told its caller.
type said struct {
	answer []byte
	err    error
	hung   bool // it did not return
}

// final reports whether the caller has an answer and does not call again.
func (s said) final() bool {
	var failure *toolcall.Failure
	return s.err == nil || errors.As(s.err, &failure)
}

// text is the answer, or the failure that was recorded in its place.
func (s said) text() []byte {
	var failure *toolcall.Failure
	if errors.As(s.err, &failure) {
		return fmt.Appendf(nil, "failure %q: %q", failure.Code, failure.Message)
	}
	return s.answer
}

func (s said) String() string {
	if s.err != nil {
		return s.err.Error()
	}
	return fmt.Sprintf("the answer %.200q", s.answer)
}

// errGone is the error of a call that ended its goroutine.
var errGone = errors.New("txidemtest: Call ended its goroutine (runtime.Goexit); return instead")

// patience is how long a call whose context has ended may take to return.
func (k *kit) patience() time.Duration { return min(k.tool.Timeout, 15*time.Second) }

// call makes a call whose order, if any, finds its context.
func (k *kit) call(ctx context.Context, intent int, o *order) said {
	ctx, cancel := context.WithTimeout(ctx, k.tool.Timeout)
	defer cancel()
	if o != nil {
		o.cancel = cancel
	}
	result := make(chan said, 1)
	go pprof.Do(ctx, pprof.Labels(label, k.app), func(ctx context.Context) {
		s := said{err: errGone}
		defer func() {
			if v := recover(); v != nil {
				s.err = fmt.Errorf("txidemtest: Call panicked: %v", v)
			}
			result <- s
		}()
		s.answer, s.err = k.tool.Call(ctx, k.pool, intent)
		s.answer = bytes.Clone(s.answer)
	})
	select {
	case s := <-result:
		return s
	case <-ctx.Done():
	}
	select {
	case s := <-result:
		return s
	case <-time.After(k.patience()):
		k.stuck.Store(true)
		return said{hung: true, err: fmt.Errorf("txidemtest: Call did not return in %v after its context had ended", k.patience())}
	}
}

// Of a call that has no answer yet.
const (
	tries    = 4                     // on a healthy network
	interval = 50 * time.Millisecond // between two calls of which the first one found another in progress
)

// finish repeats a call until it has an answer. It returns the last one, and what is wrong with it.
func (k *kit) finish(ctx context.Context, intent int) (said, string) {
	deadline := time.Now().Add(2 * k.tool.Timeout)
	for failed := 0; ; {
		s := k.call(ctx, intent, nil)
		if problem := s.broken(); problem != "" || s.final() {
			return s, problem
		}
		if !errors.Is(s.err, txidem.ErrInProgress) {
			failed++
		}
		if s.hung || failed == tries || time.Now().After(deadline) || ctx.Err() != nil {
			return s, fmt.Sprintf("repeated without faults, the call has no answer: %v", s)
		}
		select {
		case <-time.After(interval):
		case <-ctx.Done():
		}
	}
}
