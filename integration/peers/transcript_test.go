package peers

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestTranscript_M05_M07_WhatGoesOverTheWire: one scripted conversation per revision, as in testdata. What is frozen there is what programs
// and models rely on: change it on purpose, with -update, and say so in the changelog.
func TestTranscript_M05_M07_WhatGoesOverTheWire(t *testing.T) {
	t.Parallel()
	for _, revision := range revisions() {
		t.Run(revision, func(t *testing.T) {
			t.Parallel()
			got := transcript(t, revision)
			file := filepath.Join("testdata", revision+".golden")
			if *update {
				if err := errors.Join(os.MkdirAll("testdata", 0o755), os.WriteFile(file, got, 0o644)); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("the conversation is not the one of %s; if it is meant to be, run go test ./peers -run Transcript -update:\n%s", file, diff)
			}
		})
	}
}

// script is what the client asks for, with a heading. A call to an order that is held is a duplicate of one that runs.
func script() []struct {
	heading string
	call    call
} {
	return []struct {
		heading string
		call    call
	}{
		{"a call", call{args: `{"order":"A-1","cents":1050,"memo":"wrong size"}`, key: "key 1"}},
		{"the same call", call{args: `{"order":"A-1","cents":1.05e3,"memo":"it does not fit"}`, key: "key 1"}},
		{"the harness's key for other arguments", call{args: `{"order":"A-2","cents":1}`, key: "key 1"}},
		{"the model's key for other arguments", call{args: `{"order":"A-2","cents":1,"idempotency_key":"key 1"}`}},
		{"a call without a key", call{args: `{"order":"A-3","cents":1}`}},
		{"the same call without a key", call{args: `{"cents":1,"order":"A-3"}`}},
		{"a call that is running", call{args: `{"order":"hold-1","cents":1}`, key: "key 2"}},
		{"a failure", call{args: `{"order":"closed-1","cents":1}`, key: "key 3"}},
		{"the same failure", call{args: `{"order":"closed-1","cents":1}`, key: "key 3"}},
		{"a panic", call{args: `{"order":"panic-1","cents":1}`, key: "key 4"}},
		{"a bad key", call{args: `{"order":"A-4","cents":1,"idempotency_key":7}`}},
		{"bad arguments", call{args: `{"order":"A-4"}`}},
		{"a call that a person confirms", call{tool: toolConfirmed, args: `{"order":"A-5","cents":1}`, key: "key 5"}},
		{"the same confirmed call", call{tool: toolConfirmed, args: `{"order":"A-5","cents":1}`, key: "key 5"}},
		{"a call that a person declines", call{tool: toolConfirmed, args: `{"order":"A-6","cents":1}`, key: "key 6"}},
	}
}

// transcript holds the conversation in memory and writes down both sides of it.
func transcript(t *testing.T, revision string) []byte {
	t.Helper()
	w := newWorld(t, newPool(t), func(p *plan) { p.Revisions = []string{revision} })
	running, err := dialSDK(t, w, wire{name: "memory"}, "", kind{})
	if err != nil {
		t.Fatal(err)
	}
	answer := start(t, running, call{args: `{"order":"hold-1","cents":1}`, key: "key 2"})
	w.gate.await(t, "hold-1")

	c, err := connectSDK(t, kind{ask: confirmsOrDeclines}.sdkOptions(), func(tp *tap) mcp.Transport { return tp.pipe(w.memory(t)) })
	if err != nil {
		t.Fatal(err)
	}
	out := &writer{tap: c.tap}
	out.section(t, "the handshake")
	if _, err := c.session.ListTools(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	out.section(t, "the tools")
	for _, step := range script() {
		must(t, c, step.call)
		out.section(t, step.heading)
	}
	w.gate.release("hold-1")
	wantFirst(t, <-answer)
	return out.masked()
}

func confirmsOrDeclines(question string) string {
	if strings.Contains(question, "A-6") {
		return "decline"
	}
	return "accept"
}

// writer writes down what has come through a tap.
type writer struct {
	tap  *tap
	seen int
	text bytes.Buffer
}

// section writes the messages since the last one, with their members in order and one to a line.
func (w *writer) section(t *testing.T, heading string) {
	t.Helper()
	fmt.Fprintf(&w.text, "## %s\n\n", heading)
	all := w.tap.all()
	for _, m := range all[w.seen:] {
		decoder := json.NewDecoder(bytes.NewReader(m.json))
		decoder.UseNumber()
		var value any
		if err := decoder.Decode(&value); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&w.text, "%s ", m.arrow)
		encoder := json.NewEncoder(&w.text)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(value); err != nil {
			t.Fatal(err)
		}
		w.text.WriteByte('\n')
	}
	w.seen = len(all)
}

// What differs from run to run.
var (
	callIDs  = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	times    = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
	ids      = regexp.MustCompile(`(?m)^  "id": .*?(,?)$`)
	states   = regexp.MustCompile(`"requestState": "[^"]*"`)
	versions = regexp.MustCompile(`"version": "[^"]*"`)
)

// masked is the text without that. Ids of calls keep which of them are the same.
func (w *writer) masked() []byte {
	text := times.ReplaceAll(w.text.Bytes(), []byte("<time>"))
	text = ids.ReplaceAll(text, []byte(`  "id": "<id>"$1`))
	text = states.ReplaceAll(text, []byte(`"requestState": "<state>"`))
	text = versions.ReplaceAll(text, []byte(`"version": "<version>"`))
	known := map[string]string{}
	return callIDs.ReplaceAllFunc(text, func(id []byte) []byte {
		if known[string(id)] == "" {
			known[string(id)] = fmt.Sprintf("<call %d>", len(known)+1)
		}
		return []byte(known[string(id)])
	})
}
