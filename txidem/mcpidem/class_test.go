package mcpidem_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/txidem"
	"github.com/txonce/txonce/txidem/mcpidem"
)

func plain(_ context.Context, _ *mcp.CallToolRequest, in refund) (*mcp.CallToolResult, receipt, error) {
	if in.Memo == "panic" {
		panic("secret")
	}
	return nil, receipt{Refund: in.Order}, nil
}

func guarded(context.Context, pgx.Tx, refund) (receipt, error) { return receipt{}, nil }

func TestClasses_M02_AnnotationsAreTrue(t *testing.T) {
	t.Parallel()
	s := newShop(t, nil)
	no := false
	mcpidem.AddReadTool(s.idem, &mcp.Tool{Name: "read"}, plain)
	mcpidem.AddIdempotentTool(s.idem, &mcp.Tool{Name: "set", Annotations: &mcp.ToolAnnotations{Title: "Set", DestructiveHint: &no, OpenWorldHint: &no}}, plain)
	mcpidem.AddTool(s.idem, &mcp.Tool{Name: "add", Annotations: &mcp.ToolAnnotations{Title: "Add"}}, guarded)
	mcpidem.AddToolWith(s.idem, &mcp.Tool{Name: "once", Annotations: &mcp.ToolAnnotations{IdempotentHint: true}},
		&mcpidem.ToolConfig{Policy: &txidem.Policy{OnExpired: txidem.Refuse}}, guarded)
	mcpidem.AddToolWith(s.idem, &mcp.Tool{Name: "off"},
		&mcpidem.ToolConfig{Policy: &txidem.Policy{OnExpired: txidem.Refuse, Disabled: true}}, guarded)
	for name, want := range map[string]mcp.ToolAnnotations{
		"read": {ReadOnlyHint: true},
		"set":  {IdempotentHint: true, Title: "Set", DestructiveHint: &no, OpenWorldHint: &no},
		"add":  {Title: "Add"},
		"once": {IdempotentHint: true},
		"off":  {},
	} {
		if diff := cmp.Diff(&want, s.tool(name).Annotations); diff != "" {
			t.Errorf("%s: the annotations are others (-want +got):\n%s", name, diff)
		}
	}
}

func TestClasses_M02_UntrueHintsAreRefused(t *testing.T) {
	t.Parallel()
	s := newShop(t, nil)
	hinted := func(a mcp.ToolAnnotations) *mcp.Tool { return &mcp.Tool{Name: "t", Annotations: &a} }
	for says, add := range map[string]func(){
		"add it with AddReadTool": func() { mcpidem.AddTool(s.idem, hinted(mcp.ToolAnnotations{ReadOnlyHint: true}), guarded) },
		"set Policy.OnExpired":    func() { mcpidem.AddTool(s.idem, hinted(mcp.ToolAnnotations{IdempotentHint: true}), guarded) },
		"ReadOnlyHint":            func() { mcpidem.AddIdempotentTool(s.idem, hinted(mcp.ToolAnnotations{ReadOnlyHint: true}), plain) },
		"needs a name":            func() { mcpidem.AddReadTool(s.idem, &mcp.Tool{}, plain) },
	} {
		if got := panics(t, add); !strings.Contains(got, says) {
			t.Errorf("got %q, want a panic that says %q", got, says)
		}
	}
	mcpidem.AddReadTool(s.idem, &mcp.Tool{Name: "t"}, plain) // what was refused has not taken the name
	if got := panics(t, func() { mcpidem.AddTool(s.idem, &mcp.Tool{Name: "t"}, guarded) }); !strings.Contains(got, "there is a tool") {
		t.Errorf("a second tool of the name: %q", got)
	}
}

func TestClasses_M02_M06_PlainToolsPayNothingAndMayPanic(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	s := newShop(t, &mcpidem.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	mcpidem.AddReadTool(s.idem, &mcp.Tool{Name: "read"}, plain)
	session := s.connect(nil)
	first, again := s.call(session, "read", `{"order":"A","cents":1}`, "k"), s.call(session, "read", `{"order":"B","cents":1}`, "k")
	if text(first) == text(again) || replayed(again) || again.Meta[mcpidem.MetaCallID] != nil {
		t.Errorf("a read is remembered: %s, %s", text(first), text(again))
	}
	_, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "read", Arguments: refund{Order: "A", Memo: "panic"}})
	if err == nil || !strings.Contains(err.Error(), "This tool has a fault") || strings.Contains(err.Error(), "secret") || !strings.Contains(log.String(), "secret") {
		t.Errorf("a panic: %v; log %s", err, &log)
	}
	if r := s.call(session, "read", `{"order":"A","cents":1}`, ""); r.IsError {
		t.Errorf("after the panic: %s", text(r))
	}
}
