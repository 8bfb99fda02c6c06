package intent_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/txidem"
	"github.com/txonce/txonce/txidem/mcpidem"
	"github.com/txonce/txonce/txidem/mcpidem/intent"
)

func TestMiddleware_M10_K02_WhereTheKeyComesFrom(t *testing.T) {
	lab(t, nil, func(t *testing.T, w *world, s *mcp.ClientSession) {
		ctx := t.Context()
		own := mcp.Meta{mcpidem.MetaKey: "mine"}
		for _, c := range []struct {
			label string
			ctx   context.Context
			meta  mcp.Meta
			want  any
		}{
			{"no intent", ctx, nil, nil},
			{"step", intent.WithStep(ctx, "r", "s"), nil, txidem.IntentKey("r", "s", "issue_refund")},
			{"second call of a step", intent.WithStep(ctx, "r", intent.Nth("s", 2)), nil, txidem.IntentKey("r", "s#2", "issue_refund")},
			{"business key", intent.WithKey(ctx, "refund:A-1:2"), nil, "refund:A-1:2"},
			{"the later one counts", intent.WithKey(intent.WithStep(ctx, "r", "s"), "k"), nil, "k"},
			{"one in _meta stays", intent.WithStep(ctx, "r", "s"), own, "mine"},
			{"one in _meta alone", ctx, own, "mine"},
		} {
			w.wire.keys = nil
			if _, err := s.CallTool(c.ctx, &mcp.CallToolParams{Name: "issue_refund", Meta: c.meta, Arguments: map[string]any{"order": c.label, "cents": 1}}); err != nil {
				t.Errorf("%s: %v", c.label, err)
			}
			if diff := cmp.Diff([]any{c.want}, w.wire.keys); diff != "" {
				t.Errorf("%s: the key in _meta:\n%s", c.label, diff)
			}
		}
	})
}

func TestMiddleware_M10_EmptyNamesAreRefused(t *testing.T) {
	lab(t, nil, func(t *testing.T, w *world, s *mcp.ClientSession) {
		ctx := t.Context()
		for says, params := range map[string]struct {
			ctx  context.Context
			meta mcp.Meta
		}{
			`run "", step "s": give WithStep both`: {intent.WithStep(ctx, "", "s"), nil},
			`run "r", step "": give WithStep both`: {intent.WithStep(ctx, "r", ""), nil},
			"give WithKey a key of 1 to 255 bytes": {intent.WithKey(ctx, ""), nil},
			"must be a text of 1 to 255 bytes":     {ctx, mcp.Meta{mcpidem.MetaKey: 7}},
			"must be a text of 1 to 255":           {ctx, mcp.Meta{mcpidem.MetaKey: ""}},
		} {
			_, err := s.CallTool(params.ctx, &mcp.CallToolParams{Name: "issue_refund", Meta: params.meta, Arguments: map[string]any{"order": "A", "cents": 1}})
			if err == nil || !strings.HasPrefix(err.Error(), "intent: ") || !strings.Contains(err.Error(), says) {
				t.Errorf("got %v, want an error that says %q", err, says)
			}
		}
		if n := w.wire.attempts(); n != 0 {
			t.Errorf("%d were sent", n)
		}
	})
}

// TestMiddleware_M10_ModelsKeyAndCallersParamsAreLeftAlone: the server lets the key in _meta win.
func TestMiddleware_M10_ModelsKeyAndCallersParamsAreLeftAlone(t *testing.T) {
	lab(t, nil, func(t *testing.T, w *world, s *mcp.ClientSession) {
		w.wire.plan = []fault{lostAfter}
		params := &mcp.CallToolParams{
			Name: "issue_refund", Meta: mcp.Meta{"com.example/trace": "t"},
			Arguments: map[string]any{"order": "A-1", "cents": 5, "idempotency_key": "the model's"},
		}
		if r, err := s.CallTool(inStep(t), params); err != nil || r.IsError || w.count() != 1 {
			t.Fatalf("%v, %v, %d effects", r, err, w.count())
		}
		if !strings.Contains(w.wire.args[1], `"idempotency_key":"the model's"`) || w.wire.args[0] != w.wire.args[1] {
			t.Errorf("sent %v", w.wire.args)
		}
		if _, there := params.Meta[mcpidem.MetaKey]; there || params.Meta["com.example/trace"] != "t" {
			t.Errorf("the caller's _meta is %v now", params.Meta)
		}
	})
}

func TestMiddleware_M10_CallsWithoutAStepPassUntouched(t *testing.T) {
	lab(t, nil, func(t *testing.T, w *world, s *mcp.ClientSession) {
		w.wire.plan = []fault{resetBefore}
		if _, err := call(t.Context(), s, 1); err == nil || strings.Contains(err.Error(), "intent:") || w.wire.attempts() != 1 {
			t.Errorf("%v after %d attempts", err, w.wire.attempts())
		}
	})
}

func TestMiddleware_M10_RequireRefusesCallsWithoutAStep(t *testing.T) {
	reads := func(name string) bool { return name == "issue_refund" }
	lab(t, &intent.Config{Require: true, Tools: reads, StatusTool: "get_status"}, func(t *testing.T, w *world, s *mcp.ClientSession) {
		if _, err := call(t.Context(), s, 1); err == nil || !strings.Contains(err.Error(), "name the step with intent.WithStep") || w.wire.attempts() != 0 {
			t.Errorf("%v after %d attempts", err, w.wire.attempts())
		}
		w.states = []any{map[string]any{"state": "none"}}
		if _, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "get_status", Arguments: map[string]any{"tool": "issue_refund", "idempotency_key": "k"}}); err != nil {
			t.Errorf("a read: %v", err)
		}
	})
}

// TestMiddleware_M10_UnprotectedToolsAreNeverRepeated: not in a step either.
func TestMiddleware_M10_UnprotectedToolsAreNeverRepeated(t *testing.T) {
	lab(t, &intent.Config{Tools: func(name string) bool { return name != "issue_refund" }}, func(t *testing.T, w *world, s *mcp.ClientSession) {
		w.wire.plan = []fault{lostAfter}
		if _, err := call(inStep(t), s, 1); err == nil || w.wire.attempts() != 1 || w.wire.keys[0] != nil {
			t.Errorf("%v; keys %v", err, w.wire.keys)
		}
	})
}
