package peers

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// raw sends JSON-RPC over HTTP without a client library, so that a test chooses each id and each header.
type raw struct {
	t        *testing.T
	url      string
	revision string
	session  string // Mcp-Session-Id
	token    string
	client   *http.Client
}

func newRaw(t *testing.T, url, revision string) *raw {
	return &raw{t: t, url: url, revision: revision, client: &http.Client{Transport: newTransport(t)}}
}

// open begins a session, for a stateful server.
func (r *raw) open() {
	r.t.Helper()
	resp, body, err := r.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}`,
		r.revision), nil)
	if err != nil || resp.StatusCode != http.StatusOK {
		r.t.Fatalf("initialize: %v %s", err, body)
	}
	r.session = resp.Header.Get("Mcp-Session-Id")
	if _, _, err := r.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, nil); err != nil {
		r.t.Fatal(err)
	}
}

// call sends one tools/call under the id.
func (r *raw) call(id int, what call, header http.Header) (*answer, error) {
	meta := what.allMeta()
	if r.revision >= revision2026 {
		if meta == nil {
			meta = map[string]any{}
		}
		meta["io.modelcontextprotocol/protocolVersion"] = r.revision
		meta["io.modelcontextprotocol/clientInfo"] = map[string]any{"name": "raw", "version": "1"}
		meta["io.modelcontextprotocol/clientCapabilities"] = map[string]any{}
	}
	params := map[string]any{"name": what.name(), "arguments": json.RawMessage(what.args)}
	if meta != nil {
		params["_meta"] = meta
	}
	text, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
	if err != nil {
		return nil, err
	}
	if header == nil {
		header = http.Header{}
	}
	header.Set("Mcp-Method", "tools/call")
	header.Set("Mcp-Name", what.name())
	_, body, err := r.post(string(text), header)
	if err != nil {
		return nil, err
	}
	return answerTo(id, body)
}

// must is call, and fails the test where there is no answer.
func (r *raw) must(id int, what call, header http.Header) *answer {
	r.t.Helper()
	a, err := r.call(id, what, header)
	if err != nil {
		r.t.Fatal(err)
	}
	return a
}

func (r *raw) post(text string, header http.Header) (*http.Response, []byte, error) {
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, r.url, strings.NewReader(text))
	if err != nil {
		return nil, nil, err
	}
	if header != nil {
		req.Header = header.Clone()
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Mcp-Protocol-Version", r.revision)
	if r.session != "" {
		req.Header.Set("Mcp-Session-Id", r.session)
	}
	if r.token != "" {
		req.Header.Set("Authorization", "Bearer "+r.token)
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return resp, body, err
}

// answerTo finds the result for an id in a body that is JSON or a stream of events.
func answerTo(id int, body []byte) (*answer, error) {
	lines := bufio.NewScanner(bytes.NewReader(body))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var m struct {
			ID     *int            `json:"id"`
			Result json.RawMessage `json:"result"`
		}
		line := bytes.TrimPrefix(lines.Bytes(), []byte("data: "))
		if json.Unmarshal(line, &m) == nil && m.ID != nil && *m.ID == id && m.Result != nil {
			return answerOf(m.Result)
		}
	}
	return nil, fmt.Errorf("no result for id %d in %q", id, body)
}
