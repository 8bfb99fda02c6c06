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
	call := func(said string) string { return `{"id":"c","next":"…",` + said + `}` }
	job := func(said string) string { return `{"id":"j","next":"…","max_attempts":5,` + said + `}` }
	for name, c := range map[string]struct {
		tool       string // defaults to one that is not get_status
		isError    bool
		text       string
		structured string
		replayed   bool
		want       answer
	}{
		"done":         {text: "{}", want: answer{kind: done, text: "{}"}},
		"replayed":     {text: "{}", replayed: true, want: answer{kind: done, text: "{}", replayed: true}},
		"failed":       {isError: true, text: "bad_amount: zero (…)", structured: `{"status":"failed","code":"bad_amount"}`, want: answer{kind: failed, text: "bad_amount", status: "failed"}},
		"running":      {isError: true, text: "…", structured: `{"status":"in_progress","call_id":"c","retry_after_seconds":2,"repeat_same_call":true}`, want: answer{kind: running, text: "…", status: "in_progress", wait: 2 * time.Second}},
		"running, ask": {isError: true, text: "…", structured: `{"status":"in_progress","call_id":"c","status_tool":"get_status"}`, want: answer{kind: running, text: "…", status: "in_progress", call: "c"}},
		"not done":     {isError: true, text: "…", structured: `{"status":"not_done","repeat_same_call":true}`, want: answer{kind: again, text: "…", status: "not_done"}},
		"key reused":   {isError: true, text: "…", structured: `{"status":"key_reused","repeat_same_call":false}`, want: answer{kind: refused, text: "…", status: "key_reused"}},
		"job":          {text: `{"job_id":"j","state":"queued"}`, replayed: true, want: answer{kind: accepted, text: `{"job_id":"j","state":"queued"}`, replayed: true, job: "j", state: "queued"}},
		"plain failed": {isError: true, text: "no_subject: a ticket needs one", want: answer{kind: failed, text: "no_subject"}},
		"plain error":  {isError: true, text: "it did not work", want: answer{kind: again, text: "it did not work"}},

		"asked: none":        {tool: toolStatus, text: call(`"state":"none"`), want: answer{kind: again, state: "none", next: "…"}},
		"asked: running":     {tool: toolStatus, text: call(`"state":"running","retry_after_seconds":1`), want: answer{kind: waiting, state: "running", next: "…"}},
		"asked: done":        {tool: toolStatus, text: call(`"state":"succeeded","result":{"a":1}`), want: answer{kind: done, text: `{"a":1}`, state: "succeeded", next: "…"}},
		"asked: submitted":   {tool: toolStatus, text: call(`"state":"succeeded","result":{"job_id":"j","state":"queued"}`), want: answer{kind: accepted, text: `{"job_id":"j","state":"queued"}`, job: "j", state: "queued", next: "…"}},
		"asked: failed":      {tool: toolStatus, text: call(`"state":"failed","failure":{"code":"bad_amount"}`), want: answer{kind: failed, text: "bad_amount", state: "failed", next: "…"}},
		"asked: expired":     {tool: toolStatus, text: call(`"state":"expired"`), want: answer{kind: refused, status: "expired", state: "expired", next: "…"}},
		"asked: unavailable": {tool: toolStatus, isError: true, text: call(`"state":"unavailable","retry_after_seconds":5`), want: answer{kind: waiting, wait: 5 * time.Second, state: "unavailable", next: "…"}},
		"asked: no report":   {tool: toolStatus, text: "what?", want: answer{kind: refused, status: "no report"}},
		"job at work":        {tool: toolStatus, text: job(`"state":"running","progress":{"fraction":0.4,"message":"page 2 of 5"}`), want: answer{kind: waiting, job: "j", state: "running, page 2 of 5", next: "…"}},
		"job done":           {tool: toolStatus, text: job(`"state":"succeeded","result":{"job_id":"other"}`), want: answer{kind: done, text: `{"job_id":"other"}`, job: "j", state: "succeeded", next: "…"}},
		"job failed":         {tool: toolStatus, text: job(`"state":"failed","failure":{"code":"exhausted"}`), want: answer{kind: failed, text: "exhausted", job: "j", state: "failed", next: "…"}},
		"job cancelled":      {tool: toolStatus, text: job(`"state":"cancelled"`), want: answer{kind: refused, status: "cancelled", job: "j", state: "cancelled", next: "…"}},
	} {
		result := &mcp.CallToolResult{IsError: c.isError, Content: []mcp.Content{&mcp.TextContent{Text: c.text}}, Meta: mcp.Meta{}}
		if c.structured != "" {
			result.StructuredContent = json.RawMessage(c.structured)
		}
		if c.replayed {
			result.Meta[mcpidem.MetaReplayed] = true
		}
		if diff := cmp.Diff(c.want, readAnswer(c.tool, result), cmp.AllowUnexported(answer{})); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
