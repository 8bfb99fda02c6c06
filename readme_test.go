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

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/internal/dbtest"
	_ "github.com/txonce/txonce/txidem/mcpidem" // what the program imports: a change of it must run the test again
)

func TestMain(m *testing.M) { dbtest.Main(m) }

// TestREADME_ExampleWorksByCopyingIt builds the program in the README and calls its tool twice, from two processes.
func TestREADME_ExampleWorksByCopyingIt(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```go\n(package main.*?)```").FindAllStringSubmatch(string(readme), -1)
	if len(blocks) != 1 {
		t.Fatalf("the README has %d programs, want 1", len(blocks))
	}
	dir := t.TempDir()
	source, program := filepath.Join(dir, "main.go"), filepath.Join(dir, "billing")
	if err := os.WriteFile(source, []byte(blocks[0][1]), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}

	url := dbtest.URL(t)
	first, again := callRefund(t, program, url), callRefund(t, program, url)
	if first.IsError || again.IsError || again.Meta["dev.txonce/replayed"] != true {
		t.Errorf("first %+v\nagain %+v", first, again)
	}
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	var n int
	if err := pool.QueryRow(t.Context(), `select count(*) from refunds`).Scan(&n); err != nil || n != 1 {
		t.Errorf("%d refunds, %v; want 1", n, err)
	}
}

// callRefund starts the program, calls its tool over stdio and ends it.
func callRefund(t *testing.T, program, url string) *mcp.CallToolResult {
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
	defer session.Close()
	result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "issue_refund", Arguments: json.RawMessage(`{"order":"A-1","cents":1050}`)})
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	return result
}
