package main

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/txidem/mcpidem"
)

// kind is what an answer means to whoever gets it.
type kind int

const (
	nothing kind = iota // no answer, or no MCP result
	done                // the effect is there
	failed              // it cannot be done, and will not be
	running             // another call of the same intent is at it: wait, then repeat the same call
	again               // nothing was done this time: repeat the same call
	refused             // the call is wrong: do not repeat it
)

// answer is a result, read the way an agent reads it.
type answer struct {
	kind     kind
	text     string // what was said
	status   string // the name of the refusal, if it is one
	wait     time.Duration
	replayed bool
}

// definite reports whether the answer settles the intent.
func (a answer) definite() bool { return a.kind == done || a.kind == failed }

// readAnswer follows structuredContent.status where there is one. A plain tool has a text only; then the agent knows
// the tool's own codes and takes everything else for a passing trouble.
func readAnswer(result *mcp.CallToolResult) answer {
	a := answer{text: firstText(result)}
	a.replayed, _ = result.Meta[mcpidem.MetaReplayed].(bool)
	if !result.IsError {
		a.kind = done
		return a
	}
	var said struct {
		Status string `json:"status"`
		Code   string `json:"code"`
		Wait   int    `json:"retry_after_seconds"`
		Repeat bool   `json:"repeat_same_call"`
	}
	if raw, err := json.Marshal(result.StructuredContent); err == nil {
		_ = json.Unmarshal(raw, &said) // what does not fit stays empty
	}
	a.status, a.wait = said.Status, time.Duration(said.Wait)*time.Second
	code, _, _ := strings.Cut(a.text, ":")
	switch {
	case said.Status == "in_progress":
		a.kind = running
	case said.Status == "failed":
		a.kind, a.text = failed, said.Code
	case said.Status == "" && (code == codeBadAmount || code == codeNoSubject):
		a.kind, a.text = failed, code
	case said.Status == "" || said.Repeat:
		a.kind = again
	default:
		a.kind = refused
	}
	return a
}

func firstText(result *mcp.CallToolResult) string {
	for _, content := range result.Content {
		if text, ok := content.(*mcp.TextContent); ok {
			return text.Text
		}
	}
	return ""
}

// brief is the answer in a few words.
func (a answer) brief() string {
	switch a.kind {
	case done, failed:
		word := "done"
		if a.kind == failed {
			word = "failed: " + a.text
		}
		if a.replayed {
			word += " (replay)"
		}
		return word
	case running:
		return "in progress"
	case again:
		return "not done, try again"
	case refused:
		return "refused: " + a.status
	default:
		return "no answer"
	}
}
