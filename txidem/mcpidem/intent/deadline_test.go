package intent_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/txidem"
	"github.com/txonce/txonce/txidem/mcpidem/intent"
)

func always(f fault) []fault {
	plan := make([]fault, 1000)
	for i := range plan {
		plan[i] = f
	}
	return plan
}

// TestMiddleware_M10_DeadlineEndsInAQuestion: whatever kept the answer away, the caller hears in time that it is not known.
func TestMiddleware_M10_DeadlineEndsInAQuestion(t *testing.T) {
	t.Parallel()
	for _, f := range []fault{resetBefore, lostAfter, silentAfter, silentBefore, gateway, busyAfter, uncoded} {
		t.Run(string(f), func(t *testing.T) {
			lab(t, nil, func(t *testing.T, w *world, s *mcp.ClientSession) {
				w.wire.plan = always(f)
				start := time.Now()
				_, err := call(inStep(t), s, 5)
				unknown := wantUnknown(t, err)
				if took := time.Since(start); took > 2*time.Minute || took < 2*time.Minute-5*time.Second {
					t.Errorf("it took %v", took)
				}
				if unknown.Attempts != w.wire.attempts() || unknown.Tool != "issue_refund" || unknown.Key != txidem.IntentKey("run-7", "step-1", "issue_refund") || unknown.Err == nil {
					t.Errorf("%+v after %d attempts", unknown, w.wire.attempts())
				}
			})
		})
	}
}

// TestMiddleware_M10_CallersTimeCounts: the deadline of the context, and a caller who goes.
func TestMiddleware_M10_CallersTimeCounts(t *testing.T) {
	t.Parallel()
	for label, c := range map[string]struct {
		f    fault
		ends func(context.Context) (context.Context, context.CancelFunc)
		want error
	}{
		"deadline in an attempt": {silentAfter, deadlineIn(7 * time.Second), context.DeadlineExceeded},
		"gone in an attempt":     {silentAfter, goneIn(7 * time.Second), context.Canceled},
		"gone in a pause":        {lostAfter, goneIn(7 * time.Second), context.Canceled},
	} {
		t.Run(label, func(t *testing.T) {
			longest := func(n time.Duration) time.Duration { return n - 1 }
			lab(t, intent.WithRandom(intent.Config{MinBackoff: time.Minute, MaxBackoff: time.Minute}, longest), func(t *testing.T, w *world, s *mcp.ClientSession) {
				w.wire.plan = always(c.f)
				start := time.Now()
				ctx, cancel := c.ends(inStep(t))
				defer cancel()
				_, err := call(ctx, s, 5)
				if unknown := wantUnknown(t, err); !errors.Is(err, c.want) || unknown.Attempts != 1 {
					t.Errorf("got %v after %d attempts, want %v", err, unknown.Attempts, c.want)
				}
				if took := time.Since(start); took != 7*time.Second {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
	t.Run("gone before", func(t *testing.T) {
		lab(t, nil, func(t *testing.T, w *world, s *mcp.ClientSession) {
			ctx, cancel := context.WithCancel(inStep(t))
			cancel()
			if _, err := call(ctx, s, 5); !errors.Is(err, context.Canceled) || errors.Is(err, intent.ErrOutcomeUnknown) || w.wire.attempts() != 0 {
				t.Errorf("%v after %d attempts", err, w.wire.attempts())
			}
		})
	})
}

func deadlineIn(d time.Duration) func(context.Context) (context.Context, context.CancelFunc) {
	return func(ctx context.Context) (context.Context, context.CancelFunc) { return context.WithTimeout(ctx, d) }
}

func goneIn(d time.Duration) func(context.Context) (context.Context, context.CancelFunc) {
	return func(ctx context.Context) (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancel(ctx)
		time.AfterFunc(d, cancel)
		return ctx, cancel
	}
}

// TestMiddleware_M10_WhatWasNotDoneIsNoQuestion: an outcome that is known is told.
func TestMiddleware_M10_WhatWasNotDoneIsNoQuestion(t *testing.T) {
	t.Parallel()
	t.Run("no server", func(t *testing.T) {
		lab(t, nil, func(t *testing.T, w *world, s *mcp.ClientSession) {
			w.wire.plan = always(noServer)
			_, err := call(inStep(t), s, 5)
			if errors.Is(err, intent.ErrOutcomeUnknown) || err == nil || !strings.Contains(err.Error(), "issue_refund was not done") {
				t.Errorf("got %v", err)
			}
		})
	})
	t.Run("unavailable", func(t *testing.T) {
		lab(t, nil, func(t *testing.T, w *world, s *mcp.ClientSession) {
			w.handle = func(context.Context, refund) error { return txidem.ErrUnavailable }
			r, err := call(inStep(t), s, 5)
			if err != nil || said(r)["status"] != "unavailable" || w.wire.attempts() < 10 {
				t.Errorf("%v, %v after %d attempts", err, r, w.wire.attempts())
			}
		})
	})
	t.Run("no time to wait as long as the server asks", func(t *testing.T) {
		lab(t, &intent.Config{Deadline: 50 * time.Second}, func(t *testing.T, w *world, s *mcp.ClientSession) {
			w.handle = func(context.Context, refund) error { return txidem.ErrQuota }
			start := time.Now()
			r, err := call(inStep(t), s, 5)
			if err != nil || said(r)["status"] != "over_quota" || time.Since(start) != 0 {
				t.Errorf("%v, %v after %v", err, r, time.Since(start))
			}
		})
	})
	t.Run("still running", func(t *testing.T) {
		lab(t, nil, func(t *testing.T, w *world, s *mcp.ClientSession) {
			w.handle = func(context.Context, refund) error { return &txidem.InProgressError{RetryAfter: time.Second} }
			_, err := call(inStep(t), s, 5)
			wantUnknown(t, err) // that one is a question
		})
	})
}

// TestMiddleware_M10_SlowToolIsHeardInTheEnd: the first attempt is given up, its work goes on, and a later one gets its answer.
func TestMiddleware_M10_SlowToolIsHeardInTheEnd(t *testing.T) {
	lab(t, &intent.Config{Attempt: 10 * time.Second}, func(t *testing.T, w *world, s *mcp.ClientSession) {
		w.handle = func(context.Context, refund) error { time.Sleep(45 * time.Second); return nil }
		start := time.Now()
		r, err := call(inStep(t), s, 5)
		if err != nil || r.IsError || w.count() != 1 {
			t.Errorf("%v, %v, %d effects", err, r, w.count())
		}
		if took := time.Since(start); took < 45*time.Second || took > 52*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}
