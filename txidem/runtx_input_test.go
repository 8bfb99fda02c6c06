package txidem

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// stubTx is a transaction that is none of Postgres'.
type stubTx struct{ pgx.Tx }

func (stubTx) Conn() *pgx.Conn { return nil }

// TestRunTx_BadTransactionsAreRefused and nothing is lost: no connection, and no call.
func TestRunTx_BadTransactionsAreRefused(t *testing.T) {
	t.Parallel()
	for _, mode := range batchModes {
		t.Run(name(mode), func(t *testing.T) {
			t.Parallel()
			f := inMode(t, mode)
			ctx := t.Context()
			begin := func() pgx.Tx {
				tx, err := f.pool.Begin(ctx)
				if err != nil {
					t.Fatal(err)
				}
				return tx
			}
			conn, err := pgx.ConnectConfig(ctx, f.pool.Config().ConnConfig)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close(ctx)
			beginOn := func() pgx.Tx {
				tx, err := conn.Begin(ctx)
				if err != nil {
					t.Fatal(err)
				}
				return tx
			}
			for _, c := range []struct {
				label string
				tx    pgx.Tx
				then  func(pgx.Tx) error
			}{
				{"nil", nil, nil},
				{"no connection", stubTx{}, nil},
				{"pool, committed", begin(), func(tx pgx.Tx) error { return tx.Commit(ctx) }},
				{"pool, rolled back", begin(), func(tx pgx.Tx) error { return tx.Rollback(ctx) }},
				{"conn, committed", beginOn(), func(tx pgx.Tx) error { return tx.Commit(ctx) }},
				{"conn, rolled back", beginOn(), func(tx pgx.Tx) error { return tx.Rollback(ctx) }},
				{"aborted", begin(), func(tx pgx.Tx) error { _ = raise(ctx, tx, "22012"); return nil }},
				{"committed by SQL", begin(), func(tx pgx.Tx) error { _, err := tx.Exec(ctx, `commit`); return err }},
			} {
				for _, disabled := range []bool{false, true} {
					if c.then != nil && !disabled {
						if err := c.then(c.tx); err != nil {
							t.Fatal(err)
						}
					}
					req := request("k")
					req.Policy = &Policy{Disabled: disabled}
					ran := false
					_, err := RunTx(ctx, c.tx, f.store, req, func(context.Context, pgx.Tx) (string, error) { ran = true; return "", nil })
					if !errors.Is(err, ErrTxNotOpen) || Retryable(err) || ran {
						t.Errorf("%s, disabled %v: %v, ran %v; want ErrTxNotOpen", c.label, disabled, err, ran)
					}
				}
				if c.tx != nil && c.tx.Conn() != nil {
					_ = c.tx.Rollback(ctx)
				}
			}
			if got, err := f.callTx(ctx, pgx.ReadCommitted, request("k"), writes("k")); err != nil || got.Replayed {
				t.Errorf("afterwards: %+v, %v", got, err)
			}
			f.clean()
		})
	}
}

// TestRunTx_R02_ConnectionThatWasCut is the database's fault, and says so.
func TestRunTx_R02_ConnectionThatWasCut(t *testing.T) {
	t.Parallel()
	f, _, _ := wired(t, nil, 4)
	ctx := t.Context()
	tx, err := f.pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	wireOf(tx).Cut()
	for range 2 { // pgx finds out the first time
		if _, err := RunTx(ctx, tx, f.store, request("k"), writes("k")); !errors.Is(err, ErrUnavailable) || !Retryable(err) {
			t.Errorf("got %v; want ErrUnavailable", err)
		}
	}
	_ = tx.Rollback(ctx)
	f.clean()
}

// TestRunTx_BadRequestsTouchNothing leaves the caller's transaction alone.
func TestRunTx_BadRequestsTouchNothing(t *testing.T) {
	t.Parallel()
	a := &asked{}
	f := setup(t, nil, func(cfg *pgxpool.Config) { cfg.ConnConfig.Tracer = a })
	ctx := t.Context()
	if err := pgx.BeginFunc(ctx, f.pool, func(tx pgx.Tx) error {
		for want, req := range map[error]Request{
			ErrScope: {Tool: "t"}, ErrTool: {Scope: "s"}, ErrKey: {Scope: "s", Tool: "t", Key: "\x00"}, ErrArgs: {Scope: "s", Tool: "t", Args: []byte(`{`)},
		} {
			if _, err := RunTx(ctx, tx, f.store, req, writes("k")); !errors.Is(err, want) {
				t.Errorf("got %v, want %v", err, want)
			}
		}
		return write(ctx, tx, "after")
	}); err != nil || a.n.Load() != 0 {
		t.Errorf("%v, %d questions", err, a.n.Load())
	}
	f.effectsAre(map[string]int{"k": 0, "after": 1})
}

// TestRunTx_R15_KillSwitchRunsBehindASavepoint and nothing else: without the table.
func TestRunTx_R15_KillSwitchRunsBehindASavepoint(t *testing.T) {
	t.Parallel()
	f := setup(t, &Policy{Disabled: true}, nil)
	f.exec(`drop table txonce.call`)
	ctx := t.Context()
	if err := pgx.BeginFunc(ctx, f.pool, func(tx pgx.Tx) error {
		for range 2 {
			if got, err := RunTx(ctx, tx, f.store, request("k"), func(ctx context.Context, tx pgx.Tx) (string, error) {
				return "done k", errors.Join(write(ctx, tx, "k"), queueAtFinish(ctx, func(b *pgx.Batch) { b.Queue(`insert into effect (intent) values ('queued')`) }))
			}); err != nil || got.Replayed || got.Value != "done k" {
				t.Errorf("got %+v, %v", got, err)
			}
		}
		for label, end := range map[string]func(context.Context, pgx.Tx) error{
			"error":     returns(errOfTheTool),
			"sql error": func(ctx context.Context, tx pgx.Tx) error { return raise(ctx, tx, "22012") },
			"swallowed": func(ctx context.Context, tx pgx.Tx) error { _ = raise(ctx, tx, "22012"); return nil },
			"panic":     func(context.Context, pgx.Tx) error { panic("oh no") },
			"queued": func(ctx context.Context, _ pgx.Tx) error {
				return queueAtFinish(ctx, func(b *pgx.Batch) { b.Queue(`select 1/(select 0)`) })
			},
		} {
			if _, err := RunTx(ctx, tx, f.store, request("k"), thenReturns("", end)); err == nil {
				t.Errorf("%s: no error", label)
			}
		}
		return write(ctx, tx, "after")
	}); err != nil {
		t.Error(err)
	}
	f.effectsAre(map[string]int{"k": 2, "queued": 2, "after": 1})
	if _, err := f.callTx(ctx, pgx.ReadCommitted, request("k"), func(ctx context.Context, tx pgx.Tx) (string, error) {
		_, err := tx.Exec(ctx, `commit`)
		return "", err
	}); !errors.Is(err, ErrHandlerEndedTx) {
		t.Errorf("raw commit: %v", err)
	}
	f.idle()
}
