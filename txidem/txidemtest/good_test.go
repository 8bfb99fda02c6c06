package txidemtest_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/internal/dbtest"
	"github.com/txonce/txonce/toolcall"
	"github.com/txonce/txonce/txidem"
	"github.com/txonce/txonce/txidem/txidemtest"
)

func TestRun_PassesAGoodTool(t *testing.T) {
	t.Parallel()
	txidemtest.Run(t, func() string { return database(t) }, txidemtest.Tool{Call: calls(insert), Effects: sqlCount})
}

// insert is the simplest good handler.
func insert(ctx context.Context, _ *pgxpool.Pool, tx pgx.Tx, intent int) (string, error) {
	_, err := tx.Exec(ctx, sqlEffect, intent)
	return "done", err
}

func TestCheck_R02_PassesGoodTools(t *testing.T) {
	t.Parallel()
	for name, tool := range dbtest.Sample(t, 2, map[string]txidemtest.Tool{
		"two statements":     {Call: calls(twoStatements)},
		"two effects":        {Call: calls(twoEffects), Want: 2},
		"savepoints":         {Call: calls(savepoints)},
		"CopyFrom":           {Call: calls(copyFrom), Want: 3},
		"batch":              {Call: calls(batch), Want: 2},
		"refused":            {Call: calls(refuse), Want: txidemtest.None},
		"AtFinish":           {Call: calls(atFinish)},
		"a large answer":     {Call: calls(large)},
		"serializable":       {Call: withPolicy(txidem.Policy{Isolation: pgx.Serializable}, insert)},
		"no key":             {Call: withoutKey},
		"in simple protocol": {Call: calls(twoStatements), Pool: mode(pgx.QueryExecModeSimpleProtocol)},
		"in mode exec":       {Call: calls(savepoints), Pool: mode(pgx.QueryExecModeExec)},
		"set up by SQL":      {Call: calls(insert), Pool: setUp},
		"counts with text":   {Call: calls(insert), Effects: `select coalesce(sum(1), 0) from effect where 'n-' || intent = 'n-' || $1`},
	}) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test := t.Name()
			if slices.Contains([]string{"two effects", "a large answer", "no key", "in mode exec", "counts with text", "set up by SQL"}, name) {
				test = "" // they die as the others do, and it takes time
			}
			found, missed := check(t, test, tool)
			for _, f := range found {
				t.Error(f)
			}
			if len(missed) > 0 {
				t.Errorf("not reached: %q", missed)
			}
		})
	}
}

func mode(m pgx.QueryExecMode) func(*pgxpool.Config) {
	return func(cfg *pgxpool.Config) { cfg.ConnConfig.DefaultQueryExecMode = m }
}

// setUp has each connection run a statement that is no part of a call.
func setUp(cfg *pgxpool.Config) {
	cfg.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, `set statement_timeout = '1min'`)
		return err
	}
}

func withPolicy(policy txidem.Policy, h handler) func(context.Context, *pgxpool.Pool, int) ([]byte, error) {
	return func(ctx context.Context, pool *pgxpool.Pool, intent int) ([]byte, error) {
		req := request(intent)
		req.Policy = &policy
		return run(ctx, pool, req, intent, h)
	}
}

func withoutKey(ctx context.Context, pool *pgxpool.Pool, intent int) ([]byte, error) {
	req := request(intent)
	req.Key = ""
	return run(ctx, pool, req, intent, insert)
}

func twoStatements(ctx context.Context, _ *pgxpool.Pool, tx pgx.Tx, intent int) (string, error) {
	if _, err := tx.Exec(ctx, sqlNote, intent); err != nil {
		return "", err
	}
	var n int
	err := tx.QueryRow(ctx, sqlEffect+` returning intent`, intent).Scan(&n)
	return "done", err
}

func twoEffects(ctx context.Context, pool *pgxpool.Pool, tx pgx.Tx, intent int) (string, error) {
	if _, err := insert(ctx, pool, tx, intent); err != nil {
		return "", err
	}
	return insert(ctx, pool, tx, intent)
}

// savepoints tries what fails, and goes on without it for the one reason that it knows.
func savepoints(ctx context.Context, pool *pgxpool.Pool, tx pgx.Tx, intent int) (string, error) {
	inner, err := tx.Begin(ctx)
	if err != nil {
		return "", err
	}
	_, err = inner.Exec(ctx, `select 1 / 0`)
	var fromServer *pgconn.PgError
	if !errors.As(err, &fromServer) || fromServer.Code != "22012" {
		return "", errors.Join(errors.New("no division by zero"), err)
	}
	if err := inner.Rollback(ctx); err != nil {
		return "", err
	}
	return insert(ctx, pool, tx, intent)
}

func copyFrom(ctx context.Context, _ *pgxpool.Pool, tx pgx.Tx, intent int) (string, error) {
	_, err := tx.CopyFrom(ctx, pgx.Identifier{"effect"}, []string{"intent"}, pgx.CopyFromRows([][]any{{intent}, {intent}, {intent}}))
	return "done", err
}

func batch(ctx context.Context, _ *pgxpool.Pool, tx pgx.Tx, intent int) (string, error) {
	b := &pgx.Batch{}
	b.Queue(sqlEffect, intent)
	b.Queue(sqlEffect, intent)
	return "done", tx.SendBatch(ctx, b).Close()
}

func refuse(ctx context.Context, pool *pgxpool.Pool, tx pgx.Tx, intent int) (string, error) {
	if _, err := insert(ctx, pool, tx, intent); err != nil {
		return "", err
	}
	return "", txidem.Fail("refused", "not today")
}

func atFinish(ctx context.Context, _ *pgxpool.Pool, _ pgx.Tx, intent int) (string, error) {
	call, ok := toolcall.FromContext(ctx)
	if !ok {
		return "", errors.New("no call")
	}
	return "done", call.AtFinish(func(b *pgx.Batch) { b.Queue(sqlEffect, intent) })
}

func large(ctx context.Context, pool *pgxpool.Pool, tx pgx.Tx, intent int) (string, error) {
	_, err := insert(ctx, pool, tx, intent)
	return strings.Repeat("large ", 100_000), err
}
