package mcpidem_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/toolcall"
	"github.com/txonce/txonce/txidem"
	"github.com/txonce/txonce/txidem/mcpidem"
)

func noteTool(_ context.Context, _ pgx.Tx, in struct {
	Text string `json:"text"`
},
) (map[string]string, error) {
	return map[string]string{"noted": in.Text}, nil
}

// TestHost_S01_ProtectedToolsAreNamedInOrder, those that come later to whoever asked.
func TestHost_S01_ProtectedToolsAreNamedInOrder(t *testing.T) {
	t.Parallel()
	s := newShop(t, nil)
	if s.idem.Server() != s.server {
		t.Error("another server")
	}
	mcpidem.AddTool(s.idem, &mcp.Tool{Name: "b"}, noteTool)
	mcpidem.AddReadTool(s.idem, &mcp.Tool{Name: "read"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return nil, nil, nil
	})
	var later []string
	s.idem.OnTool(func(tool *mcp.Tool) error {
		later = append(later, tool.Name)
		if tool.Name == "unwanted" {
			return errors.New("not this one")
		}
		return nil
	})
	mcpidem.AddTool(s.idem, &mcp.Tool{Name: "a"}, noteTool)
	func() {
		defer func() {
			if v := recover(); v == nil || !strings.Contains(v.(error).Error(), "not this one") {
				t.Errorf("it was added: %v", v)
			}
		}()
		mcpidem.AddTool(s.idem, &mcp.Tool{Name: "unwanted"}, noteTool)
	}()
	var names []string
	for _, tool := range s.idem.Tools() {
		names = append(names, tool.Name)
		if tool.OutputSchema == nil || tool.Description == "" {
			t.Errorf("%s is not as clients see it: %+v", tool.Name, tool)
		}
	}
	if diff := cmp.Diff([]string{"b", "a", "unwanted"}, names); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"a", "unwanted"}, later); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestHost_S01_NamesAreReserved, on both sides.
func TestHost_S01_NamesAreReserved(t *testing.T) {
	t.Parallel()
	s := newShop(t, nil)
	mcpidem.AddTool(s.idem, &mcp.Tool{Name: "note"}, noteTool)
	if err := errors.Join(s.idem.Reserve("get_status"), s.idem.Reserve("other")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"note", "get_status"} {
		if err := s.idem.Reserve(name); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("a reserved name was given to a tool")
		}
	}()
	mcpidem.AddTool(s.idem, &mcp.Tool{Name: "other"}, noteTool)
}

// TestHost_S02_RecordedIsWhatTheCallGot, but for the marks of a replay.
func TestHost_S02_RecordedIsWhatTheCallGot(t *testing.T) {
	t.Parallel()
	s := newShop(t, nil)
	want, err := s.idem.Recorded(toolcall.Status{ID: toolcall.ID{1}, State: toolcall.StateSucceeded, Answer: []byte(`{"noted":"x"}`)})
	if err != nil || len(want.Content) != 1 || want.Content[0].(*mcp.TextContent).Text != `{"noted":"x"}` {
		t.Errorf("%+v, %v", want, err)
	}
	full, err := s.idem.Recorded(toolcall.Status{State: toolcall.StateSucceeded, Answer: []byte(`{"dev.txonce/result":{"content":[{"type":"text","text":"x"}]}}`)})
	if err != nil || len(full.Content) != 1 || full.Content[0].(*mcp.TextContent).Text != "x" {
		t.Errorf("%+v, %v", full, err)
	}
	for label, status := range map[string]toolcall.Status{
		"it failed": {State: toolcall.StateFailed, Answer: []byte(`{}`)}, "no JSON": {State: toolcall.StateSucceeded, Answer: []byte(`{`)},
		"no result": {State: toolcall.StateSucceeded, Answer: []byte(`{"dev.txonce/result":[]}`)},
	} {
		if r, err := s.idem.Recorded(status); !errors.Is(err, txidem.ErrRecord) {
			t.Errorf("%s: %+v, %v", label, r, err)
		}
	}
}
