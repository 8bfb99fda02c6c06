package mcpidem

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/toolcall"
	"github.com/txonce/txonce/txidem"
)

var update = flag.Bool("update", false, "write the golden files of what models read anew")

// TestTexts_M05_WhatAModelReadsIsAContract compares every text with testdata/texts.golden. A change there is a change of
// what models do next: look at it as at an API, and write it anew with -update.
func TestTexts_M05_WhatAModelReadsIsAContract(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	texts(t, &b)
	descriptions(&b)
	file := filepath.Join("testdata", "texts.golden")
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("what models read has changed (-golden +now); if it is meant, run go test ./txidem/mcpidem -update:\n%s", diff)
	}
}

// texts writes what is said in answer to each error, without and with a tool to ask.
func texts(t *testing.T, b *strings.Builder) {
	store, err := txidem.NewMemory(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 7, 28, 12, 0, 0, 0, time.UTC)
	out := txidem.Result[json.RawMessage]{ID: toolcall.ID{0: 1, 15: 2}}
	for _, c := range []struct {
		label  string
		err    error
		origin keyOrigin
		replay bool
		key    KeyArgument
		off    bool
	}{
		{label: "running", err: &txidem.InProgressError{ID: out.ID, RetryAfter: 1500 * time.Millisecond}},
		{label: "the outcome is not known", err: &txidem.OutcomeUnknownError{ID: out.ID, Err: errors.New("cut")}},
		{label: "a failure", err: txidem.Fail("closed", "the order is closed")},
		{label: "a failure under the model's key", err: txidem.Fail("closed", "the order is closed"), origin: fromModel},
		{label: "a failure under the harness's key", err: txidem.Fail("closed", "the order is closed"), origin: fromHarness},
		{label: "a failure, without protection", err: txidem.Fail("closed", "the order is closed"), origin: fromModel, off: true},
		{label: "the outcome is not known, without protection", err: &txidem.OutcomeUnknownError{ID: out.ID, Err: errors.New("cut")}, off: true},
		{label: "a failure, replayed", err: txidem.Fail("closed", "the order is closed"), replay: true},
		{label: "the handler ended its transaction", err: fmt.Errorf("%w: %w", txidem.ErrHandlerEndedTx, &toolcall.Failure{Code: txidem.CodeHandlerEndedTx, Message: "the handler ended its transaction; it is not known what it did; do not repeat the call"})},
		{label: "the handler ended its transaction, unrecorded", err: txidem.ErrHandlerEndedTx},
		{label: "other arguments under the model's key", err: &txidem.KeyReusedError{ID: out.ID, Paths: []string{"/cents", "/order"}}, origin: fromModel},
		{label: "other arguments under the harness's key", err: &txidem.KeyReusedError{ID: out.ID}, origin: fromHarness},
		{label: "expired, without a key", err: &txidem.ExpiredError{ID: out.ID, FinishedAt: at}},
		{label: "expired, without a key, which the tool does not take", err: &txidem.ExpiredError{ID: out.ID, FinishedAt: at}, key: KeyOff},
		{label: "cut off, and blocked", err: txidem.ErrBlocked},
		{label: "not allowed", err: txidem.ErrNotAllowed},
		{label: "over quota", err: txidem.ErrQuota},
		{label: "no caller", err: txidem.ErrScope},
		{label: "a bad key", err: fmt.Errorf("%w: it has 300 bytes", txidem.ErrKey)},
		{label: "arguments that do not fit", err: fmt.Errorf(`%w: missing properties: ["cents"]`, errArguments)},
		{label: "arguments that are no JSON", err: fmt.Errorf("%w: canonjson: duplicate name", txidem.ErrArgs)},
		{label: "declined", err: errDeclined},
		{label: "dismissed", err: errDismissed},
		{label: "nobody can be asked", err: errCannotAsk},
		{label: "no database", err: txidem.ErrUnavailable},
		{label: "a deadlock", err: &pgconn.PgError{Code: "40P01"}},
		{label: "an error of SQL", err: &pgconn.PgError{Code: "23505"}},
		{label: "a record that cannot be read", err: txidem.ErrCodec},
		{label: "a panic", err: &txidem.PanicError{Value: "secret"}},
		{label: "an error of the handler's", err: errors.New("printer on fire")},
	} {
		out.Replayed = c.replay
		for _, tool := range []string{"", "get_status"} {
			a, err := New(mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil), store, &Config{Scope: ScopeIs("a")})
			if err != nil {
				t.Fatal(err)
			}
			a.UseStatusTool(tool)
			r := (&definition{adapter: a, name: "issue_refund", cfg: ToolConfig{Key: c.key}, keep: keep{unprotected: c.off}}).explain(context.Background(), txidem.Request{}, out, c.origin, c.err)
			said := fmt.Sprintf("%s\n%s\n", r.Content[0].(*mcp.TextContent).Text, r.StructuredContent)
			switch {
			case tool == "":
				fmt.Fprintf(b, "## %s\n%s\n", c.label, said)
			case !strings.HasSuffix(b.String(), said+"\n"):
				fmt.Fprintf(b, "## %s, with a status tool\n%s\n", c.label, said)
			}
			if strings.Contains(said, "secret") {
				t.Errorf("%s: a model reads what it should not: %s", c.label, said)
			}
		}
	}
}

func descriptions(b *strings.Builder) {
	for _, key := range []KeyArgument{KeyOptional, KeyRequired, KeyOff} {
		cfg := &ToolConfig{Key: key}
		if key == KeyOff {
			cfg.Confirm = ConfirmArgs(func(context.Context, any) (string, error) { return "", nil })
		}
		fmt.Fprintf(b, "## description, key %s\n%s\n", key, describe("Refund an order.", cfg, keep{window: 10 * time.Minute, retention: 24 * time.Hour}))
		if key != KeyOff {
			fmt.Fprintf(b, "%s: %s\n", keyArgument, keyArgumentText(key, false))
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(b, "## description, refused for good\n%s\n\n", describe("Refund an order.", &ToolConfig{}, keep{window: time.Hour, retention: 24 * time.Hour, forGood: true}))
	fmt.Fprintf(b, "## description, without protection\n%s\n%s: %s\n", describe("Refund an order.", &ToolConfig{}, keep{unprotected: true}), keyArgument, keyArgumentText(KeyOptional, true))
}
