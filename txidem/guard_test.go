package txidem

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/toolcall"
)

type handlerFunc = func(context.Context, pgx.Tx) (string, error)

func TestRun_R10_BadHandlersGetNamedErrorsAndNoEffect(t *testing.T) {
	t.Parallel()
	for label, c := range map[string]struct {
		handler handlerFunc
		want    error
	}{
		"panic": {func(ctx context.Context, tx pgx.Tx) (string, error) {
			_ = write(ctx, tx, "k")
			panic("oh no")
		}, ErrHandlerPanicked},
		"swallowed SQL error": {func(ctx context.Context, tx pgx.Tx) (string, error) {
			_ = write(ctx, tx, "k")
			_, _ = tx.Exec(ctx, `select 1/0`)
			return "fine", nil
		}, ErrTxAborted},
		"Commit through the wrapper": {func(ctx context.Context, tx pgx.Tx) (string, error) {
			_ = write(ctx, tx, "k")
			return "", tx.Commit(ctx)
		}, ErrTxManaged},
		"Rollback through the wrapper": {func(ctx context.Context, tx pgx.Tx) (string, error) {
			_ = write(ctx, tx, "k")
			return "", tx.Rollback(ctx)
		}, ErrTxManaged},
	} {
		t.Run(name(label), func(t *testing.T) {
			t.Parallel()
			f := setup(t, nil, nil)
			_, err := Run(t.Context(), f.store, request("k"), c.handler)
			if !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			if e, r := f.effects("k"), f.records(); e != 0 || r != 0 {
				t.Errorf("%d effects, %d records: the key is not free", e, r)
			}
			f.idle()
			if _, err := f.pool.Exec(t.Context(), `select 1`); err != nil {
				t.Errorf("the pool is broken: %v", err)
			}
		})
	}
}

func TestRun_R10_ResultThatCannotBeEncodedOrIsTooLargeFailsBeforeTheCommit(t *testing.T) {
	t.Parallel()
	f := setup(t, &Policy{MaxAnswer: 100}, nil)
	for label, c := range map[string]struct {
		answer any
		want   error
	}{
		"a channel": {make(chan int), ErrAnswer},
		"too large": {strings.Repeat("x", 101), ErrAnswerTooLarge},
	} {
		_, err := Run(t.Context(), f.store, request(label), func(ctx context.Context, tx pgx.Tx) (any, error) {
			return c.answer, write(ctx, tx, label)
		})
		if !errors.Is(err, c.want) || Retryable(err) {
			t.Errorf("%s: got %v, want %v", label, err, c.want)
		}
		if e := f.effects(label); e != 0 {
			t.Errorf("%s: %d effects", label, e)
		}
	}
	if n := f.records(); n != 0 {
		t.Errorf("%d records", n)
	}
}

func TestRun_R10_PanicKeepsItsValueAndStack(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	_, err := Run(t.Context(), f.store, request("k"), func(context.Context, pgx.Tx) (string, error) { panic("oh no") })
	var panicked *PanicError
	if !errors.As(err, &panicked) || panicked.Value != "oh no" || !strings.Contains(string(panicked.Stack), "guard_test.go") {
		t.Errorf("got %v", err)
	}
}

func TestRun_R10_GoexitRollsBackAndFreesTheKey(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = Run(t.Context(), f.store, request("k"), func(ctx context.Context, tx pgx.Tx) (string, error) {
			_ = write(ctx, tx, "k")
			runtime.Goexit()
			return "", nil
		})
	}()
	<-ended
	f.idle()
	if got, err := Run(t.Context(), f.store, request("k"), writes("k")); err != nil || got.Replayed || f.effects("k") != 1 {
		t.Errorf("afterwards: %+v, %v, %d effects", got, err, f.effects("k"))
	}
}

func TestRun_R10_RawCommitIsFoundOutAndNotRepeated(t *testing.T) {
	t.Parallel()
	for _, statements := range [][]string{
		{"commit"}, {"commit and chain"}, {"commit", "begin"}, {"rollback"}, {"rollback and chain"}, {"rollback", "begin"},
	} {
		for label, end := range map[string]func() (string, error){
			"answer": func() (string, error) { return "fine", nil },
			"error":  func() (string, error) { return "", errors.New("no") },
			"fail":   func() (string, error) { return "", Fail("no", "no") },
			"panic":  func() (string, error) { panic("no") },
		} {
			t.Run(name(strings.Join(statements, "-"), " then ", label), func(t *testing.T) {
				t.Parallel()
				escapes(t, statements, end)
			})
		}
	}
}

// escapes runs a handler that ends its transaction by raw SQL, twice.
func escapes(t *testing.T, statements []string, end func() (string, error)) {
	f := setup(t, nil, nil)
	runs := 0
	call := func() (Result[string], error) {
		return Run(t.Context(), f.store, request("k"), func(ctx context.Context, tx pgx.Tx) (string, error) {
			runs++
			if err := write(ctx, tx, "k"); err != nil {
				return "", err
			}
			for _, sql := range statements {
				if _, err := tx.Exec(ctx, sql); err != nil {
					return "", err
				}
			}
			if err := write(ctx, tx, "after"); err != nil {
				return "", err
			}
			return end()
		})
	}
	if _, err := call(); !errors.Is(err, ErrHandlerEndedTx) || Retryable(err) {
		t.Errorf("got %v, want ErrHandlerEndedTx", err)
	}
	escaped := f.effects("k")
	again, err := call()
	if failure, ok := failureIn(err); !ok || failure.Code != CodeHandlerEndedTx || !again.Replayed {
		t.Errorf("the retry got %+v, %v; want the recorded failure", again, err)
	}
	if e := f.effects("k"); runs != 1 || e != escaped {
		t.Errorf("runs = %d, effects %d then %d; want one run", runs, escaped, e)
	}
	f.idle()
}

func TestRun_R10_DeferredRollbackIsHarmless(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	if _, err := Run(t.Context(), f.store, request("k"), func(ctx context.Context, tx pgx.Tx) (string, error) {
		defer func() { _ = tx.Rollback(ctx) }()
		return "", write(ctx, tx, "k")
	}); err != nil || f.effects("k") != 1 {
		t.Errorf("%v, %d effects", err, f.effects("k"))
	}
}

func TestRun_R10_ErrorOfAnotherCallIsNoEscape(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	_, err := Run(t.Context(), f.store, request("k"), func(context.Context, pgx.Tx) (string, error) { return "", ErrHandlerEndedTx })
	if !errors.Is(err, ErrHandlerEndedTx) || f.records() != 0 {
		t.Errorf("%v, %d records; want the error and a free key", err, f.records())
	}
}

func TestRun_R10_NestedCallIsRefused(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	_, err := Run(t.Context(), f.store, request("outer"), func(ctx context.Context, _ pgx.Tx) (string, error) {
		_, err := Run(ctx, f.store, request("inner"), writes("k"))
		return "", err
	})
	if !errors.Is(err, ErrNested) || Retryable(err) {
		t.Errorf("got %v, want ErrNested", err)
	}
	if n := f.records(); n != 0 {
		t.Errorf("%d records", n)
	}
}

func TestRun_R10_KeptTxIsOfNoUse(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	var kept pgx.Tx
	if _, err := Run(t.Context(), f.store, request("k"), func(ctx context.Context, tx pgx.Tx) (string, error) {
		kept = tx
		return "", write(ctx, tx, "k")
	}); err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	_, execErr := kept.Exec(ctx, `insert into effect (intent) values ('late')`)
	rows, queryErr := kept.Query(ctx, `select 1`)
	rows.Close()
	_, beginErr := kept.Begin(ctx)
	_, copyErr := kept.CopyFrom(ctx, pgx.Identifier{"effect"}, []string{"intent"}, pgx.CopyFromRows([][]any{{"late"}}))
	_, prepareErr := kept.Prepare(ctx, "p", `select 1`)
	b := &pgx.Batch{}
	b.Queue(`insert into effect (intent) values ('late')`)
	for label, err := range map[string]error{
		"Exec": execErr, "Query": queryErr, "Query, rows": rows.Err(), "QueryRow": kept.QueryRow(ctx, `select 1`).Scan(new(int)),
		"Begin": beginErr, "CopyFrom": copyErr, "Prepare": prepareErr, "SendBatch": kept.SendBatch(ctx, b).Close(),
	} {
		if !errors.Is(err, ErrTxOver) {
			t.Errorf("%s: got %v, want ErrTxOver", label, err)
		}
	}
	if n := f.effects("late"); n != 0 {
		t.Errorf("%d late effects", n)
	}
}

func TestRun_R10_OpenRowsEndTheCallAndNotThePool(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, func(cfg *pgxpool.Config) { cfg.MaxConns = 2 })
	_, err := Run(t.Context(), f.store, request("k"), func(ctx context.Context, tx pgx.Tx) (string, error) {
		_ = write(ctx, tx, "k")
		_, err := tx.Query(ctx, `select generate_series(1, 100000)`) // never read, never closed
		return "fine", err
	})
	if err == nil || errors.Is(err, ErrOutcomeUnknown) {
		t.Errorf("got %v, want an error that is sure of the outcome", err)
	}
	f.idle()
	if e := f.effects("k"); e != 0 {
		t.Errorf("%d effects", e)
	}
}

func TestRun_SavepointsWork(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	if _, err := Run(t.Context(), f.store, request("k"), func(ctx context.Context, tx pgx.Tx) (string, error) {
		err := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
			_ = write(ctx, tx, "undone")
			return errors.New("undo it")
		})
		if err == nil {
			return "", errors.New("the savepoint committed")
		}
		return "", pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error { return write(ctx, tx, "kept") })
	}); err != nil {
		t.Fatal(err)
	}
	if u, k := f.effects("undone"), f.effects("kept"); u != 0 || k != 1 {
		t.Errorf("undone %d, kept %d; want 0 and 1", u, k)
	}
}

func TestRun_R09_CancelledWhileTheHandlerRuns(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := Run(ctx, f.store, request("sql"), func(ctx context.Context, tx pgx.Tx) (string, error) {
		_ = write(ctx, tx, "sql")
		cancel()
		return "", write(ctx, tx, "sql")
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled in front of a statement: got %v", err)
	}
	if e, r := f.effects("sql"), f.records(); e != 0 || r != 0 {
		t.Errorf("cancelled in front of a statement: %d effects, %d records", e, r)
	}

	ctx, cancel = context.WithCancel(t.Context())
	got, err := Run(ctx, f.store, request("end"), func(ctx context.Context, tx pgx.Tx) (string, error) {
		defer cancel() // the caller leaves when the work is done
		return "done", write(ctx, tx, "end")
	})
	if err != nil || got.Value != "done" || f.effects("end") != 1 {
		t.Errorf("cancelled behind the handler: %+v, %v, %d effects; want it committed", got, err, f.effects("end"))
	}
	f.idle()
}

func TestRun_R11_SerializationFailureRunsTheHandlerAgain(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	fails := func(times int32) (handlerFunc, *atomic.Int32) {
		runs := new(atomic.Int32)
		return func(ctx context.Context, tx pgx.Tx) (string, error) {
			if err := write(ctx, tx, "k"); err != nil {
				return "", err
			}
			if runs.Add(1) <= times {
				_, err := tx.Exec(ctx, `do $$ begin raise sqlstate '40001'; end $$`)
				return "", err
			}
			return "done", nil
		}, runs
	}
	handler, runs := fails(2)
	if got, err := Run(t.Context(), f.store, request("k"), handler); err != nil || got.Value != "done" || runs.Load() != 3 || f.effects("k") != 1 {
		t.Errorf("two failures: %+v, %v, %d runs, %d effects", got, err, runs.Load(), f.effects("k"))
	}
	handler, runs = fails(3)
	_, err := Run(t.Context(), f.store, request("k2"), handler)
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) || pgErr.Code != "40001" || runs.Load() != 3 || !Retryable(err) {
		t.Errorf("three failures: %v, %d runs", err, runs.Load())
	}
	f.idle()
}

func TestRun_R11_UsersOwnUniqueViolationIsTheUsers(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	f.exec(`create table once (a int, constraint once_key unique (a) deferrable initially deferred)`)
	f.exec(`insert into once values (1)`)
	for label, sql := range map[string]string{
		"at once":  `set constraints all immediate; insert into once values (1)`,
		"deferred": `insert into once values (1)`,
	} {
		_, err := Run(t.Context(), f.store, request(label), func(ctx context.Context, tx pgx.Tx) (string, error) {
			_, err := tx.Exec(ctx, sql)
			return "fine", err
		})
		var pgErr *pgconn.PgError
		if !errors.As(err, &pgErr) || pgErr.ConstraintName != "once_key" || errors.Is(err, ErrOutcomeUnknown) {
			t.Errorf("%s: got %v, want the violation", label, err)
		}
	}
	f.idle()
}

func TestRun_R11_LostRaceOnOurKeyIsAReplay(t *testing.T) {
	t.Parallel()
	for _, level := range isolationLevels {
		t.Run(name(level), func(t *testing.T) {
			t.Parallel()
			f := setup(t, &Policy{Isolation: level}, nil)
			runs := 0
			got, err := Run(t.Context(), f.store, request("k"), func(ctx context.Context, tx pgx.Tx) (string, error) {
				runs++
				if runs == 1 { // a rival that does not hold the lock, as behind a failover
					id, _ := f.store.identify(request("k"))
					f.exec(`insert into txonce.call select $1, 'alice', 'issue_refund', 'x:k', $2, 1, null, 'succeeded', gen_random_uuid(), '"rival"', now(), now(), now() + interval '1 h'`,
						uuidOf(id), id.fingerprint[:])
				}
				return "mine", write(ctx, tx, "k")
			})
			if err != nil || !got.Replayed || got.Value != "rival" || runs != 1 || f.effects("k") != 0 {
				t.Errorf("got %+v, %v, %d runs, %d effects; want the rival's answer", got, err, runs, f.effects("k"))
			}
			f.idle()
		})
	}
}

func TestRun_R20_IdleHandlerLosesItsClaim(t *testing.T) {
	t.Parallel()
	f := setup(t, &Policy{IdleInTx: 50 * time.Millisecond}, nil)
	gone := func(ctx context.Context) {
		eventually(t, "the server ended the transaction", func() bool {
			var n int
			err := f.pool.QueryRow(ctx, `select count(*) from pg_locks where locktype = 'advisory' and database = (select oid from pg_database where datname = current_database())`).Scan(&n)
			return err == nil && n == 0
		})
	}
	for label, handler := range map[string]handlerFunc{
		"more SQL": func(ctx context.Context, tx pgx.Tx) (string, error) { gone(ctx); return "", write(ctx, tx, "k") },
		"no more":  func(ctx context.Context, _ pgx.Tx) (string, error) { gone(ctx); return "fine", nil },
	} {
		_, err := Run(t.Context(), f.store, request(label), handler)
		if !errors.Is(err, ErrIdleTooLong) || errors.Is(err, ErrOutcomeUnknown) {
			t.Errorf("%s: got %v, want ErrIdleTooLong", label, err)
		}
	}
	if n := f.records(); n != 0 {
		t.Errorf("%d records", n)
	}
	f.idle()
}

func TestRun_R20_SettingsEndWithTheCall(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, func(cfg *pgxpool.Config) { cfg.MaxConns = 1 })
	settings := func(q interface {
		QueryRow(context.Context, string, ...any) pgx.Row
	},
	) (attempt string, s [2]string) {
		t.Helper()
		err := q.QueryRow(t.Context(), `select coalesce(current_setting('txonce.attempt', true), ''),
			current_setting('idle_in_transaction_session_timeout'), current_setting('client_connection_check_interval')`).Scan(&attempt, &s[0], &s[1])
		if err != nil {
			t.Fatal(err)
		}
		return attempt, s
	}
	_, before := settings(f.pool)
	if _, err := Run(t.Context(), f.store, request("k"), func(_ context.Context, tx pgx.Tx) (string, error) {
		if attempt, s := settings(tx); len(attempt) != 36 || s != [2]string{"30s", "1s"} {
			t.Errorf("inside: %q, %q", attempt, s)
		}
		return "", nil
	}); err != nil {
		t.Fatal(err)
	}
	if attempt, s := settings(f.pool); attempt != "" || s != before {
		t.Errorf("the settings outlive the call: %q, %q", attempt, s)
	}
}

func TestRun_HandlerFindsTheCallAndAtFinishTravelsWithTheRecord(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	var late *toolcall.Call
	call := func(key string, fail bool) error {
		_, err := Run(t.Context(), f.store, request(key), func(ctx context.Context, tx pgx.Tx) (string, error) {
			c, ok := toolcall.FromContext(ctx)
			if !ok || c.Scope != "alice" || c.Tool != "issue_refund" || c.Key != "x:"+key || c.ID != toolcall.NewID(c.Scope, c.Tool, c.Key) {
				t.Errorf("the handler's call is %+v", c)
			}
			late = c
			if err := c.AtFinish(func(b *pgx.Batch) { b.Queue(`insert into effect (intent) values ($1)`, key) }); err != nil {
				t.Error(err)
			}
			if fail {
				return "", errors.New("no")
			}
			return "", nil
		})
		return err
	}
	if err := call("good", false); err != nil || f.effects("good") != 1 {
		t.Errorf("%v, %d effects; want 1", err, f.effects("good"))
	}
	if err := late.AtFinish(func(*pgx.Batch) {}); !errors.Is(err, toolcall.ErrCallOver) {
		t.Errorf("AtFinish behind the call: %v", err)
	}
	if err := call("bad", true); err == nil || f.effects("bad") != 0 {
		t.Errorf("%v, %d effects; want an error and none", err, f.effects("bad"))
	}
	_, err := Run(t.Context(), f.store, request("broken"), func(ctx context.Context, tx pgx.Tx) (string, error) {
		c, _ := toolcall.FromContext(ctx)
		return "", c.AtFinish(func(b *pgx.Batch) { b.Queue(`insert into nowhere values (1)`) })
	})
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) || pgErr.Code != "42P01" || errors.Is(err, ErrNotMigrated) || errors.Is(err, ErrOutcomeUnknown) {
		t.Errorf("a queued statement that fails: %v", err)
	}
	f.idle()
}

// TestRun_R10_CommitHiddenByAnErrorIsFoundOut sends COMMIT where its tag is not seen, and an error behind it: the transaction is
// aborted then, and cannot be asked whose it is.
func TestRun_R10_CommitHiddenByAnErrorIsFoundOut(t *testing.T) {
	t.Parallel()
	commit := map[string]func(context.Context, pgx.Tx) error{
		"batch": func(ctx context.Context, tx pgx.Tx) error {
			b := &pgx.Batch{}
			b.Queue(`select 1`)
			b.Queue(`/* at last */ COMMIT and chain`)
			return tx.SendBatch(ctx, b).Close()
		},
		"query": func(ctx context.Context, tx pgx.Tx) error {
			rows, err := tx.Query(ctx, `end and chain`)
			if err == nil {
				rows.Close()
			}
			return err
		},
		"row": func(ctx context.Context, tx pgx.Tx) error {
			_ = tx.QueryRow(ctx, `commit and chain`).Scan()
			return nil
		},
		"savepoint": func(ctx context.Context, tx pgx.Tx) error {
			inner, err := tx.Begin(ctx)
			if err != nil {
				return err
			}
			b := &pgx.Batch{}
			b.Queue(`commit and chain`)
			return inner.SendBatch(ctx, b).Close()
		},
	}
	f := setup(t, nil, nil)
	for label, send := range commit {
		for _, end := range []error{nil, errOfTheTool, Fail("no", "no")} {
			intent := name(label, end)
			handler := func(ctx context.Context, tx pgx.Tx) (string, error) {
				if err := errors.Join(write(ctx, tx, intent), send(ctx, tx)); err != nil {
					return "", err
				}
				_, _ = tx.Exec(ctx, `select 1/0`)
				return "", end
			}
			if _, err := Run(t.Context(), f.store, request(intent), handler); !errors.Is(err, ErrHandlerEndedTx) {
				t.Errorf("%s: got %v, want ErrHandlerEndedTx", intent, err)
			}
			_, err := Run(t.Context(), f.store, request(intent), handler)
			if failure, failed := failureIn(err); !failed || failure.Code != CodeHandlerEndedTx {
				t.Errorf("%s: a retry got %v, want the recorded failure", intent, err)
			}
			if n := f.effects(intent); n != 1 {
				t.Errorf("%s: %d effects, want the one that escaped", intent, n)
			}
		}
	}
	f.idle()
}
