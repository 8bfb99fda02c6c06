package peers

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/txonce/txonce/txidem/mcpidem"
)

// client is a session of either library's client.
type client interface {
	// call calls a tool once, under a request id of its own.
	call(ctx context.Context, c call) (*answer, error)
	// revision is what was negotiated.
	revision() string
}

// call is what a client is asked to call.
type call struct {
	tool string // toolRefund, if empty
	args string // JSON
	key  string // in _meta, if not empty
	meta map[string]any
}

func (c call) name() string {
	if c.tool == "" {
		return toolRefund
	}
	return c.tool
}

// allMeta is nil if there is none.
func (c call) allMeta() map[string]any {
	if c.key == "" && c.meta == nil {
		return nil
	}
	all := map[string]any{}
	for k, v := range c.meta {
		all[k] = v
	}
	if c.key != "" {
		all[mcpidem.MetaKey] = c.key
	}
	return all
}

// answer is the result of a call as it came over the wire.
type answer struct {
	Structured string // the very bytes
	Texts      []string
	Meta       map[string]any
	IsError    bool
}

// answerOf reads a JSON-RPC result.
func answerOf(result []byte) (*answer, error) {
	var r struct {
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
		StructuredContent json.RawMessage `json:"structuredContent"`
		Meta              map[string]any  `json:"_meta"`
		IsError           bool            `json:"isError"`
	}
	if err := json.Unmarshal(result, &r); err != nil {
		return nil, err
	}
	a := &answer{Structured: string(r.StructuredContent), Meta: r.Meta, IsError: r.IsError}
	for _, c := range r.Content {
		a.Texts = append(a.Texts, c.Text)
	}
	return a, nil
}

func (a *answer) replayed() bool { return a.Meta[mcpidem.MetaReplayed] == true }

func (a *answer) id() any { return a.Meta[mcpidem.MetaCallID] }

func (a *answer) text() string { return strings.Join(a.Texts, "\n") }

// field is a member of the structured content.
func (a *answer) field(name string) any {
	var fields map[string]any
	_ = json.Unmarshal([]byte(a.Structured), &fields)
	return fields[name]
}

func (a *answer) status() any { return a.field("status") }

// must calls, and fails the test if there is no answer.
func must(t *testing.T, c client, what call) *answer {
	t.Helper()
	a, err := c.call(t.Context(), what)
	if err != nil {
		t.Fatalf("calling %s with %s: %v", what.name(), what.args, err)
	}
	return a
}

// start calls in a goroutine that ends with the test.
func start(t *testing.T, c client, what call) <-chan *answer {
	t.Helper()
	answers, over := make(chan *answer, 1), make(chan struct{})
	go func() {
		defer close(over)
		a, err := c.call(t.Context(), what)
		if err != nil {
			t.Errorf("calling %s with %s: %v", what.name(), what.args, err)
			a = &answer{}
		}
		answers <- a
	}()
	t.Cleanup(func() { <-over })
	return answers
}

// wantFirst: a call that was done just now.
func wantFirst(t *testing.T, a *answer) {
	t.Helper()
	if a.IsError || a.replayed() || len(a.Texts) != 1 || !strings.Contains(a.Texts[0], `"refund":`) || a.field("refund") == nil {
		t.Fatalf("want a first answer, got %+v", a)
	}
}

// wantReplay: the first answer, with a note behind it and a mark in _meta.
func wantReplay(t *testing.T, first, again *answer) {
	t.Helper()
	if again.IsError || !again.replayed() || len(again.Texts) != len(first.Texts)+1 {
		t.Fatalf("want a replay, got %+v", again)
	}
	if again.Structured != first.Structured {
		t.Errorf("structuredContent is not the same bytes:\n%s\n%s", first.Structured, again.Structured)
	}
	note := again.Texts[len(again.Texts)-1]
	if diff := cmp.Diff(first.Texts, again.Texts[:len(first.Texts)]); diff != "" || !strings.HasPrefix(note, "(Recorded answer: this call was done once, at ") {
		t.Errorf("texts:\n%s\nnote %q", diff, note)
	}
	for _, same := range []string{mcpidem.MetaCallID, mcpidem.MetaFinishedAt} {
		if first.Meta[same] == nil || first.Meta[same] != again.Meta[same] {
			t.Errorf("_meta %s: first %v, again %v", same, first.Meta[same], again.Meta[same])
		}
	}
}

// wantRefusal: an error of the given status that changes nothing.
func wantRefusal(t *testing.T, a *answer, status, says string) {
	t.Helper()
	if !a.IsError || a.status() != status || !strings.Contains(a.text(), says) || a.field("message") != a.text() {
		t.Fatalf("want %s that says %q, got %+v", status, says, a)
	}
	if strings.Contains(a.text(), "secret") {
		t.Errorf("the model reads what it should not: %s", a.text())
	}
}

// wantSame: two answers of one call, the second of which is a replay.
func wantSame(t *testing.T, a, again *answer) {
	t.Helper()
	if a.IsError || !again.replayed() || a.Structured != again.Structured || a.id() != again.id() || a.Texts[0] != again.Texts[0] {
		t.Errorf("want one answer, got %+v and %+v", a, again)
	}
}
