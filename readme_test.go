package txonce

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/internal/dbtest"
	_ "github.com/txonce/txonce/jobs" // what the programs import: a change of it must run the tests again
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
			State string
			Built struct{ Statement int64 }
		}
		for end := time.Now().Add(time.Minute); status.State != "succeeded"; time.Sleep(20 * time.Millisecond) {
			said = call("job_status", `{"job_id":"`+handle.JobID+`"}`)
			if decode(t, said, &status); said.IsError || time.Now().After(end) {
				t.Fatalf("%+v", said)
			}
		}
		if status.Built.Statement == 0 {
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

// buildProgram builds the nth program in the README.
func buildProgram(t *testing.T, nth int) string {
	t.Helper()
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```go\n(package main.*?)```").FindAllStringSubmatch(string(readme), -1)
	if len(blocks) != 2 {
		t.Fatalf("the README has %d programs, want 2", len(blocks))
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
func startProgram(t *testing.T, program, url string) func(tool, arguments string) *mcp.CallToolResult {
	t.Helper()
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), "DATABASE_URL="+url)
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
