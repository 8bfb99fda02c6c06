package main

import (
	"log/slog"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/txonce/txonce/internal/dbtest"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

// TestREADME_H01_H03_RequestsWorkByCopyingThem sends what the README says, to a server on a database of its own.
func TestREADME_H01_H03_RequestsWorkByCopyingThem(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"sh", "curl", "openssl", "base64", "od"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("the README's requests need %s", program)
		}
	}
	s, err := openShop(t.Context(), dbtest.URL(t), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.pool.Close)
	h, err := s.handler(demoSecret)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(readme), -1)
	if len(blocks) != 3 {
		t.Fatalf("the README has %d blocks of requests, want 3", len(blocks))
	}
	for i, want := range [][]string{
		{"HTTP/1.1 201 Created", `{"refund":1}`, "HTTP/1.1 201 Created", "Idempotent-Replayed: true", `{"refund":1}`},
		{"HTTP/1.1 422 Unprocessable Entity", "key_reused", "/body/cents"},
		{"HTTP/1.1 200 OK", "HTTP/1.1 200 OK", "Idempotent-Replayed: true", `{"refunds":1,"ledger_entries":1,"cents":-1050}`},
	} {
		script := strings.ReplaceAll(blocks[i][1], "http://127.0.0.1:8080", server.URL)
		got, err := exec.CommandContext(t.Context(), "sh", "-euc", script).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, got)
		}
		rest := string(got)
		for _, part := range want {
			before, behind, found := strings.Cut(rest, part)
			if !found {
				t.Errorf("block %d: no %q in %q, of\n%s", i+1, part, before, got)
			}
			rest = behind
		}
	}
}
