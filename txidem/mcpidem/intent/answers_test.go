package intent_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/oauth2"

	"github.com/txonce/txonce/txidem"
	"github.com/txonce/txonce/txidem/mcpidem/intent"
)

// failOnce has the handler fail the first time.
func failOnce(err error) func(context.Context, refund) error {
	first := true
	return func(context.Context, refund) error {
		if first {
			first = false
			return err
		}
		return nil
	}
}

// TestMiddleware_M10_RefusalsThatPassAreRepeatedWhenTheServerSays drives the real adapter: its words are the contract.
func TestMiddleware_M10_RefusalsThatPassAreRepeatedWhenTheServerSays(t *testing.T) {
	t.Parallel()
	for status, c := range map[string]struct {
		err   error
		after time.Duration
	}{
		"unavailable":     {txidem.ErrUnavailable, 5 * time.Second},
		"over_quota":      {txidem.ErrQuota, time.Minute},
		"outcome_unknown": {txidem.ErrOutcomeUnknown, time.Second},
		"in_progress":     {&txidem.InProgressError{RetryAfter: 3 * time.Second}, 3 * time.Second},
	} {
		t.Run(status, func(t *testing.T) {
			lab(t, nil, func(t *testing.T, w *world, s *mcp.ClientSession) {
				w.handle = failOnce(fmt.Errorf("%w: the test's", c.err))
				r, err := call(inStep(t), s, 5)
				if err != nil || r.IsError || w.count() != 1 || len(w.wire.times) != 2 {
					t.Fatalf("%v, %v, %d effects, %d attempts", err, r, w.count(), len(w.wire.times))
				}
				if waited := w.wire.times[1].Sub(w.wire.times[0]); waited < c.after || waited > c.after+200*time.Millisecond {
					t.Errorf("repeated after %v, want %v and at most 200ms more", waited, c.after)
				}
			})
		})
	}
}

// TestMiddleware_M10_DuplicateWaitsForTheFirst: the other copy runs in another process.
func TestMiddleware_M10_DuplicateWaitsForTheFirst(t *testing.T) {
	lab(t, nil, func(t *testing.T, w *world, s *mcp.ClientSession) {
		w.handle = func(context.Context, refund) error { time.Sleep(10 * time.Second); return nil }
		other := w.open(t, "http://mcp.test", w.direct(&mcp.StreamableHTTPOptions{Stateless: true}), nil)
		defer other.Close()
		results := make(chan *mcp.CallToolResult, 2)
		for _, s := range []*mcp.ClientSession{s, other} {
			go func() {
				r, err := call(inStep(t), s, 5)
				if err != nil {
					t.Error(err)
				}
				results <- r
			}()
		}
		a, b := <-results, <-results
		if w.count() != 1 || said(a)["refund"] != 1.0 || said(b)["refund"] != 1.0 {
			t.Errorf("%v, %v, %d effects", said(a), said(b), w.count())
		}
	})
}

func TestMiddleware_M10_OtherAnswersGoToTheCallerAtOnce(t *testing.T) {
	t.Parallel()
	for status, err := range map[string]error{
		"failed":     txidem.Fail("closed", "the order is closed"),
		"not_done":   errors.New("printer on fire"),
		"tool_fault": txidem.ErrRecord,
		"expired":    &txidem.ExpiredError{},
		"no_caller":  txidem.ErrScope,
	} {
		t.Run(status, func(t *testing.T) {
			lab(t, nil, func(t *testing.T, w *world, s *mcp.ClientSession) {
				w.handle = failOnce(err)
				r, err := call(inStep(t), s, 5)
				if err != nil || !r.IsError || said(r)["status"] != status || w.wire.attempts() != 1 {
					t.Errorf("%v, %v, %d attempts", err, r, w.wire.attempts())
				}
			})
		})
	}
	t.Run("protocol error", func(t *testing.T) {
		lab(t, nil, func(t *testing.T, w *world, s *mcp.ClientSession) {
			w.wire.plan = []fault{invalid}
			_, err := call(inStep(t), s, 5)
			var wire *jsonrpc.Error
			if !errors.As(err, &wire) || wire.Code != jsonrpc.CodeInvalidParams || w.wire.attempts() != 1 || strings.Contains(err.Error(), "intent:") {
				t.Errorf("%v after %d attempts", err, w.wire.attempts())
			}
		})
	})
	t.Run("arguments that are not JSON", func(t *testing.T) {
		lab(t, nil, func(t *testing.T, w *world, s *mcp.ClientSession) {
			start := time.Now()
			_, err := s.CallTool(inStep(t), &mcp.CallToolParams{Name: "issue_refund", Arguments: map[string]any{"order": make(chan int)}})
			if err == nil || errors.Is(err, intent.ErrOutcomeUnknown) || time.Since(start) != 0 {
				t.Errorf("%v after %v", err, time.Since(start))
			}
		})
	})
}

// TestMiddleware_M10_WordsOfOtherServers: what is not clearly an invitation to repeat is an answer, and nonsense in a hint is none.
func TestMiddleware_M10_WordsOfOtherServers(t *testing.T) {
	t.Parallel()
	for label, c := range map[string]struct {
		said     map[string]any
		attempts int
	}{
		"do not repeat":     {map[string]any{"status": "in_progress", "repeat_same_call": false}, 1},
		"no word of it":     {map[string]any{"status": "outcome_unknown"}, 1},
		"another status":    {map[string]any{"status": "tired", "repeat_same_call": true}, 1},
		"below 0":           {map[string]any{"status": "unavailable", "repeat_same_call": true, "retry_after_seconds": -5}, 2},
		"not a number":      {map[string]any{"status": "unavailable", "repeat_same_call": true, "retry_after_seconds": "soon"}, 2},
		"longer than we go": {map[string]any{"status": "unavailable", "repeat_same_call": true, "retry_after_seconds": 1e300}, 1},
	} {
		t.Run(label, func(t *testing.T) {
			longest := func(n time.Duration) time.Duration { return n - 1 }
			lab(t, intent.WithRandom(intent.Config{}, longest), func(t *testing.T, w *world, s *mcp.ClientSession) {
				calls := 0
				w.server.AddTool(&mcp.Tool{Name: "issue_refund", InputSchema: map[string]any{"type": "object"}}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
					calls++
					if calls > 1 {
						return &mcp.CallToolResult{Content: []mcp.Content{}}, nil
					}
					return &mcp.CallToolResult{Content: []mcp.Content{}, IsError: true, StructuredContent: c.said}, nil
				})
				start := time.Now()
				r, err := call(inStep(t), s, 5)
				if err != nil || calls != c.attempts || r.IsError != (c.attempts == 1) || time.Since(start) != time.Duration(c.attempts-1)*200*time.Millisecond {
					t.Errorf("%v, %+v, %d calls in %v", err, r, calls, time.Since(start))
				}
			})
		})
	}
}

// TestMiddleware_M10_NoIsNoAnswerToALostOne: the server did it, the answer was lost, and then it refuses: to the model
// that must not sound like "nothing was done".
func TestMiddleware_M10_NoIsNoAnswerToALostOne(t *testing.T) {
	t.Parallel()
	for label, then := range map[string]func(w *world){
		"a caller who is not known any more": func(w *world) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.stranger = errors.New("the token has expired")
		},
		"one who may not see it": func(w *world) { w.refuse("not_allowed") },
		"a tool with a fault":    func(w *world) { w.refuse("tool_fault") },
		"a protocol error": func(w *world) {
			w.wire.mu.Lock()
			defer w.wire.mu.Unlock()
			w.wire.plan = []fault{invalid}
		},
	} {
		t.Run(label, func(t *testing.T) {
			lab(t, nil, func(t *testing.T, w *world, s *mcp.ClientSession) {
				w.wire.plan = []fault{lostAfter}
				w.handle = func(context.Context, refund) error { then(w); return nil }
				_, err := call(inStep(t), s, 5)
				if unknown := wantUnknown(t, err); unknown.Attempts != 2 || w.count() != 1 {
					t.Errorf("%d attempts, %d effects", unknown.Attempts, w.count())
				}
			})
		})
	}
}

// refuse replaces the tool by one that says no.
func (w *world) refuse(status string) {
	w.server.AddTool(&mcp.Tool{Name: "issue_refund", InputSchema: map[string]any{"type": "object"}}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{}, IsError: true, StructuredContent: map[string]any{"status": status, "repeat_same_call": false}}, nil
	})
}

// TestMiddleware_M10_StatusThatEndsTheSession: the SDK has only a text for it, so it is a question, soon.
func TestMiddleware_M10_StatusThatEndsTheSession(t *testing.T) {
	lab(t, nil, func(t *testing.T, w *world, s *mcp.ClientSession) {
		w.wire.plan = []fault{unauthorized}
		_, err := call(inStep(t), s, 5)
		if unknown := wantUnknown(t, err); unknown.Attempts != 2 || !strings.Contains(err.Error(), "Unauthorized") {
			t.Errorf("%v", err)
		}
	})
}

// signIn is the client's way to authorise itself. People are asked, and they close the window.
type signIn struct{ asked int }

func (*signIn) TokenSource(context.Context) (oauth2.TokenSource, error) { return nil, nil }

func (s *signIn) Authorize(_ context.Context, _ *http.Request, r *http.Response) error {
	s.asked++
	return errors.Join(errors.New("the window was closed"), r.Body.Close())
}

// TestMiddleware_M10_PeopleAreAskedToSignInOnce: the SDK calls it "rejected by transport", as it does a lost answer.
func TestMiddleware_M10_PeopleAreAskedToSignInOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := inMemory(t)
		people := &signIn{}
		s := w.openAs(t, &mcp.StreamableClientTransport{
			Endpoint: "http://mcp.test", HTTPClient: &http.Client{Transport: w.wire.over(w.direct(&mcp.StreamableHTTPOptions{Stateless: true}))},
			OAuthHandler: people, DisableStandaloneSSE: true,
		}, nil)
		defer s.Close()
		w.wire.plan = []fault{unauthorized, unauthorized}
		_, err := call(inStep(t), s, 5)
		if err == nil || errors.Is(err, intent.ErrOutcomeUnknown) || !strings.Contains(err.Error(), "the window was closed") || people.asked != 1 {
			t.Errorf("%v; people were asked %d times", err, people.asked)
		}
	})
}
