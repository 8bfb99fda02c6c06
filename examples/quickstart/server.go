package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/outbox"
	"github.com/txonce/txonce/statustool"
	"github.com/txonce/txonce/txidem"
	"github.com/txonce/txonce/txidem/mcpidem"
)

// The tools' names.
const (
	toolRefund    = "issue_refund"
	toolTicket    = "create_ticket"
	toolLedger    = "append_ledger_entry"
	toolStatement = "build_statement"
	toolStatus    = "get_status"
)

func refundTool() *mcp.Tool {
	return &mcp.Tool{Name: toolRefund, Description: "Give a customer money back for an order."}
}

func ticketTool() *mcp.Tool {
	return &mcp.Tool{Name: toolTicket, Description: "Open a support ticket for a customer."}
}

func ledgerTool() *mcp.Tool {
	return &mcp.Tool{Name: toolLedger, Description: "Post an entry to an account of the ledger."}
}

func statementTool() *mcp.Tool {
	return &mcp.Tool{
		Name:        toolStatement,
		Description: "Build the statement of an account for a month. It takes a while: the answer is the id of a job, which goes on by itself.",
	}
}

// newServer makes the billing server: its tools are protected, and there is one more, which tells what became of a call, a job or
// the messages that a call has sent.
func newServer(store *txidem.Store, slow *statements, box *outbox.Outbox, scope mcpidem.ScopeFunc, log *slog.Logger) (*mcp.Server, error) {
	server := mcp.NewServer(serverName(), &mcp.ServerOptions{Logger: log})
	idem, err := mcpidem.New(server, store, &mcpidem.Config{Scope: scope, Logger: log})
	if err != nil {
		return nil, err
	}
	mcpidem.AddTool(idem, refundTool(), refunds{publish(box)}.issue)
	mcpidem.AddTool(idem, ticketTool(), createTicket)
	// Posting may take a while. A duplicate that arrives meanwhile is told so at once instead of waiting for it.
	mcpidem.AddToolWith(idem, ledgerTool(), &mcpidem.ToolConfig{Policy: &txidem.Policy{Wait: txidem.NoWait}}, appendLedgerEntry)
	mcpidem.AddTool(idem, statementTool(), slow.order)
	return server, statustool.Add(idem, &statustool.Config{Name: toolStatus, Outbox: box, Logger: log}, store, slow.runner)
}

func serverName() *mcp.Implementation {
	return &mcp.Implementation{Name: "billing", Title: "Billing (txonce quickstart)", Version: "1.0.0"}
}

// newHandler serves the server over Streamable HTTP to callers with a token. Stateless is what the protocol of
// 2026-07-28 needs, and what lets any number of these servers stand side by side over one Postgres.
//
// A client that hangs up stops nothing (the SDK's default): the call commits, and its repetition finds the answer.
func newHandler(server *mcp.Server, log *slog.Logger) http.Handler {
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{Stateless: true, Logger: log})
	return auth.RequireBearerToken(verify, nil)(handler)
}

// demoToken is the token of the one user there is.
const demoToken = "demo-token"

// verify says whose token it is: the user id is the scope of the idempotency keys, so that nobody gets another's
// answer. A real server checks a signature here.
func verify(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
	if token != demoToken {
		return nil, fmt.Errorf("%w: the demo knows one only, %q", auth.ErrInvalidToken, demoToken)
	}
	return &auth.TokenInfo{UserID: "agent-1", Expiration: time.Now().Add(time.Hour)}, nil
}
