package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/txidem/mcpidem"
)

// lines is a writer that others may read while it is written to.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func TestServe_HTTP(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	var stdout, stderr lines
	ended := make(chan int)
	go func() { ended <- run(ctx, options{serve: "http", address: loopback}, &stdout, &stderr) }()
	url := waitFor(t, &stderr, regexp.MustCompile(`http://127\.0\.0\.1:\d+/mcp`))

	resp, err := http.Post(url, "application/json", bytes.NewBufferString("{}")) //nolint:noctx // it is answered at once
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a token: status %d, want %d", resp.StatusCode, http.StatusUnauthorized)
	}
	http.DefaultClient.CloseIdleConnections()

	client := &http.Client{Transport: wire{base: newTransport()}}
	defer client.CloseIdleConnections()
	callTwice(t, &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: client})
	askForJob(t, &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: client})

	cancel()
	if code := <-ended; code != exitInterrupted {
		t.Errorf("exit status %d, want %d", code, exitInterrupted)
	}
	if stdout.String() != "" {
		t.Errorf("stdout got %q", stdout.String())
	}
}

func waitFor(t *testing.T, l *lines, form *regexp.Regexp) string {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if found := form.FindString(l.String()); found != "" {
			return found
		}
	}
	t.Fatalf("no %s in %q", form, l.String())
	return ""
}

// TestServe_Stdio starts the program and speaks to it as a client does that starts its servers. That it understands
// what comes back means that nothing else was written to stdout.
func TestServe_Stdio(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"=-serve stdio")
	var stderr lines
	cmd.Stderr = &stderr
	callTwice(t, &mcp.CommandTransport{Command: cmd})
	if code := cmd.ProcessState.ExitCode(); code != exitGood {
		t.Errorf("exit status %d, want %d; stderr:\n%s", code, exitGood, stderr.String())
	}
}

// callTwice calls a tool with a key, and again on a new wording, and asks what became of the call. It wants one answer, and to hear
// of the one message that the call sends.
func callTwice(t *testing.T, transport mcp.Transport) {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "reader", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), transport, nil)
	if err != nil {
		t.Fatal(err)
	}
	key := rand.Text() // records of earlier tests may be there
	call := func(tool, arguments string) *mcp.CallToolResult {
		result, err := session.CallTool(t.Context(), &mcp.CallToolParams{
			Meta: mcp.Meta{mcpidem.MetaKey: key},
			Name: tool, Arguments: json.RawMessage(arguments),
		})
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	first := call(toolRefund, `{"order_id":"A-1","cents":1050}`)
	second := call(toolRefund, `{"cents": 1050, "order_id": "A-1"}`)
	asked := call(toolStatus, fmt.Sprintf(`{"tool":%q,"idempotency_key":%q}`, toolRefund, key))
	if err := session.Close(); err != nil {
		t.Error(err)
	}
	if first.IsError || second.IsError || second.Meta[mcpidem.MetaReplayed] != true {
		t.Errorf("first: %+v, second: %+v", first, second)
	}
	if diff := cmp.Diff(first.StructuredContent, second.StructuredContent); diff != "" {
		t.Errorf("the answers differ: %s", diff)
	}
	if got := readAnswer(toolStatus, asked); got.kind != done || got.text != firstText(first) || !strings.Contains(got.next, "Messages that the call sends: 1 ") {
		t.Errorf("asked for the call: %+v, want %q", got, firstText(first))
	}
}

// askForJob calls the slow tool twice and waits for the end of the one job.
func askForJob(t *testing.T, transport mcp.Transport) {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "reader", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), transport, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = session.Close() }()
	key := rand.Text()
	call := func(tool, arguments string) answer {
		result, err := session.CallTool(t.Context(), &mcp.CallToolParams{
			Meta: mcp.Meta{mcpidem.MetaKey: key}, Name: tool, Arguments: json.RawMessage(arguments),
		})
		if err != nil {
			t.Fatal(err)
		}
		return readAnswer(tool, result)
	}
	first := call(toolStatement, `{"account":"A-1","month":"2026-10"}`)
	second := call(toolStatement, `{"month":"2026-10", "account":"A-1"}`)
	if first.kind != accepted || first.job == "" || second.job != first.job || !second.replayed {
		t.Fatalf("first: %+v, second: %+v", first, second)
	}
	got := first
	for end := time.Now().Add(time.Minute); (got.kind == accepted || got.kind == waiting) && time.Now().Before(end); {
		got = call(toolStatus, fmt.Sprintf(`{"id":%q,"wait_seconds":25}`, first.job))
	}
	if got.kind != done || got.state != "succeeded" || !strings.Contains(got.text, `"statement_id":`) {
		t.Fatalf("asked for the job: %+v", got)
	}
}
