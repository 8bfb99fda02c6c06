package main

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/statustool"
	"github.com/txonce/txonce/toolcall"
	"github.com/txonce/txonce/txidem/mcpidem"
)

// TestSaidBy_R19_ReadsWhatServersSay: each kind of answer is what it is.
func TestSaidBy_R19_ReadsWhatServersSay(t *testing.T) {
	t.Parallel()
	text := func(s string) []mcp.Content { return []mcp.Content{&mcp.TextContent{Text: s}} }
	refused := func(status, code, message string) *mcp.CallToolResult {
		return &mcp.CallToolResult{IsError: true, StructuredContent: map[string]any{"status": status, "code": code, "message": message}}
	}
	const answer = `{"job_id":"a job","kind":"k","intent":3,"payload":"right","try":7,"run":"x"}`
	for name, c := range map[string]struct {
		result *mcp.CallToolResult
		want   said
	}{
		"an answer":         {&mcp.CallToolResult{Content: text(answer)}, said{Kind: succeeded, Try: 7, Run: "x", Text: answer, Job: "a job"}},
		"a replay":          {&mcp.CallToolResult{Content: text(answer), Meta: mcp.Meta{mcpidem.MetaReplayed: true}}, said{Kind: succeeded, Try: 7, Run: "x", Text: answer, Job: "a job", Replayed: true}},
		"no answer":         {&mcp.CallToolResult{Content: text("hello")}, said{Kind: strange}},
		"an empty answer":   {&mcp.CallToolResult{Content: text("{}")}, said{Kind: strange}},
		"nothing at all":    {&mcp.CallToolResult{}, said{Kind: strange}},
		"a failure":         {refused("failed", "refused", "refused: by try 7 (This outcome is recorded.)"), said{Kind: failed, Try: 7, Text: "refused: by try 7"}},
		"another failure":   {refused("failed", "handler_ended_tx", "oh"), said{Kind: failed, Text: "handler_ended_tx: oh"}},
		"in progress":       {refused("in_progress", "", "wait"), said{Kind: inProgress}},
		"a mismatch":        {refused("key_reused", "", "no"), said{Kind: mismatch}},
		"an unknown end":    {refused("outcome_unknown", "", "who knows"), said{Kind: unknown}},
		"a plain error":     {refused("not_done", "", errBroken.Error()+" (Nothing was changed)"), said{Kind: broke}},
		"a server's error":  {refused("not_done", "", "out of order"), said{Kind: nothing}},
		"no database":       {refused("unavailable", "", "later"), said{Kind: nothing}},
		"a fault":           {refused("tool_fault", "", "This tool has a fault. Nothing was changed by this call. Do not"), said{Kind: fault}},
		"a worse fault":     {refused("tool_fault", "", "This tool has a fault, and it is not known what it did."), said{Kind: strange}},
		"an unknown status": {refused("", "", ""), said{Kind: strange}},
	} {
		got := saidBy(c.result)
		got.Detail = ""
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestStatusOf_R19_S02_ReadsReports: what is said about a call is what the call would say.
func TestStatusOf_R19_S02_ReadsReports(t *testing.T) {
	t.Parallel()
	const answer = `{"intent":3,"payload":"right","try":7,"run":"x"}`
	for name, c := range map[string]struct {
		report statustool.Report
		err    error
		want   said
	}{
		"succeeded":   {statustool.Report{State: toolcall.StateSucceeded, Result: json.RawMessage(answer)}, nil, said{Kind: succeeded, Try: 7, Run: "x", Text: answer}},
		"failed":      {statustool.Report{State: toolcall.StateFailed, Failure: &toolcall.Failure{Code: "refused", Message: "by try 7"}}, nil, said{Kind: failed, Try: 7, Text: "refused: by try 7"}},
		"none":        {statustool.Report{State: toolcall.StateNone}, nil, said{Kind: notEnded}},
		"running":     {statustool.Report{State: toolcall.StateRunning}, nil, said{Kind: notEnded}},
		"unavailable": {statustool.Report{State: statustool.StateUnavailable}, nil, said{Kind: nothing}},
		"no answer":   {statustool.Report{}, errors.New("cut"), said{Kind: nothing}},
		"expired":     {statustool.Report{State: toolcall.StateExpired}, nil, said{Kind: strange}},
	} {
		got := statusOf(c.report, c.err)
		got.Detail = ""
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
