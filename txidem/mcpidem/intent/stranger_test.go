package intent_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/txidem/mcpidem/intent"
)

// TestMiddleware_M10_ErrorOfAnotherLayerSaysNothingOfEarlierAttempts: a gateway or a middleware that refuses the repetition does not
// know that the first attempt was done.
func TestMiddleware_M10_ErrorOfAnotherLayerSaysNothingOfEarlierAttempts(t *testing.T) {
	lab(t, nil, func(t *testing.T, w *world, s *mcp.ClientSession) {
		limited := false
		w.server.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
			return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
				if limited && method == "tools/call" {
					return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: "rate limit exceeded"}}}, nil
				}
				limited = method == "tools/call"
				return next(ctx, method, req)
			}
		})
		w.wire.plan = []fault{lostAfter}
		r, err := call(inStep(t), s, 5)
		if unknown := wantUnknown(t, err); r != nil || unknown.Attempts != 2 || !strings.Contains(err.Error(), "rate limit exceeded") || w.count() != 1 {
			t.Errorf("%v, %v, %d effects", err, r, w.count())
		}
		r, err = call(intent.WithStep(t.Context(), "run-7", "step-2"), s, 5) // nothing was lost: it is an answer
		if err != nil || !r.IsError || errors.Is(err, intent.ErrOutcomeUnknown) || w.count() != 1 {
			t.Errorf("%v, %v, %d effects", err, r, w.count())
		}
	})
}
