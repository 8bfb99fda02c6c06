package main

import (
	"context"
	"log/slog"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// newUnprotectedServer is the same server without txonce: the handlers are the same, each call has a transaction of its
// own, and nobody remembers it.
func newUnprotectedServer(pool *pgxpool.Pool, log *slog.Logger) *mcp.Server {
	server := mcp.NewServer(serverName(), &mcp.ServerOptions{Logger: log})
	mcp.AddTool(server, refundTool(), inTx(pool, issueRefund))
	mcp.AddTool(server, ticketTool(), inTx(pool, createTicket))
	mcp.AddTool(server, ledgerTool(), inTx(pool, appendLedgerEntry))
	return server
}

// inTx makes a handler of the SDK out of one that wants a transaction.
func inTx[In, Out any](pool *pgxpool.Pool, h func(context.Context, pgx.Tx, In) (Out, error)) mcp.ToolHandlerFor[In, Out] {
	return func(ctx context.Context, _ *mcp.CallToolRequest, in In) (*mcp.CallToolResult, Out, error) {
		var out Out
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) (err error) {
			out, err = h(ctx, tx, in)
			return err
		})
		return nil, out, err
	}
}
