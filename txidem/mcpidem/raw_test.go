package mcpidem_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/jackc/pgx/v5"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/txidem"
	"github.com/txonce/txonce/txidem/mcpidem"
)

var (
	rawInput  = json.RawMessage(`{"type":"object","properties":{"order":{"type":"string"},"memo":{"type":"string","default":"none"}},"required":["order"],"additionalProperties":false}`)
	rawOutput = json.RawMessage(`{"type":"object","required":["n"]}`)
)

// rawShop is a shop whose one tool, "label", is in the full form.
func rawShop(t *testing.T, h mcpidem.RawHandler, versions ...string) *shop {
	s := newShop(t, nil, versions...)
	mcpidem.AddToolRaw(s.idem, &mcp.Tool{Name: "label", InputSchema: rawInput, OutputSchema: rawOutput}, nil, h)
	return s
}

func TestAddToolRaw_M01_ResultIsReplayedWhole(t *testing.T) {
	t.Parallel()
	runs := 0
	made := &mcp.CallToolResult{ // the same one each time, as a careless handler has it
		Meta: mcp.Meta{"example.com/printer": "p1"},
		Content: []mcp.Content{
			&mcp.TextContent{Text: "label <A>", Annotations: &mcp.Annotations{Audience: []mcp.Role{"user"}, Priority: 0.5}},
			&mcp.ImageContent{Data: []byte{0, 255, 1}, MIMEType: "image/png"},
			&mcp.ResourceLink{URI: "file:///label", Name: "label"},
			&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "x:y", Blob: []byte{7}}},
		},
		StructuredContent: json.RawMessage(`{"n":9007199254740993,"x":1e2}`),
	}
	s := rawShop(t, func(_ context.Context, _ pgx.Tx, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		runs++
		if got := string(req.Params.Arguments); got != `{"memo":"none","order":"A"}` {
			t.Errorf("the handler got %s", got)
		}
		return made, nil
	})
	session := s.connect(nil)
	first := s.call(session, "label", `{"order":"A","idempotency_key":"k"}`, "")
	again := s.call(session, "label", `{"idempotency_key":"k","order":"\u0041"}`, "")
	if runs != 1 || replayed(first) || !replayed(again) || first.IsError {
		t.Fatalf("%d runs; first %v, again %v", runs, first.Meta, again.Meta)
	}
	if len(again.Content) != 5 || !strings.Contains(text(again), "(Recorded answer: this call was done once") {
		t.Fatalf("the replay's content: %v", text(again))
	}
	again.Content = again.Content[:4]
	delete(again.Meta, mcpidem.MetaReplayed)
	if diff := cmp.Diff(first, again, cmpopts.IgnoreUnexported(mcp.CallToolResult{})); diff != "" {
		t.Errorf("the replay is another result:\n%s", diff)
	}
	if diff := cmp.Diff(made.Content, first.Content); diff != "" || first.Meta["example.com/printer"] != "p1" || first.Meta[mcpidem.MetaCallID] == nil {
		t.Errorf("the result is not the handler's: %v\n%s", first.Meta, diff)
	}
	if len(made.Meta) != 1 {
		t.Errorf("the handler's own result was written into: %v", made.Meta)
	}
}

func TestAddToolRaw_M01_StructuredContentKeepsItsBytes(t *testing.T) {
	t.Parallel()
	const want = `{"n":9007199254740993,"x":1e2}`
	s := rawShop(t, func(context.Context, pgx.Tx, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{StructuredContent: json.RawMessage(want)}, nil
	})
	var sent []string
	s.server.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			result, err := next(ctx, method, req)
			if r, ok := result.(*mcp.CallToolResult); ok {
				raw, _ := json.Marshal(r.StructuredContent)
				sent = append(sent, string(raw))
			}
			return result, err
		}
	})
	session := s.connect(nil)
	s.call(session, "label", `{"order":"A"}`, "k")
	s.call(session, "label", `{"order":"A"}`, "k")
	if diff := cmp.Diff([]string{want, want}, sent); diff != "" {
		t.Error(diff)
	}
}

func TestAddToolRaw_M03_M06_WhatIsNotRecorded(t *testing.T) {
	t.Parallel()
	for label, c := range map[string]struct {
		result *mcp.CallToolResult
		err    error
		says   string
		status any
	}{
		"an error result": {&mcp.CallToolResult{Meta: mcp.Meta{"example.com/x": "y"}, IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: "no paper"}}}, nil, "no paper", nil},
		"no result":       {nil, nil, "This tool has a fault. Nothing was changed", "tool_fault"},
		"does not fit":    {&mcp.CallToolResult{StructuredContent: map[string]any{"m": 1}}, nil, "This tool has a fault. Nothing was changed", "tool_fault"},
		"nothing at all":  {&mcp.CallToolResult{}, nil, "This tool has a fault. Nothing was changed", "tool_fault"},
		"an error":        {nil, errors.New("printer on fire"), "printer on fire", "not_done"},
	} {
		t.Run(label, func(t *testing.T) {
			t.Parallel()
			runs := 0
			s := rawShop(t, func(context.Context, pgx.Tx, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				runs++
				if runs > 1 {
					return &mcp.CallToolResult{StructuredContent: map[string]any{"n": runs}}, nil
				}
				return c.result, c.err
			})
			session := s.connect(nil)
			if r := s.call(session, "label", `{"order":"A"}`, "k"); !r.IsError || !strings.Contains(text(r), c.says) || status(r) != c.status {
				t.Errorf("got %v %s", status(r), text(r))
			}
			if c.result != nil && len(c.result.Meta) > 1 {
				t.Errorf("the handler's own result was written into: %v", c.result.Meta)
			}
			if r := s.call(session, "label", `{"order":"A"}`, "k"); r.IsError || replayed(r) || runs != 2 {
				t.Errorf("the next call: %s, %d runs", text(r), runs)
			}
		})
	}
}

func TestAddToolRaw_R06_FailuresAreRecorded(t *testing.T) {
	t.Parallel()
	runs := 0
	s := rawShop(t, func(context.Context, pgx.Tx, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		runs++
		return nil, txidem.Fail("closed", "the order is closed")
	})
	session := s.connect(nil)
	for range 2 {
		if r := s.call(session, "label", `{"order":"A"}`, "k"); status(r) != "failed" || runs != 1 {
			t.Errorf("%v, %d runs", status(r), runs)
		}
	}
	if r := s.call(session, "label", `{}`, "k2"); status(r) != "bad_args" || runs != 1 {
		t.Errorf("arguments that do not fit: %v, %d runs", status(r), runs)
	}
}

// TestAddToolRaw_M06_ContinuationIsNoDuplicate: what is asked in between rolls back, and the call goes on when it is answered.
func TestAddToolRaw_M06_ContinuationIsNoDuplicate(t *testing.T) {
	t.Parallel()
	for _, version := range []string{legacy, modern} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			runs, asked := 0, 0
			s := rawShop(t, func(_ context.Context, _ pgx.Tx, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				runs++
				said, ok := req.Params.InputResponses["size"].(*mcp.ElicitResult)
				if !ok {
					return &mcp.CallToolResult{RequestState: "s", InputRequests: mcp.InputRequestMap{"size": &mcp.ElicitParams{
						Mode: "form", Message: "Which size?", RequestedSchema: json.RawMessage(`{"type":"object","properties":{"size":{"type":"string"}}}`),
					}}}, nil
				}
				return &mcp.CallToolResult{StructuredContent: map[string]any{"n": said.Content["size"]}}, nil
			}, version)
			session := s.connect(&mcp.ClientOptions{ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
				asked++
				return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"size": "M"}}, nil
			}})
			r := s.call(session, "label", `{"order":"A"}`, "")
			content, _ := r.StructuredContent.(map[string]any)
			if r.IsError || content["n"] != "M" || replayed(r) || runs != 2 || asked != 1 {
				t.Errorf("got %s; %d runs, asked %d times", text(r), runs, asked)
			}
			if again := s.call(session, "label", `{"order":"A"}`, ""); !replayed(again) || runs != 2 || asked != 1 {
				t.Errorf("repeated: %s; %d runs, asked %d times", text(again), runs, asked)
			}
		})
	}
}

func TestAddToolRaw_M01_NeedsASchema(t *testing.T) {
	t.Parallel()
	s := newShop(t, nil)
	if got := panics(t, func() { mcpidem.AddToolRaw(s.idem, &mcp.Tool{Name: "x"}, nil, nil) }); !strings.Contains(got, "no input schema") {
		t.Errorf("got %q", got)
	}
	if got := panics(t, func() { mcpidem.AddToolRaw(s.idem, nil, nil, nil) }); !strings.Contains(got, "needs a name") {
		t.Errorf("got %q", got)
	}
}
