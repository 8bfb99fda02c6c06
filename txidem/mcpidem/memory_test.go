package mcpidem_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/txidem"
	"github.com/txonce/txonce/txidem/mcpidem"
)

// session is a client of a server whose one tool works on the store.
func session(t *testing.T, store *txidem.Store, handle func(context.Context, pgx.Tx, refund) (receipt, error)) *mcp.ClientSession {
	t.Helper()
	server := mcp.NewServer(&mcp.Implementation{Name: "shop", Version: "1"}, nil)
	idem, err := mcpidem.New(server, store, &mcpidem.Config{Scope: mcpidem.ScopeIs("agent")})
	if err != nil {
		t.Fatal(err)
	}
	mcpidem.AddTool(idem, &mcp.Tool{Name: "issue_refund"}, handle)
	here, there := mcp.NewInMemoryTransports()
	serving, err := server.Connect(t.Context(), there, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, nil).Connect(t.Context(), here, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(s.Close(), serving.Wait()); err != nil {
			t.Error(err)
		}
	})
	return s
}

func callWith(t *testing.T, s *mcp.ClientSession, key string) *mcp.CallToolResult {
	t.Helper()
	r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "issue_refund", Arguments: map[string]any{"order": "A-1", "cents": 5, "idempotency_key": key}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func wantRefusal(t *testing.T, got *mcp.CallToolResult, wantStatus string, repeat bool, says string) {
	t.Helper()
	content, _ := got.StructuredContent.(map[string]any)
	if !got.IsError || content["status"] != wantStatus || content["repeat_same_call"] != repeat || !strings.Contains(text(got), says) || strings.Contains(text(got), "secret") {
		t.Errorf("got %v\n%s", content, text(got))
	}
}

// TestAddTool_R22_StoreInMemory is a user's unit test of a tool, without Postgres.
func TestAddTool_R22_StoreInMemory(t *testing.T) {
	t.Parallel()
	store, err := txidem.NewMemory(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	runs := 0
	s := session(t, store, func(context.Context, pgx.Tx, refund) (receipt, error) { runs++; return receipt{}, nil })
	first, again := callWith(t, s, "k"), callWith(t, s, "k")
	if first.IsError || again.IsError || runs != 1 || again.Meta[mcpidem.MetaReplayed] != true {
		t.Errorf("first %v, again %v, %d runs", text(first), text(again), runs)
	}
}

// unreadable is a codec that has lost its key.
type unreadable struct{}

func (unreadable) Encode(_ context.Context, _ txidem.Recorded, answer []byte) ([]byte, error) {
	return answer, nil
}

func (unreadable) Decode(context.Context, txidem.Recorded, []byte) ([]byte, error) {
	return nil, errors.New("the key is gone: secret detail")
}

// TestCall_R21_AnswerThatCannotBeReadIsNotCalledUndone: the call was done, and the model must not hear that nothing happened.
func TestCall_R21_AnswerThatCannotBeReadIsNotCalledUndone(t *testing.T) {
	t.Parallel()
	store, err := txidem.NewMemory(&txidem.Config{Codec: unreadable{}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := session(t, store, func(context.Context, pgx.Tx, refund) (receipt, error) { return receipt{}, nil })
	callWith(t, s, "k")
	wantRefusal(t, callWith(t, s, "k"), "tool_fault", false, "it may have been done earlier. Do not repeat it")
}

// TestCall_R21_FullScopeIsToldToWait: a quota passes, so the same call may be repeated later.
func TestCall_R21_FullScopeIsToldToWait(t *testing.T) {
	t.Parallel()
	store, err := txidem.NewMemory(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := session(t, store, func(context.Context, pgx.Tx, refund) (receipt, error) {
		return receipt{}, fmt.Errorf("%w: 3 are allowed", txidem.ErrQuota) // as the store says it
	})
	wantRefusal(t, callWith(t, s, "k"), "over_quota", true, "Wait a minute, then repeat exactly the same call")
}
