package main

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/statustool"
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
	running              // another call of the same intent is at it: wait, then ask, or repeat the same call
	waiting              // it has not ended, as the tool that was asked says: ask again
	again                // nothing was done: repeat the same call
	refused              // the call is wrong: do not repeat it
)

// answer is a result, read the way an agent reads it.
type answer struct {
	kind     kind
	text     string // what was said: the answer of the call, whoever gave it
	status   string // the name of the refusal, if it is one
	wait     time.Duration
	replayed bool
	call     string // the id to ask for, where a refusal says so
	job      string // the job that it tells of
	state    string // how far the call or the job is
	next     string // what get_status says is to be done
}

// definite reports whether the answer settles the call.
func (a answer) definite() bool { return a.kind == done || a.kind == failed || a.kind == accepted }

// readAnswer reads what a tool answered.
func readAnswer(tool string, result *mcp.CallToolResult) answer {
	if tool == toolStatus {
		return readReport(result)
	}
	return readResult(result)
}

// readResult follows structuredContent.status where there is one. A plain tool has a text only; then the agent knows
// the tool's own codes and takes everything else for a passing trouble.
func readResult(result *mcp.CallToolResult) answer {
	a := answer{kind: done, text: firstText(result)}
	a.replayed, _ = result.Meta[mcpidem.MetaReplayed].(bool)
	var said struct {
		Status string `json:"status"`
		Code   string `json:"code"`
		Wait   int    `json:"retry_after_seconds"`
		Repeat bool   `json:"repeat_same_call"`
		CallID string `json:"call_id"`
		Ask    string `json:"status_tool"`
	}
	if !result.IsError {
		a.takeHandle()
		return a
	}
	if raw, err := json.Marshal(result.StructuredContent); err == nil {
		_ = json.Unmarshal(raw, &said) // what does not fit stays empty
	}
	a.status, a.wait = said.Status, time.Duration(said.Wait)*time.Second
	if said.Ask != "" {
		a.call = said.CallID
	}
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

// takeHandle sees whether the call was answered with a job.
func (a *answer) takeHandle() {
	var handle struct {
		JobID string         `json:"job_id"`
		State toolcall.State `json:"state"`
	}
	if json.Unmarshal([]byte(a.text), &handle) == nil && handle.JobID != "" {
		a.kind, a.job, a.state = accepted, handle.JobID, string(handle.State)
	}
}

// readReport reads what get_status says. The result of a call is the answer that the call got.
func readReport(result *mcp.CallToolResult) answer {
	var said statustool.Report
	if json.Unmarshal([]byte(firstText(result)), &said) != nil {
		return answer{kind: refused, status: "no report"}
	}
	a := answer{text: string(said.Result), state: string(said.State), next: said.Next}
	ofJob := said.MaxAttempts > 0
	if ofJob {
		a.job = said.ID
	}
	switch said.State { //nolint:exhaustive // all others are not for the agent to remedy
	case toolcall.StateNone:
		a.kind = again
	case toolcall.StateQueued, toolcall.StateRunning:
		a.kind = waiting
		if said.Progress != nil {
			a.state += ", " + said.Progress.Message
		}
	case statustool.StateUnavailable:
		a.kind, a.wait = waiting, time.Duration(said.RetryAfter)*time.Second
	case toolcall.StateSucceeded:
		if a.kind = done; !ofJob {
			a.takeHandle()
		}
	case toolcall.StateFailed:
		a.kind, a.text = failed, said.Failure.Code
	default:
		a.kind, a.status = refused, a.state
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
	word := "no answer"
	switch a.kind {
	case done:
		word = "done"
	case failed:
		word = "failed: " + a.text
	case running:
		word = "in progress"
	case again:
		word = "not done, try again"
	case refused:
		word = "refused: " + a.status
	}
	switch {
	case a.job != "":
		word = "job " + shortened(a.job) + " " + a.state
	case a.state != "":
		word = "the call: " + a.state
	}
	if a.replayed {
		word += " (replay)"
	}
	return word
}

// shortened is the end of an id, where ids that were made at the same time differ.
func shortened(id string) string {
	const last = 6
	if len(id) <= last {
		return id
	}
	return "…" + id[len(id)-last:]
}
