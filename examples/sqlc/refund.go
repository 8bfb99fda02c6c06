// Package sqlc shows a tool whose SQL is generated: the handler gives the call's tx to the generated code, and what that
// writes commits with the record.
//
// refund_test.go has the tool's unit tests without Postgres, and the same tool on one.
package sqlc

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/examples/sqlc/db"
	"github.com/txonce/txonce/txidem"
)

// Refund is what the tool is asked for.
type Refund struct {
	Order string `json:"order"`
	Cents int64  `json:"cents"`
}

// Receipt is what it answers.
type Receipt struct {
	Refund int64 `json:"refund"`
}

// IssueRefund is a handler: for txidem.Run, or for mcpidem.AddTool with one argument less.
func IssueRefund(ctx context.Context, tx pgx.Tx, in Refund) (Receipt, error) {
	if in.Cents <= 0 {
		return Receipt{}, txidem.Fail("bad_amount", "cents must be positive")
	}
	queries := db.New(tx)
	orders, err := queries.AddRefunded(ctx, db.AddRefundedParams{ID: in.Order, Refunded: in.Cents})
	if err != nil {
		return Receipt{}, err
	}
	if orders == 0 {
		return Receipt{}, txidem.Fail("no_such_order", "there is no order "+in.Order)
	}
	refund, err := queries.CreateRefund(ctx, db.CreateRefundParams{OrderID: in.Order, Cents: in.Cents})
	return Receipt{Refund: refund.ID}, err
}
