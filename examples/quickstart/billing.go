package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/txidem"
)

// The tools' recorded failures: the same request would fail in the same way again.
const (
	codeBadAmount = "bad_amount"
	codeNoSubject = "no_subject"
)

// Refund is what issue_refund takes.
type Refund struct {
	OrderID string `json:"order_id" jsonschema:"the order to give money back for"`
	Cents   int64  `json:"cents" jsonschema:"how much, in cents, more than zero"`
	Memo    string `json:"memo,omitempty" jsonschema:"why, in a few words"`
}

// RefundReceipt is what issue_refund answers.
type RefundReceipt struct {
	RefundID      int64  `json:"refund_id"`
	OrderID       string `json:"order_id"`
	RefundedCents int64  `json:"refunded_cents" jsonschema:"all that was refunded for this order so far"`
}

// refunds is the handler of issue_refund.
type refunds struct{ tell teller }

// issue pays an order back, and has the merchant told. It writes through tx and knows nothing of retries: if it returns nil, what
// it wrote commits together with the answer.
func (r refunds) issue(ctx context.Context, tx pgx.Tx, in Refund) (RefundReceipt, error) {
	if in.Cents <= 0 {
		return RefundReceipt{}, txidem.Fail(codeBadAmount, "a refund must be more than zero cents")
	}
	receipt := RefundReceipt{OrderID: in.OrderID}
	err := tx.QueryRow(ctx, `insert into refunds (order_id, cents, memo) values ($1, $2, $3) returning id`,
		in.OrderID, in.Cents, in.Memo).Scan(&receipt.RefundID)
	if err != nil {
		return RefundReceipt{}, fmt.Errorf("refund order %s: %w", in.OrderID, err)
	}
	err = tx.QueryRow(ctx, `select sum(cents)::bigint from refunds where order_id = $1`,
		in.OrderID).Scan(&receipt.RefundedCents)
	if err != nil {
		return RefundReceipt{}, fmt.Errorf("add up the refunds of order %s: %w", in.OrderID, err)
	}
	if err := r.tell(ctx, tx, RefundNotice{receipt.RefundID, in.OrderID, in.Cents}); err != nil {
		return RefundReceipt{}, fmt.Errorf("tell the merchant of the refund of order %s: %w", in.OrderID, err)
	}
	return receipt, nil
}

// Ticket is what create_ticket takes.
type Ticket struct {
	Customer string `json:"customer" jsonschema:"who has the problem"`
	Subject  string `json:"subject" jsonschema:"the problem in one line"`
}

// TicketNumber is what create_ticket answers.
type TicketNumber struct {
	Ticket string `json:"ticket" jsonschema:"the number to tell the customer"`
}

// createTicket opens a support ticket.
func createTicket(ctx context.Context, tx pgx.Tx, in Ticket) (TicketNumber, error) {
	if strings.TrimSpace(in.Subject) == "" {
		return TicketNumber{}, txidem.Fail(codeNoSubject, "a ticket needs a subject")
	}
	var id int64
	err := tx.QueryRow(ctx, `insert into tickets (customer, subject) values ($1, $2) returning id`,
		in.Customer, in.Subject).Scan(&id)
	if err != nil {
		return TicketNumber{}, fmt.Errorf("open a ticket for %s: %w", in.Customer, err)
	}
	return TicketNumber{Ticket: fmt.Sprintf("T-%05d", id)}, nil
}

// LedgerEntry is what append_ledger_entry takes.
type LedgerEntry struct {
	Account string `json:"account" jsonschema:"the account to post to"`
	Cents   int64  `json:"cents" jsonschema:"how much, in cents; negative takes away"`
	Text    string `json:"text" jsonschema:"what the statement will say"`
}

// LedgerBalance is what append_ledger_entry answers.
type LedgerBalance struct {
	EntryID      int64 `json:"entry_id"`
	BalanceCents int64 `json:"balance_cents" jsonschema:"of the account, with this entry"`
}

// appendLedgerEntry posts to an account.
func appendLedgerEntry(ctx context.Context, tx pgx.Tx, in LedgerEntry) (LedgerBalance, error) {
	if in.Cents == 0 {
		return LedgerBalance{}, txidem.Fail(codeBadAmount, "an entry of zero cents cannot be posted")
	}
	var out LedgerBalance
	err := tx.QueryRow(ctx, `insert into ledger (account, cents, text) values ($1, $2, $3) returning id`,
		in.Account, in.Cents, in.Text).Scan(&out.EntryID)
	if err != nil {
		return LedgerBalance{}, fmt.Errorf("post to account %s: %w", in.Account, err)
	}
	err = tx.QueryRow(ctx, `select sum(cents)::bigint from ledger where account = $1`, in.Account).Scan(&out.BalanceCents)
	if err != nil {
		return LedgerBalance{}, fmt.Errorf("balance of account %s: %w", in.Account, err)
	}
	return out, nil
}
