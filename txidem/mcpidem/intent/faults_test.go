package intent_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

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
					ctx := intent.WithStep(t.Context(), "run-7", "step-1")
					r, err := call(ctx, s, 5)
					t.Log(err)
					var unknown *intent.OutcomeUnknownError
					if errors.As(err, &unknown) && f == cutAfter && options.JSONResponse {
						_ = s.Close() // the SDK gives up the session: the harness opens a new one
						w.wire.plan = nil
						s = w.open(t, "http://mcp.test", w.direct(options), nil)
						r, err = call(ctx, s, 5)
					}
					if err != nil || r.IsError {
						t.Fatalf("%v, %v", err, r)
					}
					if diff := cmp.Diff(map[string]any{"refund": 1.0, "cents": 5.0}, said(r)); diff != "" {
						t.Error(diff)
					}
					if n := w.count(); n != 1 {
						t.Errorf("%d effects", n)
					}
					key := txidem.IntentKey("run-7", "step-1", "issue_refund")
					if slices.ContainsFunc(w.wire.keys, func(k any) bool { return k != key }) || len(w.wire.keys) < 2 {
						t.Errorf("keys %v, want %v each time", w.wire.keys, key)
					}
					if err := s.Close(); err != nil {
						t.Log(err)
					}
				})
			})
		}
	}
	_ = time.Second
}
