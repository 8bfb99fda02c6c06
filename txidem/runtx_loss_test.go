package txidem

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/internal/dbtest"
)

// aLoss is a way in which a call in a caller's transaction ends without an effect of its own.
type aLoss struct {
	before  func(f *fixture) // what others did
	req     func() Request
	handler func(context.Context, pgx.Tx) (any, error)
	is      func(err error) bool
	records int // when the caller has committed
}

func isError(target error) func(error) bool {
	return func(err error) bool { return errors.Is(err, target) }
}

func isFailure(err error) bool { _, ok := failureIn(err); return ok }

func isCode(code string) func(error) bool {
	return func(err error) bool { return hasCode(err, code) && !errors.Is(err, ErrUnavailable) }
}

// thenReturns writes and then ends.
func thenReturns(answer any, end func(context.Context, pgx.Tx) error) func(context.Context, pgx.Tx) (any, error) {
	return func(ctx context.Context, tx pgx.Tx) (any, error) {
		if err := write(ctx, tx, "k"); err != nil {
			return nil, err
		}
		return answer, end(ctx, tx)
	}
}

func noError(context.Context, pgx.Tx) error { return nil }

func returns(err error) func(context.Context, pgx.Tx) error {
	return func(context.Context, pgx.Tx) error { return err }
}

var errOfTheTool = errors.New("the tool has its reasons")

func recordedBefore(f *fixture) {
	if _, err := Run(f.t.Context(), f.store, request("k"), func(context.Context, pgx.Tx) (string, error) { return "recorded", nil }); err != nil {
		f.t.Fatal(err)
	}
}

func expiredBefore(f *fixture) {
	recordedBefore(f)
	f.exec(`update txonce.call set expires_at = clock_timestamp(), tombstone = true`)
}

func onceBefore(f *fixture) {
	f.exec(`create table once (a int primary key)`)
	f.exec(`insert into once values (1)`)
}

func requestK() Request { return request("k") }

var lossesTx = map[string]aLoss{
	"replay": {before: recordedBefore, handler: thenReturns("new", noError), is: func(err error) bool { return err == nil }, records: 1},
	"replay of a failure": {before: func(f *fixture) {
		_, _ = Run(f.t.Context(), f.store, request("k"), func(context.Context, pgx.Tx) (string, error) { return "", Fail("no", "no") })
	}, handler: thenReturns("new", noError), is: isFailure, records: 1},
	"mismatch": {before: recordedBefore, req: func() Request {
		req := request("k")
		req.Args = []byte(`{"order":"A-1","cents":1051}`)
		return req
	}, handler: thenReturns("new", noError), is: func(err error) bool {
		var reused *KeyReusedError
		return errors.As(err, &reused) && len(reused.Paths) == 1 && reused.Paths[0] == "/cents"
	}, records: 1},
	"expired": {before: expiredBefore, req: func() Request {
		req := request("k")
		req.Policy = &Policy{OnExpired: Refuse}
		return req
	}, handler: thenReturns("new", noError), is: isError(ErrExpired), records: 1},
	"not allowed": {before: func(f *fixture) {
		recordedBefore(f)
		f.store.authorize = func(context.Context, Recorded) error { return errOfTheTool }
	}, handler: thenReturns("new", noError), is: isError(ErrNotAllowed), records: 1},
	"failure":               {handler: thenReturns("", returns(Fail("no", "no"))), is: isFailure, records: 1},
	"failure after aborted": {handler: thenReturns("", func(ctx context.Context, tx pgx.Tx) error { _ = raise(ctx, tx, "22012"); return Fail("no", "no") }), is: isFailure, records: 1},
	"plain error":           {handler: thenReturns("", returns(errOfTheTool)), is: isError(errOfTheTool)},
	"panic":                 {handler: thenReturns("", func(context.Context, pgx.Tx) error { panic("oh no") }), is: isError(ErrHandlerPanicked)},
	"sql error":             {handler: thenReturns("", func(ctx context.Context, tx pgx.Tx) error { return raise(ctx, tx, "22012") }), is: isCode("22012")},
	"swallowed sql error":   {handler: thenReturns("", func(ctx context.Context, tx pgx.Tx) error { _ = raise(ctx, tx, "22012"); return nil }), is: isError(ErrTxAborted)},
	"panic after sql error": {handler: thenReturns("", func(ctx context.Context, tx pgx.Tx) error { panic(raise(ctx, tx, "22012")) }), is: isError(ErrHandlerPanicked)},
	"too large":             {handler: thenReturns(strings.Repeat("x", 2000), noError), is: isError(ErrAnswerTooLarge)},
	"failure too large":     {handler: thenReturns("", returns(Fail("no", strings.Repeat("x", 2000)))), is: isError(ErrAnswerTooLarge)},
	"no JSON":               {handler: thenReturns(make(chan int), noError), is: isError(ErrAnswer)},
	"unique violation": {before: onceBefore, handler: thenReturns("", func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `insert into once values (1)`)
		return err
	}), is: isCode(codeUniqueViolation)},
	"queued unique violation": {before: onceBefore, handler: thenReturns("", func(ctx context.Context, _ pgx.Tx) error {
		return queueAtFinish(ctx, func(b *pgx.Batch) { b.Queue(`insert into once values (1)`) })
	}), is: isCode(codeUniqueViolation)},
	"queued nonsense": {handler: thenReturns("", func(ctx context.Context, _ pgx.Tx) error {
		return queueAtFinish(ctx, func(b *pgx.Batch) { b.Queue(`insort into once values (1)`) })
	}), is: isCode("42601")},
	"savepoint left open": {handler: thenReturns("", func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Begin(ctx)
		return errors.Join(err, errOfTheTool)
	}), is: isError(errOfTheTool)},
	"no insert": {
		before:  func(f *fixture) { f.exec(`revoke insert on txonce.call from current_user`) },
		handler: thenReturns("", noError), is: isError(ErrPermission),
	},
	"no select": {
		before:  func(f *fixture) { f.exec(`revoke select on txonce.call from current_user`) },
		handler: thenReturns("", noError), is: isError(ErrPermission),
	},
	"context ended": {handler: func(context.Context, pgx.Tx) (any, error) { return nil, context.Canceled }, is: isError(context.Canceled)},
}

// seen is what a caller's transaction has of the library: nothing, after a loss.
func seen(ctx context.Context, tx pgx.Tx) (attempt, idle string, err error) {
	err = tx.QueryRow(ctx, `select coalesce(current_setting('txonce.attempt', true), ''), current_setting('idle_in_transaction_session_timeout')`).Scan(&attempt, &idle)
	return attempt, idle, err
}

// TestRunTx_R01_R20_CallersTransactionStaysUsable has each kind of loss, at READ COMMITTED in each mode of pgx and above it,
// in a transaction of a caller that writes in front of it and behind it, and commits.
func TestRunTx_R01_R20_CallersTransactionStaysUsable(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		level pgx.TxIsoLevel
		mode  pgx.QueryExecMode
	}{
		{pgx.ReadCommitted, pgx.QueryExecModeCacheStatement},
		{pgx.ReadCommitted, pgx.QueryExecModeExec},
		{pgx.ReadCommitted, pgx.QueryExecModeSimpleProtocol},
		{pgx.Serializable, pgx.QueryExecModeCacheStatement},
	} {
		t.Run(name(c.level, "/", c.mode), func(t *testing.T) {
			t.Parallel()
			dbtest.SkipPreparing(t, c.mode)
			f := setup(t, &Policy{MaxAnswer: 1000}, func(cfg *pgxpool.Config) { cfg.ConnConfig.DefaultQueryExecMode = c.mode })
			for label, loss := range lossesTx {
				t.Run(name(label), func(t *testing.T) {
					(&fixture{t: t, pool: f.pool, store: f.store}).loses(c.level, loss)
				})
				f.store.authorize = nil
				f.exec(`drop table if exists once`)
				f.exec(`truncate txonce.call, effect`)
				f.exec(`grant select, insert on txonce.call to current_user`)
			}
		})
	}
}

func (f *fixture) loses(level pgx.TxIsoLevel, loss aLoss) {
	f.t.Helper()
	ctx, t := f.t.Context(), f.t
	if loss.before != nil {
		loss.before(f)
	}
	if loss.req == nil {
		loss.req = requestK
	}
	err := pgx.BeginTxFunc(ctx, f.pool, pgx.TxOptions{IsoLevel: level}, func(tx pgx.Tx) error {
		if err := write(ctx, tx, "before"); err != nil {
			return err
		}
		_, idle, err := seen(ctx, tx)
		if err != nil {
			return err
		}
		if got, err := RunTx(ctx, tx, f.store, loss.req(), loss.handler); !loss.is(err) || err == nil && !got.Replayed {
			t.Errorf("got %+v, %v", got, err)
		}
		if loss.before == nil && loss.records == 1 { // a failure is recorded: its claim must not outlive a client that vanishes now
			idle = "30s"
		}
		attempt, after, err := seen(ctx, tx)
		if err != nil || attempt != "" || after != idle {
			t.Errorf("the transaction is left with attempt %q, idle %q (was %q), %v", attempt, after, idle, err)
		}
		return write(ctx, tx, "after")
	})
	if err != nil {
		t.Errorf("the caller's transaction: %v", err)
	}
	f.effectsAre(map[string]int{"before": 1, "after": 1, "k": 0})
	if loss.is(ErrPermission) || loss.is(&InProgressError{RetryAfter: soonestRetry}) {
		return
	}
	if n := f.records(); n != loss.records {
		t.Errorf("%d records, want %d", n, loss.records)
	}
	f.clean()
}

func TestRunTx_R01_CallersTransactionStaysUsableBesideARunningCall(t *testing.T) {
	t.Parallel()
	for _, level := range isolationLevels {
		t.Run(name(level), func(t *testing.T) {
			t.Parallel()
			f := setup(t, nil, nil)
			running := f.hold(request("k"), "k")
			f.loses(level, aLoss{handler: thenReturns("", noError), is: func(err error) bool {
				var busy *InProgressError
				return errors.As(err, &busy) && busy.RetryAfter >= soonestRetry && Retryable(err)
			}, records: 0})
			if err := running.end(nil); err != nil || f.effects("k") != 1 {
				t.Errorf("the running call: %v, %d effects", err, f.effects("k"))
			}
		})
	}
}

func TestRunTx_R10_GoexitLeavesTheCallersTransactionUsable(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	ctx := t.Context()
	tx, err := f.pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = RunTx(ctx, tx, f.store, request("k"), func(ctx context.Context, tx pgx.Tx) (string, error) {
			_ = write(ctx, tx, "k")
			runtime.Goexit()
			return "", nil
		})
	}()
	<-ended
	if _, err := RunTx(ctx, tx, f.store, request("k2"), writes("k2")); err != nil {
		t.Error(err)
	}
	if err := errors.Join(write(ctx, tx, "after"), tx.Commit(ctx)); err != nil {
		t.Error(err)
	}
	f.effectsAre(map[string]int{"k": 0, "k2": 1, "after": 1})
	f.clean()
}

// TestRunTx_R11_DeferredConstraintFailsTheCallersCommit leaves nothing: the record goes with the effect.
func TestRunTx_R11_DeferredConstraintFailsTheCallersCommit(t *testing.T) {
	t.Parallel()
	for _, level := range isolationLevels {
		f := setup(t, nil, nil)
		f.exec(`create table once (a int, constraint once_key unique (a) deferrable initially deferred)`)
		f.exec(`insert into once values (1)`)
		value := 1
		handler := func(ctx context.Context, tx pgx.Tx) (string, error) {
			_, err := tx.Exec(ctx, `insert into once values ($1)`, value)
			return "done", err
		}
		_, err := f.callTx(t.Context(), level, request("k"), handler)
		var pgErr *pgconn.PgError
		if !errors.As(err, &pgErr) || pgErr.ConstraintName != "once_key" || f.records() != 0 {
			t.Errorf("%s: %v, %d records", level, err, f.records())
		}
		value = 2
		if got, err := f.callTx(t.Context(), level, request("k"), handler); err != nil || got.Replayed || f.records() != 1 {
			t.Errorf("%s, repeated: %+v, %v", level, got, err)
		}
		f.clean()
	}
}

// TestRunTx_R01_StatementOfTurnOneThatFails leaves the savepoint: behind it the transaction is as it was.
func TestRunTx_R01_StatementOfTurnOneThatFails(t *testing.T) {
	t.Parallel()
	dbtest.SkipPooled(t, "it takes a prepared statement from the session")
	for _, statement := range []string{"%pg_try_advisory_xact_lock%", "%from %call%transaction_isolation%"} {
		f := setup(t, nil, func(cfg *pgxpool.Config) {
			cfg.MaxConns = 1
			cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheStatement
		})
		ctx := t.Context()
		for range 2 { // has them prepared, and learns of the platform
			if _, err := f.callTx(ctx, pgx.ReadCommitted, request("a"), writes("a")); err != nil {
				t.Fatal(err)
			}
		}
		err := pgx.BeginFunc(ctx, f.pool, func(tx pgx.Tx) error {
			var prepared string
			if err := tx.QueryRow(ctx, `select name from pg_prepared_statements where statement like $1 and statement not like '%pg_prepared%' order by prepare_time desc limit 1`, statement).Scan(&prepared); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, `deallocate `+pgx.Identifier{prepared}.Sanitize()); err != nil { // as a pooler does
				return err
			}
			if _, err := RunTx(ctx, tx, f.store, request("b"), writes("b")); !errors.Is(err, ErrUnavailable) || !Retryable(err) {
				t.Errorf("%s: got %v", statement, err)
			}
			return write(ctx, tx, "after")
		})
		if err != nil {
			t.Errorf("%s: the caller's transaction: %v", statement, err)
		}
		f.effectsAre(map[string]int{"a": 1, "b": 0, "after": 1})
	}
}
