package statustool

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/toolcall"
)

// extension is the MCP extension by which a server answers with a task.
const extension = "io.modelcontextprotocol/tasks"

// task is a Task of the extension: what a call is answered with that has submitted a job, and what tasks/get answers.
type task struct {
	mcp.ResultBase
	ResultType    string          `json:"resultType"`
	TaskID        string          `json:"taskId"`
	Status        string          `json:"status"`
	StatusMessage string          `json:"statusMessage,omitempty"`
	CreatedAt     time.Time       `json:"createdAt"`
	LastUpdatedAt time.Time       `json:"lastUpdatedAt"`
	TTL           *int64          `json:"ttlMs"` // null: it depends on when the job ends
	PollInterval  int             `json:"pollIntervalMs,omitempty"`
	Result        json.RawMessage `json:"result,omitempty"` // of tasks/get only
}

// done is the empty acknowledgement of tasks/update and tasks/cancel.
type done struct {
	mcp.ResultBase
	ResultType string `json:"resultType"`
}

const (
	typeTask     = "task"
	typeComplete = "complete"
	pollInterval = 1000 // milliseconds
)

// taskOf makes the task of a job, without its result.
func taskOf(resultType string, s toolcall.Status) *task {
	t := &task{ResultType: resultType, TaskID: s.ID.String(), CreatedAt: s.Job.SubmittedAt.UTC(), LastUpdatedAt: lastUpdate(s).UTC()}
	switch s.State {
	case toolcall.StateSucceeded:
		t.Status = "completed"
	case toolcall.StateFailed: // "failed" is for errors of the protocol
		t.Status = "completed"
		t.StatusMessage = s.Failure.Error()
	case toolcall.StateCancelled:
		t.Status = "cancelled"
		t.StatusMessage = "The job was cancelled before it changed anything."
	default:
		t.Status, t.PollInterval = "working", pollInterval
		t.StatusMessage = workingOn(s)
	}
	return t
}

func workingOn(s toolcall.Status) string {
	switch {
	case s.State == toolcall.StateQueued && s.Job.Attempts > 0:
		return fmt.Sprintf("Attempt %d of %d did not succeed; the next one follows by itself.", s.Job.Attempts, s.Job.MaxAttempts)
	case s.State == toolcall.StateQueued:
		return "The job waits for a worker."
	case s.Job.Progress != nil && s.Job.Progress.Message != "":
		return fmt.Sprintf("%.0f %%: %s", 100*s.Job.Progress.Fraction, s.Job.Progress.Message)
	case s.Job.Progress != nil:
		return fmt.Sprintf("%.0f %%", 100*s.Job.Progress.Fraction)
	}
	return "The job is running."
}

func lastUpdate(s toolcall.Status) time.Time {
	last := s.Job.SubmittedAt
	times := []time.Time{s.Job.StartedAt, s.FinishedAt}
	if s.Job.Progress != nil {
		times = append(times, s.Job.Progress.At)
	}
	for _, t := range times {
		if t.After(last) {
			last = t
		}
	}
	return last
}

// The members of a task's result that tell of the job's messages. Its structured content is the job's own.
const (
	metaMessages            = "dev.txonce/messages"
	metaMessagesUnavailable = "dev.txonce/messages-unavailable"
)

// outcome is the result of the call, as it would have been if the job had ended within it. It is nil for a job that has not ended.
func outcome(s toolcall.Status, f sent) (json.RawMessage, error) {
	type result struct {
		Meta       mcp.Meta        `json:"_meta,omitempty"`
		Content    []mcp.Content   `json:"content"`
		Structured json.RawMessage `json:"structuredContent,omitempty"`
		IsError    bool            `json:"isError"`
	}
	switch s.State {
	case toolcall.StateSucceeded:
		answer, _, err := asJSON(s.Answer)
		if err != nil {
			return nil, err
		}
		r := result{Content: []mcp.Content{}, Structured: answer, Meta: f.meta()}
		if answer != nil {
			r.Content = append(r.Content, &mcp.TextContent{Text: string(answer)})
		}
		if says := f.words(s); says != "" {
			r.Content = append(r.Content, &mcp.TextContent{Text: says})
		}
		return marshal(r)
	case toolcall.StateFailed:
		report := reportOf(s)
		report.Next = failed(s)
		raw, err := marshal(report)
		if err != nil {
			return nil, err
		}
		text := fmt.Sprintf("%s (%s)", s.Failure.Error(), report.Next)
		return marshal(result{Content: []mcp.Content{&mcp.TextContent{Text: text}}, Structured: raw, IsError: true})
	}
	return nil, nil
}

// meta is nil where there is nothing to tell.
func (f sent) meta() mcp.Meta {
	switch {
	case f.err != nil:
		return mcp.Meta{metaMessagesUnavailable: true}
	case len(f.messages) > 0:
		return mcp.Meta{metaMessages: f.list()}
	}
	return nil
}
