package txonce

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/txonce/txonce/internal/dbtest"
	_ "github.com/txonce/txonce/jobs" // what the programs import: a change of it must run the tests again
	_ "github.com/txonce/txonce/outbox/webhook"
	_ "github.com/txonce/txonce/statustool"
	_ "github.com/txonce/txonce/txidem/mcpidem"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

// TestREADME_ExampleWorksByCopyingIt builds the program of the quick start and calls its tool twice, from two processes.
func TestREADME_ExampleWorksByCopyingIt(t *testing.T) {
	t.Parallel()
	program, url := buildProgram(t, 0), dbtest.URL(t)
	call := func() *mcp.CallToolResult {
		return startProgram(t, program, url)("issue_refund", `{"order":"A-1","cents":1050}`)
	}
	first, again := call(), call()
	if first.IsError || again.IsError || again.Meta["dev.txonce/replayed"] != true {
		t.Errorf("first %+v\nagain %+v", first, again)
	}
	if n := count(t, url, "refunds"); n != 1 {
		t.Errorf("%d refunds, want 1", n)
	}
}

// TestREADME_J01_JobsExampleWorksByCopyingIt does the same with the slow tool, and asks for the job until it has ended.
func TestREADME_J01_JobsExampleWorksByCopyingIt(t *testing.T) {
	t.Parallel()
	program, url := buildProgram(t, 1), dbtest.URL(t)
	var ids [2]string
	for i := range ids {
		call := startProgram(t, program, url)
		var handle struct {
			JobID string `json:"job_id"`
		}
		said := call("build_statement", `{"account":"A-1"}`)
		if decode(t, said, &handle); said.IsError || handle.JobID == "" {
			t.Fatalf("%+v", said)
		}
		ids[i] = handle.JobID
		var status struct {
			State  string
			Result struct{ Statement int64 }
		}
		for end := time.Now().Add(time.Minute); status.State != "succeeded"; {
			said = call("get_status", `{"id":"`+handle.JobID+`","wait_seconds":25}`)
			if decode(t, said, &status); said.IsError || time.Now().After(end) {
				t.Fatalf("%+v", said)
			}
		}
		if status.Result.Statement == 0 {
			t.Errorf("the job has succeeded and gives no result: %+v", said)
		}
	}
	if ids[0] != ids[1] {
		t.Errorf("two jobs for one call: %v", ids)
	}
	if n := count(t, url, "statements"); n != 1 {
		t.Errorf("%d statements, want 1", n)
	}
}

// TestREADME_O01_S07_OutboxExampleWorksByCopyingIt calls the tool from two processes; the receiver fails once, and does once what it
// is sent.
func TestREADME_O01_S07_OutboxExampleWorksByCopyingIt(t *testing.T) {
	t.Parallel()
	const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	shop := newReceiver(t, secret)
	program, url := buildProgram(t, 2), dbtest.URL(t)
	for range 2 {
		call := startProgram(t, program, url, "LOCAL=1", "SHOP_URL="+shop.URL, "SHOP_SECRET="+secret)
		if said := call("issue_refund", `{"order":"A-1","cents":1050,"idempotency_key":"order A-1"}`); said.IsError {
			t.Fatalf("%+v", said)
		}
		var status struct {
			State    string
			Messages []struct {
				State    string
				Attempts int
			}
		}
		for end := time.Now().Add(time.Minute); len(status.Messages) == 0 || status.Messages[0].State != "delivered"; {
			said := call("get_status", `{"tool":"issue_refund","idempotency_key":"order A-1"}`)
			if decode(t, said, &status); said.IsError || time.Now().After(end) {
				t.Fatalf("%+v", said)
			}
		}
		if status.State != "succeeded" || len(status.Messages) != 1 || status.Messages[0].Attempts < 2 {
			t.Errorf("%+v", status)
		}
	}
	if n := count(t, url, "refunds"); n != 1 {
		t.Errorf("%d refunds, want 1", n)
	}
	if took := shop.took(); len(took) != 1 || took[0] != `{"order":"A-1","cents":1050}` {
		t.Errorf("the receiver took %q", took)
	}
}

// receiver takes webhooks: the first attempt fails behind the effect, so the message comes again.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	bodies []string
	ids    map[string]bool
}

func newReceiver(t *testing.T, secret string) *receiver {
	t.Helper()
	verifier, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	r := &receiver{ids: make(map[string]bool)}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err = errors.Join(err, verifier.Verify(body, req.Header)); err != nil {
			t.Error(err)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if id := req.Header.Get("Webhook-Id"); !r.ids[id] {
			r.ids[id] = true
			r.bodies = append(r.bodies, string(body))
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) took() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.bodies)
}

// TestREADME_S04_AnswersOfGetStatusAreReal: the program gives them, but for the time.
func TestREADME_S04_AnswersOfGetStatusAreReal(t *testing.T) {
	t.Parallel()
	_, section, _ := strings.Cut(readme(t), "\n## Ask, do not act\n")
	section, _, _ = strings.Cut(section, "\n## ")
	blocks := regexp.MustCompile("(?s)```json\n(.*?)```").FindAllStringSubmatch(section, -1)
	if len(blocks) != 3 {
		t.Fatalf("the section has %d blocks of JSON, want a question and two answers", len(blocks))
	}
	call := startProgram(t, buildProgram(t, 0), dbtest.URL(t))
	ask := func() (said map[string]any) {
		result := call("get_status", blocks[0][1])
		if decode(t, result, &said); result.IsError {
			t.Fatalf("%+v", said)
		}
		return said
	}
	none := ask()
	if said := call("issue_refund", `{"order":"A-1","cents":1050,"idempotency_key":"order A-1"}`); said.IsError { // nobody heard that
		t.Fatalf("%+v", said)
	}
	for i, got := range []map[string]any{ask(), none} {
		var want map[string]any
		if err := json.Unmarshal([]byte(blocks[i+1][1]), &want); err != nil {
			t.Fatal(err)
		}
		if at, ok := got["finished_at"].(string); ok {
			if _, err := time.Parse(time.RFC3339Nano, at); err != nil {
				t.Error(err)
			}
			got["finished_at"] = want["finished_at"]
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("answer %d is another one (-README +program):\n%s", i+1, diff)
		}
	}
}

func readme(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}

// buildProgram builds the nth program in the README.
func buildProgram(t *testing.T, nth int) string {
	t.Helper()
	blocks := regexp.MustCompile("(?s)```go\n(package main.*?)```").FindAllStringSubmatch(readme(t), -1)
	if len(blocks) != 3 {
		t.Fatalf("the README has %d programs, want 3", len(blocks))
	}
	dir := t.TempDir()
	source, program := filepath.Join(dir, "main.go"), filepath.Join(dir, "billing")
	if err := os.WriteFile(source, []byte(blocks[nth][1]), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// startProgram starts the program and returns a function that calls its tools over stdio. It ends with the test.
func startProgram(t *testing.T, program, url string, env ...string) func(tool, arguments string) *mcp.CallToolResult {
	t.Helper()
	cmd := exec.Command(program)
	cmd.Env = append(append(os.Environ(), "DATABASE_URL="+url), env...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	client := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, nil)
	session, err := client.Connect(context.WithoutCancel(t.Context()), &mcp.CommandTransport{Command: cmd}, nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	t.Cleanup(func() { _ = session.Close() })
	return func(tool, arguments string) *mcp.CallToolResult {
		t.Helper()
		result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: json.RawMessage(arguments)})
		if err != nil {
			t.Fatalf("%v\n%s", err, stderr.String())
		}
		return result
	}
}

func decode(t *testing.T, result *mcp.CallToolResult, into any) {
	t.Helper()
	raw, err := json.Marshal(result.StructuredContent)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
}

func count(t *testing.T, url, table string) (n int) {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if err := pool.QueryRow(t.Context(), `select count(*) from `+table).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
