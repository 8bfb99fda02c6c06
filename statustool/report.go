package statustool

import (
	"bytes"
	"encoding/json"
	"errors"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/toolcall"
)

// What a [Report] says of a question that was not answered, where an answer has a state.
const (
	// StateBadArgs: the question cannot be understood. Correct it.
	StateBadArgs toolcall.State = "bad_args"
	// StateNoCaller: it is not known who asks.
	StateNoCaller toolcall.State = "no_caller"
	// StateUnavailable: it cannot be found out at the moment.
	StateUnavailable toolcall.State = "unavailable"
)

// states are all that a Report can have.
var states = [...]toolcall.State{
	toolcall.StateNone, toolcall.StateQueued, toolcall.StateRunning, toolcall.StateSucceeded, toolcall.StateFailed, toolcall.StateCancelled,
	toolcall.StateUnknown, toolcall.StateExpired, StateBadArgs, StateNoCaller, StateUnavailable,
}

// Report is what is said about a call or a job, and about a question that was not answered. Its JSON is the structured content of
// the tools' answers and the body of the HTTP handler's.
type Report struct {
	State      toolcall.State    `json:"state"`
	ID         string            `json:"id,omitempty"`
	Tool       string            `json:"tool,omitempty"`                // the tool of a call, the kind of a job
	Next       string            `json:"next"`                          // what happened, what not to do, what to do next
	RetryAfter int               `json:"retry_after_seconds,omitempty"` // when to ask again
	Result     json.RawMessage   `json:"result,omitempty"`              // with StateSucceeded
	Failure    *toolcall.Failure `json:"failure,omitempty"`             // with StateFailed

	// Of what has ended, where Config.Outbox is set: the messages that it sent, in their order and 50 at most, or that it cannot be
	// found out what became of them.
	Messages            []Message `json:"messages,omitempty"`
	MessagesUnavailable bool      `json:"messages_unavailable,omitempty"`

	// Of jobs only.
	Progress        *Progress `json:"progress,omitempty"`
	Attempts        int       `json:"attempts,omitempty"`
	MaxAttempts     int       `json:"max_attempts,omitempty"`
	CancelRequested bool      `json:"cancel_requested,omitempty"`
	SubmittedAt     time.Time `json:"submitted_at,omitzero"`
	StartedAt       time.Time `json:"started_at,omitzero"`
	NextAttemptAt   time.Time `json:"next_attempt_at,omitzero"`
	Deadline        time.Time `json:"deadline,omitzero"`

	FinishedAt time.Time `json:"finished_at,omitzero"`
}

// Progress is what the running attempt of a job reported last.
type Progress struct {
	Fraction float64   `json:"fraction"` // 0 to 1
	Message  string    `json:"message,omitempty"`
	At       time.Time `json:"at,omitzero"`
}

// reportOf makes the report of a status, without its result and without words.
func reportOf(s toolcall.Status) *Report {
	r := &Report{State: s.State, ID: s.ID.String(), Tool: s.Tool, Failure: s.Failure, FinishedAt: s.FinishedAt.UTC()}
	if job := s.Job; job != nil {
		r.Attempts, r.MaxAttempts, r.CancelRequested = job.Attempts, job.MaxAttempts, job.CancelRequested
		r.SubmittedAt, r.StartedAt = job.SubmittedAt.UTC(), job.StartedAt.UTC()
		r.NextAttemptAt, r.Deadline = job.NextAttemptAt.UTC(), job.Deadline.UTC()
		if p := job.Progress; p != nil {
			r.Progress = &Progress{Fraction: p.Fraction, Message: p.Message, At: p.At.UTC()}
		}
	}
	return r
}

// refused reports whether the question was not answered.
func (r *Report) refused() bool {
	return r.State == StateBadArgs || r.State == StateNoCaller || r.State == StateUnavailable
}

// answer makes a tool's result of the report. What cannot stand in JSON, such as an image, stands behind it.
func (r *Report) answer(more ...mcp.Content) (*mcp.CallToolResult, error) {
	raw, err := marshal(r)
	if err != nil {
		return nil, err
	}
	return &mcp.CallToolResult{
		Content:           append([]mcp.Content{&mcp.TextContent{Text: string(raw)}}, more...),
		StructuredContent: raw,
		IsError:           r.refused(),
	}, nil
}

// marshal is json.Marshal without the escapes for HTML.
func marshal(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// resultIn takes a recorded result apart: what stands in JSON, and the content that cannot.
func resultIn(recorded *mcp.CallToolResult) (result json.RawMessage, rest []mcp.Content, err error) {
	type block struct { // the SDK's own has escapes for HTML
		Type string `json:"type"`
		Text string `json:"text"`
	}
	var texts []block
	for _, c := range recorded.Content {
		if text, isText := c.(*mcp.TextContent); isText {
			texts = append(texts, block{"text", text.Text})
		} else {
			rest = append(rest, c)
		}
	}
	switch {
	case recorded.StructuredContent != nil:
		result, err = marshal(recorded.StructuredContent)
	case len(texts) > 0:
		result, err = marshal(map[string]any{"content": texts})
	}
	return result, rest, err
}

// asJSON is what a job answered.
func asJSON(answer []byte) (json.RawMessage, []mcp.Content, error) {
	switch {
	case !json.Valid(answer):
		return nil, nil, errors.New("statustool: the answer is not JSON")
	case string(answer) == "null": // it answers nothing
		return nil, nil, nil
	}
	return answer, nil, nil
}

// handle is what a tool answers that has submitted a job, as jobs.Handle has it.
type handle struct {
	JobID string         `json:"job_id"`
	Kind  string         `json:"kind"`
	State toolcall.State `json:"state"`
}

// handleIn returns the job that an answer is the handle of, if it is one.
func handleIn(answer []byte) (toolcall.ID, bool) {
	var h handle
	if !bytes.Contains(answer, []byte(`"job_id"`)) || json.Unmarshal(answer, &h) != nil || h.Kind == "" || h.State != toolcall.StateQueued {
		return toolcall.ID{}, false
	}
	id, err := toolcall.ParseID(h.JobID)
	return id, err == nil
}
