package txidem

import (
	"context"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/internal/dbtest"
	"github.com/txonce/txonce/toolcall"
)

// queueAtFinish queues on the running call.
func queueAtFinish(ctx context.Context, queue func(*pgx.Batch)) error {
	c, _ := toolcall.FromContext(ctx)
	return c.AtFinish(queue)
}

func TestRun_I5_OnlyTheAnswerOfCommitDecides(t *testing.T) {
	t.Parallel()
	for label, callback := range map[string]func(pgconn.CommandTag) error{
		"error":        func(pgconn.CommandTag) error { return errors.New("stock ran out") },
		"named error":  func(pgconn.CommandTag) error { return ErrHandlerEndedTx },
		"server error": func(pgconn.CommandTag) error { return &pgconn.PgError{Code: "23505"} },
		"panic":        func(pgconn.CommandTag) error { panic("stock ran out") },
	} {
		for _, disabled := range []bool{false, true} {
			f := setup(t, &Policy{Disabled: disabled}, nil)
			got, err := Run(t.Context(), f.store, request("k"), func(ctx context.Context, tx pgx.Tx) (string, error) {
				return "done", errors.Join(write(ctx, tx, "k"), queueAtFinish(ctx, func(b *pgx.Batch) {
					b.Queue(`update effect set intent = 'x' where false`).Exec(callback)
				}))
			})
			if err != nil || got.Value != "done" || f.effects("k") != 1 {
				t.Errorf("%s, disabled %v: %+v, %v, %d effects; want what was committed to be told", label, disabled, got, err, f.effects("k"))
			}
			f.idle()
		}
	}
}

func TestRun_R17_SettingsOfTheSessionDoNotCount(t *testing.T) {
	t.Parallel()
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		t.Run(name(mode), func(t *testing.T) {
			t.Parallel()
			dbtest.SkipPreparing(t, mode)
			url := dbtest.URL(t)
			defaults(t, url, map[string]string{
				"datestyle": "SQL, DMY", "bytea_output": "escape", "timezone": "Asia/Kathmandu",
				"default_transaction_isolation": "serializable", "default_transaction_read_only": "off",
			})
			f := setupAt(t, url, nil, func(cfg *pgxpool.Config) { cfg.ConnConfig.DefaultQueryExecMode = mode })
			var output string
			if err := f.pool.QueryRow(t.Context(), `select current_setting('bytea_output')`).Scan(&output); err != nil || output != "escape" {
				t.Fatalf("the settings are not there: bytea_output is %q, %v", output, err)
			}
			large := strings.Repeat("\u00e4\\", 50_000)
			for _, level := range isolationLevels {
				req := request(name(mode, level))
				req.Policy = &Policy{Isolation: level}
				handler := func(ctx context.Context, tx pgx.Tx) (string, error) { return large, write(ctx, tx, req.Key) }
				first, err := Run(t.Context(), f.store, req, handler)
				if err != nil || first.FinishedAt.IsZero() || time.Since(first.FinishedAt).Abs() > time.Hour {
					t.Fatalf("%s, %s: %v, finished at %v", mode, level, err, first.FinishedAt)
				}
				again, err := Run(t.Context(), f.store, req, handler)
				if err != nil || !again.Replayed || again.Value != large || !again.FinishedAt.Equal(first.FinishedAt) || f.effects(req.Key) != 1 {
					t.Errorf("%s, %s: replayed %v, %v, %d effects", mode, level, again.Replayed, err, f.effects(req.Key))
				}
				failing := req
				failing.Key += "-fail"
				for range 2 {
					if _, err := Run(t.Context(), f.store, failing, func(context.Context, pgx.Tx) (string, error) { return "", Fail("no", "nö") }); !strings.Contains(err.Error(), "nö") {
						t.Errorf("%s, %s: %v", mode, level, err)
					}
				}
			}
		})
	}
}

// defaults sets what sessions of the database begin with. It asks the server directly, so that no session of a pooler's is
// older; a pooler would not pass on most of these as parameters of a connection.
func defaults(t *testing.T, url string, settings map[string]string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	database := pgx.Identifier{conn.Config().Database}.Sanitize()
	for name, value := range settings {
		if _, err := conn.Exec(t.Context(), `alter database `+database+` set `+name+` = '`+value+`'`); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRun_R10_KeptSavepointIsOfNoUse(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, func(cfg *pgxpool.Config) { cfg.MaxConns = 1 })
	var kept pgx.Tx
	if _, err := Run(t.Context(), f.store, request("k"), func(ctx context.Context, tx pgx.Tx) (_ string, err error) {
		kept, err = tx.Begin(ctx)
		return "", err
	}); err != nil {
		t.Fatal(err)
	}
	bob := request("k")
	bob.Scope = "bob"
	if _, err := Run(t.Context(), f.store, bob, func(ctx context.Context, tx pgx.Tx) (string, error) {
		_, err := kept.Exec(ctx, `insert into effect (intent) values ('alice in bob')`)
		if !errors.Is(err, ErrTxOver) || !errors.Is(kept.Commit(ctx), ErrTxOver) || !errors.Is(kept.Rollback(ctx), ErrTxOver) {
			t.Errorf("the kept savepoint: %v", err)
		}
		return "", nil
	}); err != nil || f.effects("alice in bob") != 0 {
		t.Errorf("%v, %d effects of alice in bob's call", err, f.effects("alice in bob"))
	}
}

// slow is a statement's argument that takes its time to be written, in each of pgx's modes.
type slow struct{ started, goOn chan struct{} }

func (s slow) Value() (driver.Value, error) {
	close(s.started)
	<-s.goOn
	return "late", nil
}

func TestRun_R10_StatementThatIsBeingSentWhenTheHandlerReturnsIsPartOfTheCall(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	late, sent := slow{make(chan struct{}), make(chan struct{})}, make(chan error)
	_, err := Run(t.Context(), f.store, request("k"), func(ctx context.Context, tx pgx.Tx) (string, error) {
		go func() {
			_, err := tx.Exec(context.WithoutCancel(ctx), `insert into effect (intent) select $1::text`, late)
			sent <- err
		}()
		<-late.started
		time.AfterFunc(20*time.Millisecond, func() { close(late.goOn) }) // behind the handler's return, most likely
		return "", nil
	})
	if sentErr := <-sent; sentErr != nil || err != nil || f.effects("late") != 1 || f.records() != 1 {
		t.Errorf("statement: %v, call: %v, %d effects, %d records; want all of it or nothing", sentErr, err, f.effects("late"), f.records())
	}
}

func TestRun_R10_EscapeHiddenByWhatFollowsIsFoundOut(t *testing.T) {
	t.Parallel()
	for label, rest := range map[string]func(ctx context.Context, tx pgx.Tx) error{
		"aborted transaction":    func(ctx context.Context, tx pgx.Tx) error { _, err := tx.Exec(ctx, `select 1/0`); return err },
		"swallowed error":        func(ctx context.Context, tx pgx.Tx) error { _, _ = tx.Exec(ctx, `select 1/0`); return nil },
		"serialization failure":  func(ctx context.Context, tx pgx.Tx) error { return raise(ctx, tx, "40001") },
		"failure":                func(ctx context.Context, tx pgx.Tx) error { _, _ = tx.Exec(ctx, `select 1/0`); return Fail("no", "no") },
		"connection lost":        func(ctx context.Context, tx pgx.Tx) error { _ = tx.Conn().Close(ctx); return errors.New("lost") },
		"connection lost, a nil": func(ctx context.Context, tx pgx.Tx) error { _ = tx.Conn().Close(ctx); return nil },
	} {
		for _, end := range []string{"commit", "commit and chain"} {
			f := setup(t, nil, nil)
			for range 3 {
				_, err := Run(t.Context(), f.store, request("k"), func(ctx context.Context, tx pgx.Tx) (string, error) {
					if err := write(ctx, tx, "k"); err != nil {
						return "", err
					}
					if _, err := tx.Exec(ctx, end); err != nil {
						return "", err
					}
					return "", rest(ctx, tx)
				})
				if failure, ok := failureIn(err); !ok || failure.Code != CodeHandlerEndedTx {
					t.Errorf("%s, %s: got %v", label, end, err)
				}
			}
			if e := f.effects("k"); e != 1 {
				t.Errorf("%s, %s: %d effects", label, end, e)
			}
			f.idle()
		}
	}
}

func raise(ctx context.Context, tx pgx.Tx, sqlstate string) error {
	_, err := tx.Exec(ctx, `do $$ begin raise sqlstate '`+sqlstate+`'; end $$`)
	return err
}

func TestRun_R10_QueuedCommitIsFoundOut(t *testing.T) {
	t.Parallel()
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeExec} {
		for _, end := range []string{"commit", "commit and chain"} {
			t.Run(name(mode, " ", end), func(t *testing.T) {
				t.Parallel()
				dbtest.SkipPreparing(t, mode)
				f := setup(t, nil, func(cfg *pgxpool.Config) { cfg.ConnConfig.DefaultQueryExecMode = mode })
				for range 2 {
					_, _ = Run(t.Context(), f.store, request("k"), func(ctx context.Context, tx pgx.Tx) (string, error) {
						return "", errors.Join(write(ctx, tx, "k"), queueAtFinish(ctx, func(b *pgx.Batch) {
							b.Queue(end)
							b.Queue(`select 1/0`)
						}))
					})
				}
				if e := f.effects("k"); e != 1 {
					t.Errorf("%s, %s: %d effects", mode, end, e)
				}
			})
		}
	}
}

func TestRun_QueuedStatementThatFailsIsTheUsersInEachMode(t *testing.T) {
	t.Parallel()
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		t.Run(name(mode), func(t *testing.T) {
			t.Parallel()
			dbtest.SkipPreparing(t, mode)
			f := setup(t, nil, func(cfg *pgxpool.Config) { cfg.ConnConfig.DefaultQueryExecMode = mode })
			for _, sql := range []string{`select $1::text::uuid`, `select current_setting('app.none' || $1::text)`} {
				_, err := Run(t.Context(), f.store, request("k"), func(ctx context.Context, _ pgx.Tx) (string, error) {
					return "", queueAtFinish(ctx, func(b *pgx.Batch) { b.Queue(sql, "x") })
				})
				var pgErr *pgconn.PgError
				if !errors.As(err, &pgErr) || errors.Is(err, ErrHandlerEndedTx) || f.records() != 0 {
					t.Errorf("%s, %s: %v, %d records; want the user's error and a free key", mode, sql, err, f.records())
				}
			}
		})
	}
}

func TestRun_AtFinishInsideAtFinishIsRefused(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	var inner error
	if _, err := Run(t.Context(), f.store, request("k"), func(ctx context.Context, _ pgx.Tx) (string, error) {
		return "", queueAtFinish(ctx, func(*pgx.Batch) { inner = queueAtFinish(ctx, func(*pgx.Batch) {}) })
	}); err != nil || !errors.Is(inner, toolcall.ErrCallOver) {
		t.Errorf("%v, inside %v", err, inner)
	}
}

func TestRun_R16_MismatchTellsNothingToThoseWhoMayNotKnow(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	if _, err := Run(t.Context(), f.store, request("k"), writes("k")); err != nil {
		t.Fatal(err)
	}
	f.store.authorize = func(context.Context, Recorded) error { return errors.New("revoked") }
	other := request("k")
	other.Args = []byte(`{}`)
	_, err := Run(t.Context(), f.store, other, writes("k"))
	_, statusErr := f.store.Status(t.Context(), other)
	for _, err := range []error{err, statusErr} {
		if !errors.Is(err, ErrNotAllowed) || strings.Contains(err.Error(), "order") {
			t.Errorf("got %v", err)
		}
	}
	f.store.authorize = func(context.Context, Recorded) error { panic("oh no") }
	if _, err := Run(t.Context(), f.store, request("k"), writes("k")); !errors.Is(err, ErrNotAllowed) {
		t.Errorf("a hook that panics: %v", err)
	}
}

func TestRun_TwoSchemasInOneDatabaseShareNothing(t *testing.T) {
	t.Parallel()
	f := setup(t, &Policy{Wait: NoWait}, nil)
	f.exec(`create schema "order"`) // a reserved word, and so to be quoted
	f.exec(`create table "order".call (like txonce.call including all)`)
	other, err := New(f.pool, &Config{Schema: "order", Policy: &Policy{Wait: NoWait}})
	if err != nil {
		t.Fatal(err)
	}
	running := f.hold(request("k"), "a")
	if status, err := other.Status(t.Context(), request("k")); err != nil || status.State != toolcall.StateNone {
		t.Errorf("the other schema's status: %+v, %v", status, err)
	}
	if got, err := Run(t.Context(), other, request("k"), writes("b")); err != nil || got.Replayed {
		t.Errorf("the other schema's call: %+v, %v", got, err)
	}
	if err := running.end(nil); err != nil {
		t.Fatal(err)
	}
}

func TestRun_AnswersAreTheCallersOwn(t *testing.T) {
	t.Parallel()
	f := setup(t, &Policy{Wait: 20 * time.Second}, nil)
	winner := f.hold(request("k"), "k")
	raws := make(chan json.RawMessage)
	for range 3 {
		go func() {
			got, err := Run(t.Context(), f.store, request("k"), writes("k"))
			if err != nil {
				t.Error(err)
			}
			raws <- got.Raw
		}()
	}
	eventually(t, "all wait", func() bool { return f.store.waits.waiting(request("k")) == 3 })
	if err := winner.end(nil); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		raw := <-raws
		if string(raw) != `"done k"` {
			t.Errorf("got %s", raw)
		}
		raw[1] = 'X' // another's answer must not change
	}
}

func TestRun_R13_CallerWhoRefusesDoesNotEndAnothersWait(t *testing.T) {
	t.Parallel()
	f := setup(t, &Policy{Wait: 20 * time.Second}, nil)
	if _, err := Run(t.Context(), f.store, request("k"), writes("first")); err != nil {
		t.Fatal(err)
	}
	f.age("x:k")
	takeover := f.hold(request("k"), "second")
	waited := make(chan error)
	go func() {
		got, err := Run(t.Context(), f.store, request("k"), writes("third"))
		if got.Value != "done second" {
			t.Errorf("the one who waited got %+v", got)
		}
		waited <- err
	}()
	eventually(t, "it waits", func() bool { return f.store.waits.waiting(request("k")) == 1 })
	refuses := request("k")
	refuses.Policy = &Policy{OnExpired: Refuse}
	if _, err := Run(t.Context(), f.store, refuses, writes("never")); !errors.Is(err, ErrExpired) {
		t.Errorf("the one who refuses got %v", err)
	}
	if err := takeover.end(nil); err != nil {
		t.Fatal(err)
	}
	if err := <-waited; err != nil {
		t.Errorf("the one who waited got %v", err)
	}
}

func TestRun_SmallThings(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	l := &listener{}
	f.store.observer = l

	bad := request("policy")
	bad.Policy = &Policy{Attempts: -1}
	if _, err := Run(t.Context(), f.store, bad, writes("x")); !errors.Is(err, ErrPolicy) || Retryable(err) || l.events[0].Decision != DecidedRefused {
		t.Errorf("a bad policy: %v, %+v", err, l.events)
	}
	if _, err := f.store.Status(t.Context(), bad); err != nil {
		t.Errorf("the policy plays no part in Status: %v", err)
	}

	_, first := Run(t.Context(), f.store, request("utf-8"), func(context.Context, pgx.Tx) (string, error) { return "", Fail("a\xff", "b\xff") })
	_, again := Run(t.Context(), f.store, request("utf-8"), writes("x"))
	if first.Error() != again.Error() {
		t.Errorf("R05: first %q, replay %q", first, again)
	}
	_, err := Run(t.Context(), f.store, request("large failure"), func(context.Context, pgx.Tx) (string, error) {
		return "", Fail("large", strings.Repeat("x", 17<<20))
	})
	if !errors.Is(err, ErrAnswerTooLarge) {
		t.Errorf("a failure of 17 MiB: %v", err)
	}
	var none *toolcall.Failure
	if _, err := Run(t.Context(), f.store, request("typed nil"), func(context.Context, pgx.Tx) (string, error) { return "", none }); err == nil || !Retryable(err) || err.Error() == "" {
		t.Errorf("a typed nil: %v", err)
	}

	var kept context.Context
	if _, err := Run(t.Context(), f.store, request("outer"), func(ctx context.Context, _ pgx.Tx) (string, error) {
		kept = ctx
		return "", nil
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(kept, f.store, request("later"), writes("x")); err != nil {
		t.Errorf("a context that outlived its call: %v", err)
	}

	why := errors.New("the user went home")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if _, err := Run(ctx, f.store, request("cause"), writes("x")); !errors.Is(err, context.Canceled) || !errors.Is(err, why) {
		t.Errorf("a context with a cause: %v", err)
	}

	l.events = nil
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = Run(t.Context(), f.store, request("goexit"), func(context.Context, pgx.Tx) (string, error) { runtime.Goexit(); return "", nil })
	}()
	<-ended
	if len(l.events) != 1 || l.events[0].Decision != DecidedReleased {
		t.Errorf("Goexit: %+v", l.events)
	}

	f.store.observer = panics{}
	if _, err := Run(t.Context(), f.store, request("observer"), writes("x")); err != nil {
		t.Errorf("an observer that panics: %v", err)
	}
}

type panics struct{}

func (panics) Observe(context.Context, Event) { panic("oh no") }

func TestResolve_DoesNotStarveTheResolver(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	if f.store.reserve == f.store.resolvers {
		t.Error("Resolve waits in the connections that calls need to learn their outcome")
	}
}

func TestRun_R08_ShortRetentionIsNotTakenForARollback(t *testing.T) {
	t.Parallel()
	f := setup(t, &Policy{Retention: time.Millisecond}, nil)
	id, err := f.store.identify(request("k"))
	if err != nil {
		t.Fatal(err)
	}
	c := &claim{token: newToken(), sent: time.Now().Add(-time.Second)} // committed a second ago, expired and swept since
	lost := &OutcomeUnknownError{ID: id.ID, Tool: id.tool, Err: errors.New("cut")}
	if rec, err := f.store.resolve(t.Context(), id, c, lost); !errors.Is(err, ErrOutcomeUnknown) || errors.Is(err, errUndone) {
		t.Errorf("got %+v, %v; want ErrOutcomeUnknown", rec, err)
	}
}
