package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/jobs"
	"github.com/txonce/txonce/txidem"
)

// codeBadMonth is a recorded failure, like those in billing.go.
const codeBadMonth = "bad_month"

// Statement is what build_statement takes.
type Statement struct {
	Account string `json:"account" jsonschema:"whose statement"`
	Month   string `json:"month" jsonschema:"the month that it is for, such as 2026-10"`
}

// StatementNumber is what the job comes to.
type StatementNumber struct {
	StatementID  int64 `json:"statement_id"`
	Pages        int   `json:"pages"`
	BalanceCents int64 `json:"balance_cents" jsonschema:"of the account, as the statement says"`
}

// statements is the tool that is too slow to be waited for: it answers with the id of a job, and get_status tells how far
// that is.
type statements struct {
	*jobs.Definition[Statement, StatementNumber]
	runner *jobs.Runner
}

func newStatements(db *database, log *slog.Logger) (*statements, error) {
	s := &statements{Definition: jobs.Define("statement", buildStatement, nil)}
	var err error
	s.runner, err = jobs.New(db.Pool, &jobs.Config{Schema: db.schemas.txonce, Logger: log}, s.Definition)
	return s, err
}

// order is the handler of build_statement. The job commits together with the record of the call, so each repetition of the
// call is answered with the same job.
func (s *statements) order(ctx context.Context, tx pgx.Tx, in Statement) (jobs.Handle, error) {
	if err := checkMonth(in.Month); err != nil {
		return jobs.Handle{}, err
	}
	return s.SubmitTx(ctx, tx, s.runner, in, nil)
}

func checkMonth(month string) error {
	if _, err := time.Parse("2006-01", month); err != nil {
		return txidem.Fail(codeBadMonth, "a month is a year and a number, such as 2026-10")
	}
	return nil
}

// buildStatement is the job. The slow half runs outside any transaction, as often as workers are killed; the function that
// it returns runs in one, and of all attempts one commits.
func buildStatement(ctx context.Context, job *jobs.Job[Statement]) (jobs.Commit[StatementNumber], error) {
	pages, err := typeset(ctx, job.Progress)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, tx pgx.Tx) (StatementNumber, error) {
		return saveStatement(ctx, tx, job.Args, pages)
	}, nil
}

// typeset stands for work that takes its time.
func typeset(ctx context.Context, progress func(fraction float64, message string)) (pages int, err error) {
	const last, perPage = 5, 250 * time.Millisecond
	for page := 1; page <= last; page++ {
		select {
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		case <-time.After(perPage):
		}
		progress(float64(page)/last, fmt.Sprintf("page %d of %d", page, last))
	}
	return last, nil
}

func saveStatement(ctx context.Context, tx pgx.Tx, in Statement, pages int) (StatementNumber, error) {
	out := StatementNumber{Pages: pages}
	err := tx.QueryRow(ctx, `insert into statements (account, month, pages, balance)
		values ($1, $2, $3, (select coalesce(sum(cents), 0) from ledger where account = $1)) returning id, balance`,
		in.Account, in.Month, pages).Scan(&out.StatementID, &out.BalanceCents)
	if err != nil {
		return StatementNumber{}, fmt.Errorf("save the statement of account %s: %w", in.Account, err)
	}
	return out, nil
}
