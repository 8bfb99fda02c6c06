package intent_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/txidem"
	"github.com/txonce/txonce/txidem/mcpidem/intent"
)

// servings are the ways in which a server speaks HTTP.
var servings = map[string]*mcp.StreamableHTTPOptions{
	"stateless":       {Stateless: true},
	"stateless, JSON": {Stateless: true, JSONResponse: true},
	"stateful":        {},
	"stateful, JSON":  {JSONResponse: true},
}

// TestMiddleware_M10_OneEffectAndTheFirstAnswer has each fault happen twice, and then none.
func TestMiddleware_M10_OneEffectAndTheFirstAnswer(t *testing.T) {
	t.Parallel()
	for label, options := range servings {
		for _, f := range faults {
			t.Run(label+"/"+string(f), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					w := inMemory(t)
					w.wire.plan = []fault{f, f}
					s := w.open(t, "http://mcp.test", w.direct(options), nil)
					defer func() { _ = s.Close() }()
					r, err := call(inStep(t), s, 5)
					if f == cutAfter && options.JSONResponse { // the SDK gives up the session: the harness opens a new one
						wantUnknown(t, err)
						_ = s.Close()
						w.wire.plan = nil
						s = w.open(t, "http://mcp.test", w.direct(options), nil)
						r, err = call(inStep(t), s, 5)
					}
					if err != nil || r.IsError {
						t.Fatalf("%v, %v", err, r)
					}
					if diff := cmp.Diff(map[string]any{"refund": 1.0, "cents": 5.0}, said(r)); diff != "" || w.count() != 1 {
						t.Errorf("%d effects; the answer:\n%s", w.count(), diff)
					}
					key := txidem.IntentKey("run-7", "step-1", "issue_refund")
					if slices.ContainsFunc(w.wire.keys, func(k any) bool { return k != key }) || len(w.wire.keys) < 2 {
						t.Errorf("keys %v, want %v each time", w.wire.keys, key)
					}
				})
			})
		}
	}
}

// TestMiddleware_M10_SessionThatHasEnded: the server is restarted, its sessions are gone, and the harness opens another one.
func TestMiddleware_M10_SessionThatHasEnded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := inMemory(t)
		way := w.direct(&mcp.StreamableHTTPOptions{})
		s := w.open(t, "http://mcp.test", way, nil)
		first, err := call(inStep(t), s, 5)
		if err != nil {
			t.Fatal(err)
		}
		w.end()
		_, err = call(intent.WithStep(t.Context(), "run-7", "step-2"), s, 6)
		if unknown := wantUnknown(t, err); !errors.Is(err, mcp.ErrSessionMissing) || unknown.Attempts != 1 {
			t.Errorf("after %d attempts: %v", unknown.Attempts, err)
		}
		_, err = call(intent.WithStep(t.Context(), "run-7", "step-2"), s, 6)
		if errors.Is(err, intent.ErrOutcomeUnknown) || !errors.Is(err, mcp.ErrConnectionClosed) || !strings.Contains(err.Error(), "was not done (attempts: 1)") {
			t.Errorf("a call on a session that has ended: %v", err)
		}
		_ = s.Close()
		s = w.open(t, "http://mcp.test", way, nil)
		defer s.Close()
		again, err := call(inStep(t), s, 5)
		if err != nil || cmp.Diff(said(first), said(again)) != "" || w.count() != 1 {
			t.Errorf("the step that is resumed on a new session: %v, %v, %d effects", again, err, w.count())
		}
	})
}
