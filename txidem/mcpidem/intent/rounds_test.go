package intent_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/txidem/mcpidem"
	"github.com/txonce/txonce/txidem/mcpidem/intent"
)

// confirming is a world whose issue_refund wants a confirmation first and then keeps its answer by key, as a protected tool does.
func confirming() *world {
	w := &world{wire: &wire{}, server: mcp.NewServer(&mcp.Implementation{Name: "billing", Version: "1"}, nil)}
	done := map[any]map[string]any{}
	w.server.AddTool(&mcp.Tool{Name: "issue_refund", InputSchema: map[string]any{"type": "object"}}, func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		key := req.Params.Meta[mcpidem.MetaKey]
		if answer, ok := done[key]; ok {
			return &mcp.CallToolResult{Content: []mcp.Content{}, StructuredContent: answer}, nil
		}
		if req.Params.InputResponses == nil {
			return &mcp.CallToolResult{RequestState: "asked", InputRequests: mcp.InputRequestMap{"sure": &mcp.ElicitParams{
				Message: "Refund?", RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{}},
			}}}, nil
		}
		w.effects++
		done[key] = map[string]any{"refund": float64(w.effects)}
		return &mcp.CallToolResult{Content: []mcp.Content{}, StructuredContent: done[key]}, nil
	})
	return w
}

func (w *world) openPeople(t testing.TB, options *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, options)
	client.AddSendingMiddleware(intent.Middleware(allTools(nil)))
	s, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: "http://mcp.test", HTTPClient: &http.Client{Transport: w.wire.over(w.direct(&mcp.StreamableHTTPOptions{Stateless: true}))}, DisableStandaloneSSE: true,
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestMiddleware_M10_ContinuationsHaveTheSameKey: revision 2026-07-28 answers with questions, and the client calls again with the
// replies. The SDK does so below the middleware, so one attempt has two requests. Each answer is lost once, the final one twice.
func TestMiddleware_M10_ContinuationsHaveTheSameKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, people := confirming(), 0
		s := w.openPeople(t, &mcp.ClientOptions{ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			people++
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{}}, nil
		}})
		defer s.Close()
		w.wire.plan = []fault{lostAfter, fine, lostAfter, lostAfter}
		r, err := call(inStep(t), s, 5)
		if err != nil || said(r)["refund"] != 1.0 || w.count() != 1 {
			t.Fatalf("%v, %v, %d effects", err, r, w.count())
		}
		if len(w.wire.keys) != 5 || people != 1 {
			t.Errorf("%d requests, people were asked %d times", len(w.wire.keys), people)
		}
		wantOneKey(t, w)
	})
}

// TestMiddleware_M10_ContinuationsOfTheHarnessAreRepeatedAlone: nobody is asked twice.
func TestMiddleware_M10_ContinuationsOfTheHarnessAreRepeatedAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := confirming()
		s := w.openPeople(t, &mcp.ClientOptions{
			MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true},
			Capabilities:   &mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapabilities{}},
		})
		defer s.Close()
		w.wire.plan = []fault{lostAfter, fine, resetBefore, lostAfter}
		ctx := inStep(t)
		r, err := call(ctx, s, 5)
		if err != nil || r.InputRequests == nil {
			t.Fatalf("%v, %+v", err, r)
		}
		r, err = s.CallTool(ctx, &mcp.CallToolParams{
			Name: "issue_refund", Arguments: map[string]any{"order": "A-1", "cents": 5}, RequestState: r.RequestState,
			InputResponses: mcp.InputResponseMap{"sure": &mcp.ElicitResult{Action: "accept", Content: map[string]any{}}},
		})
		if err != nil || said(r)["refund"] != 1.0 || w.count() != 1 || len(w.wire.keys) != 5 {
			t.Errorf("%v, %v, %d effects, %d requests", err, r, w.count(), len(w.wire.keys))
		}
		wantOneKey(t, w)
	})
}

func wantOneKey(t testing.TB, w *world) {
	t.Helper()
	for _, key := range w.wire.keys {
		if key == nil || key != w.wire.keys[0] {
			t.Errorf("the keys of one call: %v", w.wire.keys)
			return
		}
	}
}
