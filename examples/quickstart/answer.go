package main

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/toolcall"
	"github.com/txonce/txonce/txidem/mcpidem"
)

// kind is what an answer means to whoever gets it.
type kind int

const (
	nothing  kind = iota // no answer, or no MCP result
	done                 // the effect is there
	accepted             // a job will see to it: do not repeat the call, ask for the job
	failed               // it cannot be done, and will not be
	running              // another call of the same intent is at it: wait, then repeat the same call
	again                // nothing was done this time: repeat the same call
	refused              // the call is wrong: do not repeat it
)

// answer is a result, read the way an agent reads it.
type answer struct {
	kind     kind
	text     string // what was said
	status   string // the name of the refusal, if it is one
	wait     time.Duration
	replayed bool
	job      string // the job that it tells of, and how far that is
	state    string
}

// definite reports whether the answer settles the call.
func (a answer) definite() bool { return a.kind == done || a.kind == failed || a.kind == accepted }

// readAnswer follows structuredContent.status where there is one. A plain tool has a text only; then the agent knows
// the tool's own codes and takes everything else for a passing trouble.
func readAnswer(result *mcp.CallToolResult) answer {
	a := answer{text: firstText(result)}
	a.replayed, _ = result.Meta[mcpidem.MetaReplayed].(bool)
	var said struct {
		Status string `json:"status"`
		Code   string `json:"code"`
		Wait   int    `json:"retry_after_seconds"`
		Repeat bool   `json:"repeat_same_call"`

		JobID    string         `json:"job_id"`
		State    toolcall.State `json:"state"`
		Progress string         `json:"progress"`
	}
	if raw, err := json.Marshal(result.StructuredContent); err == nil {
		_ = json.Unmarshal(raw, &said) // what does not fit stays empty
	}
	if !result.IsError {
		a.kind = done
		if said.JobID != "" {
			a.kind, a.job, a.state = meaning(said.State), said.JobID, string(said.State)
		}
		if said.Progress != "" {
			a.state += ", " + said.Progress
		}
		return a
	}
	a.status, a.wait = said.Status, time.Duration(said.Wait)*time.Second
	code, _, _ := strings.Cut(a.text, ":")
	switch {
	case said.Status == "in_progress":
		a.kind = running
	case said.Status == "failed":
		a.kind, a.text = failed, said.Code
	case said.Status == "" && (code == codeBadAmount || code == codeNoSubject || code == codeBadMonth):
		a.kind, a.text = failed, code
	case said.Status == "" || said.Repeat:
		a.kind = again
	default:
		a.kind = refused
	}
	return a
}

// meaning is what the state of a job means to whoever wants it done.
func meaning(state toolcall.State) kind {
	switch state { //nolint:exhaustive // all others are states of calls
	case toolcall.StateSucceeded:
		return done
	case toolcall.StateFailed, toolcall.StateCancelled:
		return failed
	default:
		return accepted
	}
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
	case done, failed, accepted:
		word := "done"
		switch {
		case a.job != "":
			word = "job " + shortened(a.job) + " " + a.state
		case a.kind == failed:
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

// shortened is the end of an id, where ids that were made at the same time differ.
func shortened(id string) string {
	const last = 6
	if len(id) <= last {
		return id
	}
	return "…" + id[len(id)-last:]
}
