package txidem

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/internal/dbtest"
)

// TestRunTx_R10_RawCommitIsFoundOutAndNotRepeated has handlers that end the caller's transaction by SQL, at each level and
// with each end of the handler.
func TestRunTx_R10_RawCommitIsFoundOutAndNotRepeated(t *testing.T) {
	t.Parallel()
	for _, level := range isolationLevels {
		for _, statements := range [][]string{
			{"commit"}, {"rollback"}, {"commit and chain"}, {"rollback and chain"}, {"commit", "begin"}, {"commit", "begin", "savepoint txonce"}, {"rollback and chain", "savepoint txonce"},
		} {
			t.Run(name(level, "/", strings.Join(statements, "-")), func(t *testing.T) {
				t.Parallel()
				f := setup(t, nil, nil)
				for label, end := range map[string]func() (string, error){
					"answer": func() (string, error) { return "fine", nil },
					"error":  func() (string, error) { return "", errOfTheTool },
					"fail":   func() (string, error) { return "", Fail("no", "no") },
					"panic":  func() (string, error) { panic("no") },
				} {
					f.escapesTx(level, statements, label, end)
				}
				f.clean()
			})
		}
	}
}

// escapesTx makes such a call twice.
func (f *fixture) escapesTx(level pgx.TxIsoLevel, statements []string, key string, end func() (string, error)) {
	f.t.Helper()
	runs := 0
	call := func() (Result[string], error) {
		return f.callTx(f.t.Context(), level, request(key), func(ctx context.Context, tx pgx.Tx) (string, error) {
			runs++
			if err := write(ctx, tx, key); err != nil {
				return "", err
			}
			for _, sql := range statements {
				if _, err := tx.Exec(ctx, sql); err != nil {
					return "", err
				}
			}
			return end()
		})
	}
	if _, err := call(); !errors.Is(err, ErrHandlerEndedTx) || Retryable(err) {
		f.t.Errorf("%s: got %v, want ErrHandlerEndedTx", key, err)
	}
	escaped := 0
	if strings.HasPrefix(statements[0], "commit") {
		escaped = 1
	}
	again, err := call()
	if failure, ok := failureIn(err); !ok || failure.Code != CodeHandlerEndedTx || !again.Replayed || runs != 1 || f.effects(key) != escaped {
		f.t.Errorf("%s, again: %+v, %v, %d runs, %d effects; want the failure, one run, %d", key, again, err, runs, f.effects(key), escaped)
	}
}

// TestRunTx_R10_EscapeHiddenByWhatFollowsIsFoundOut has the end of the transaction in a batch, whose tags nobody reads, and
// something behind it.
func TestRunTx_R10_EscapeHiddenByWhatFollowsIsFoundOut(t *testing.T) {
	t.Parallel()
	for label, rest := range map[string]func(ctx context.Context, tx pgx.Tx) error{
		"answer":            noError,
		"error":             returns(errOfTheTool),
		"failure":           returns(Fail("no", "no")),
		"sql error":         func(ctx context.Context, tx pgx.Tx) error { return raise(ctx, tx, "22012") },
		"swallowed error":   func(ctx context.Context, tx pgx.Tx) error { _ = raise(ctx, tx, "22012"); return nil },
		"failure, aborted":  func(ctx context.Context, tx pgx.Tx) error { _ = raise(ctx, tx, "22012"); return Fail("no", "no") },
		"serialization":     func(ctx context.Context, tx pgx.Tx) error { return raise(ctx, tx, "40001") },
		"a savepoint again": func(ctx context.Context, tx pgx.Tx) error { _, err := tx.Exec(ctx, `savepoint txonce`); return err },
		"connection lost":   func(ctx context.Context, tx pgx.Tx) error { _ = tx.Conn().Close(ctx); return nil },
	} {
		for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.Serializable} {
			t.Run(name(level, "/", label), func(t *testing.T) {
				t.Parallel()
				f := setup(t, nil, nil)
				runs := 0
				for range 2 {
					_, err := f.callTx(t.Context(), level, request("k"), func(ctx context.Context, tx pgx.Tx) (string, error) {
						runs++
						if err := write(ctx, tx, "k"); err != nil {
							return "", err
						}
						b := &pgx.Batch{}
						b.Queue(`commit and chain`)
						if err := tx.SendBatch(ctx, b).Close(); err != nil {
							return "", err
						}
						return "", rest(ctx, tx)
					})
					if label == "connection lost" { // nobody can know, and nobody is told that nothing happened
						return
					}
					if failure, ok := failureIn(err); !ok || failure.Code != CodeHandlerEndedTx {
						t.Errorf("got %v", err)
					}
				}
				if runs != 1 || f.effects("k") != 1 {
					t.Errorf("%d runs, %d effects; want one of each", runs, f.effects("k"))
				}
				f.clean()
			})
		}
	}
}

// TestRunTx_R10_QueuedEndOfTheTransactionIsFoundOut has it in what travels with the record.
func TestRunTx_R10_QueuedEndOfTheTransactionIsFoundOut(t *testing.T) {
	t.Parallel()
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		for end, effects := range map[string]int{"commit": 1, "commit and chain": 1, "rollback": 0, "rollback to savepoint txonce": 0} {
			if dbtest.Pooled() && mode == pgx.QueryExecModeCacheStatement {
				continue // it needs a session of its own, as pgx says
			}
			f := setup(t, nil, func(cfg *pgxpool.Config) { cfg.ConnConfig.DefaultQueryExecMode = mode })
			for range 2 {
				_, err := f.callTx(t.Context(), pgx.ReadCommitted, request("k"), func(ctx context.Context, tx pgx.Tx) (string, error) {
					return "", errors.Join(write(ctx, tx, "k"), queueAtFinish(ctx, func(b *pgx.Batch) { b.Queue(end) }))
				})
				if failure, ok := failureIn(err); !ok || failure.Code != CodeHandlerEndedTx {
					t.Errorf("%s, %s: got %v", mode, end, err)
				}
			}
			f.effectsAre(map[string]int{"k": effects})
			f.clean()
		}
	}
}

// TestRunTx_R10_CommitAndRollbackAreRefused is about pgx's own methods, in the handler and behind it.
func TestRunTx_R10_CommitAndRollbackAreRefusedAndAKeptTxIsOfNoUse(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	ctx := t.Context()
	var kept, savepoint pgx.Tx
	err := pgx.BeginFunc(ctx, f.pool, func(tx pgx.Tx) error {
		if _, err := RunTx(ctx, tx, f.store, request("k"), func(ctx context.Context, tx pgx.Tx) (_ string, err error) {
			if !errors.Is(tx.Commit(ctx), ErrTxManaged) || !errors.Is(tx.Rollback(ctx), ErrTxManaged) {
				t.Error("the handler may end the caller's transaction")
			}
			kept = tx
			if savepoint, err = tx.Begin(ctx); err != nil {
				return "", err
			}
			return "", write(ctx, savepoint, "k")
		}); err != nil {
			return err
		}
		for _, tx := range []pgx.Tx{kept, savepoint} {
			if err := write(ctx, tx, "late"); !errors.Is(err, ErrTxOver) {
				t.Errorf("a kept tx: %v", err)
			}
		}
		if err := savepoint.Rollback(ctx); !errors.Is(err, ErrTxOver) {
			t.Errorf("a kept savepoint: %v", err)
		}
		return write(ctx, tx, "after")
	})
	if err != nil {
		t.Error(err)
	}
	f.effectsAre(map[string]int{"k": 1, "late": 0, "after": 1})
	f.clean()
}
