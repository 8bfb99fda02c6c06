package main

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/txidem/mcpidem"
)

func TestReadAnswer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		isError    bool
		text       string
		structured string
		replayed   bool
		want       answer
	}{
		"done":         {text: "{}", structured: "{}", want: answer{kind: done, text: "{}"}},
		"replayed":     {text: "{}", structured: "{}", replayed: true, want: answer{kind: done, text: "{}", replayed: true}},
		"failed":       {isError: true, text: "bad_amount: zero (…)", structured: `{"status":"failed","code":"bad_amount"}`, want: answer{kind: failed, text: "bad_amount", status: "failed"}},
		"running":      {isError: true, text: "…", structured: `{"status":"in_progress","retry_after_seconds":2,"repeat_same_call":true}`, want: answer{kind: running, text: "…", status: "in_progress", wait: 2 * time.Second}},
		"not done":     {isError: true, text: "…", structured: `{"status":"not_done","repeat_same_call":true}`, want: answer{kind: again, text: "…", status: "not_done"}},
		"key reused":   {isError: true, text: "…", structured: `{"status":"key_reused","repeat_same_call":false}`, want: answer{kind: refused, text: "…", status: "key_reused"}},
		"job":          {text: "{}", structured: `{"job_id":"j","state":"queued"}`, replayed: true, want: answer{kind: accepted, text: "{}", replayed: true, job: "j", state: "queued"}},
		"job at work":  {text: "{}", structured: `{"job_id":"j","state":"running","progress":"page 2 of 5"}`, want: answer{kind: accepted, text: "{}", job: "j", state: "running, page 2 of 5"}},
		"job done":     {text: "{}", structured: `{"job_id":"j","state":"succeeded"}`, want: answer{kind: done, text: "{}", job: "j", state: "succeeded"}},
		"job failed":   {text: "{}", structured: `{"job_id":"j","state":"cancelled"}`, want: answer{kind: failed, text: "{}", job: "j", state: "cancelled"}},
		"plain failed": {isError: true, text: "no_subject: a ticket needs one", want: answer{kind: failed, text: "no_subject"}},
		"plain error":  {isError: true, text: "it did not work", want: answer{kind: again, text: "it did not work"}},
	} {
		result := &mcp.CallToolResult{IsError: c.isError, Content: []mcp.Content{&mcp.TextContent{Text: c.text}}, Meta: mcp.Meta{}}
		if c.structured != "" {
			result.StructuredContent = json.RawMessage(c.structured)
		}
		if c.replayed {
			result.Meta[mcpidem.MetaReplayed] = true
		}
		if diff := cmp.Diff(c.want, readAnswer(result), cmp.AllowUnexported(answer{})); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
