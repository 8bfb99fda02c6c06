package jobs

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txonce/txonce/internal/dbtest"
	"github.com/txonce/txonce/internal/handlertx"
	"github.com/txonce/txonce/toolcall"
	"github.com/txonce/txonce/txidem"
)

// halves is a definition whose commit half writes its effect and then does what it is told; it counts how often it is called.
func halves(opts *Options, half func(ctx context.Context, tx pgx.Tx, n int) error) (*Definition[in, out], *atomic.Int32) {
	calls := &atomic.Int32{}
	return Define("halves", func(_ context.Context, job *Job[in]) (Commit[out], error) {
		return func(ctx context.Context, tx pgx.Tx) (out, error) {
			n := int(calls.Add(1))
			if err := write(ctx, tx, job.Args.Label); err != nil {
				return out{}, err
			}
			return out{Label: job.Args.Label}, half(ctx, tx, n)
		}, nil
	}, opts), calls
}

// atFinish queues a statement for the last round trip.
func atFinish(ctx context.Context, sql string, args ...any) error {
	call, _ := toolcall.FromContext(ctx)
	return call.AtFinish(func(b *pgx.Batch) { b.Queue(sql, args...) })
}

// TestCommit_J02_TransactionThatIsEndedBySQLIsNotRepeated: what it committed stays, so the job fails at once, and says so.
func TestCommit_J02_TransactionThatIsEndedBySQLIsNotRepeated(t *testing.T) {
	t.Parallel()
	simple := pgx.QueryExecModeSimpleProtocol
	exec := func(sql ...string) func(context.Context, pgx.Tx) error {
		return func(ctx context.Context, tx pgx.Tx) error {
			for _, one := range sql {
				if _, err := tx.Exec(ctx, one, simple); err != nil {
					return err
				}
			}
			return nil
		}
	}
	for label, c := range map[string]struct {
		half    func(ctx context.Context, tx pgx.Tx) error
		effects int
	}{
		"commit":                   {exec(`commit`), 1},
		"commit and chain":         {exec(`commit and chain`), 1},
		"commit, begin":            {exec(`commit`, `begin`), 1},
		"commit; begin":            {exec(`commit; begin`), 1},
		"commit; begin; an error":  {exec(`commit; begin; select 1/0`), 1},
		"rollback":                 {exec(`rollback`), 0},
		"rollback and chain":       {exec(`rollback and chain`), 0},
		"rollback, begin":          {exec(`rollback`, `begin`), 0},
		"rollback; begin":          {exec(`rollback; begin`), 0},
		"rollback, begin, a write": {exec(`rollback`, `begin`, `insert into effect (label) values ('a')`), 0},
		"prepare transaction":      {exec(`prepare transaction 'txonce'`), 0}, // where there are none, it rolls back
		"commit by Query": {func(ctx context.Context, tx pgx.Tx) error {
			rows, err := tx.Query(ctx, `commit and chain`)
			rows.Close()
			return err
		}, 1},
		"commit in a savepoint": {func(ctx context.Context, tx pgx.Tx) error {
			inner, err := tx.Begin(ctx)
			if err == nil {
				_, err = inner.Exec(ctx, `commit`)
			}
			return err
		}, 1},
		"commit, and an error": {func(ctx context.Context, tx pgx.Tx) error {
			_, _ = tx.Exec(ctx, `commit`)
			return errors.New("no luck")
		}, 1},
		"commit; begin, and an error": {func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `commit; begin`, simple)
			return errors.Join(err, errors.New("no luck"))
		}, 1},
		"commit; begin, and a failure": {func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `commit; begin`, simple)
			return errors.Join(err, Fail("no", "No."))
		}, 1},
		"commit, and a panic": {func(ctx context.Context, tx pgx.Tx) error {
			_, _ = tx.Exec(ctx, `commit`)
			panic("no luck")
		}, 1},
		"commit, and the connection is lost": {func(ctx context.Context, tx pgx.Tx) error {
			_, _ = tx.Exec(ctx, `commit`)
			return tx.Conn().Close(ctx)
		}, 1},
		"commit, and a repeat is asked for": {func(ctx context.Context, tx pgx.Tx) error {
			_, _ = tx.Exec(ctx, `commit`)
			return &pgconn.PgError{Code: codeSerialization}
		}, 1},
		"commit at the end": {func(ctx context.Context, _ pgx.Tx) error { return atFinish(ctx, `commit`) }, 1},
		"commit and chain at the end": {func(ctx context.Context, _ pgx.Tx) error {
			return atFinish(ctx, `commit and chain`)
		}, 1},
		"rollback and chain at the end": {func(ctx context.Context, _ pgx.Tx) error {
			return atFinish(ctx, `rollback and chain`)
		}, 0},
		"commit at the end, with a callback": {func(ctx context.Context, _ pgx.Tx) error {
			call, _ := toolcall.FromContext(ctx)
			return call.AtFinish(func(b *pgx.Batch) { b.Queue(`commit`).Exec(func(pgconn.CommandTag) error { return nil }) })
		}, 1},
	} {
		t.Run(strings.ReplaceAll(label, " ", "_"), func(t *testing.T) {
			t.Parallel()
			d, calls := halves(nil, func(ctx context.Context, tx pgx.Tx, _ int) error { return c.half(ctx, tx) })
			f := setup(t, still(), d)
			id := submit(f, d, in{Label: "a"}, nil)
			err := f.answer(t.Context(), d.def, id)
			want := map[string]int{"a": c.effects}
			if c.effects == 0 {
				want = map[string]int{}
			}
			f.effectsAre(want)
			if !isCancel(err) || !errors.Is(err, ErrEndedTx) {
				t.Errorf("the doorbell: %v", err)
			}
			f.ended(id, toolcall.StateFailed, 1, CodeEndedTx)
			f.wantError(id, "by SQL")
			if err := f.answer(t.Context(), d.def, id); err != nil || calls.Load() != 1 {
				t.Errorf("another doorbell: %v, %d calls", err, calls.Load())
			}
			f.effectsAre(want)
		})
	}
}

// TestCommit_J02_KeptTxIsOfNoUse: neither when the commit half has returned, nor when the job has.
func TestCommit_J02_KeptTxIsOfNoUse(t *testing.T) {
	t.Parallel()
	var kept pgx.Tx
	var callOver error
	d, _ := halves(nil, func(ctx context.Context, tx pgx.Tx, _ int) error {
		kept = tx
		if c, r := tx.Commit(ctx), tx.Rollback(ctx); !errors.Is(c, handlertx.ErrManaged) || !errors.Is(r, handlertx.ErrManaged) {
			t.Errorf("Commit gives %v, Rollback %v", c, r)
		}
		call, _ := toolcall.FromContext(ctx)
		return call.AtFinish(func(b *pgx.Batch) {
			_, callOver = kept.Exec(ctx, `insert into effect (label) values ('kept')`)
			b.Queue(`select 1`)
		})
	})
	f := setup(t, still(), d)
	id := submit(f, d, in{Label: "a"}, nil)
	if err := f.answer(t.Context(), d.def, id); err != nil {
		t.Errorf("the doorbell: %v", err)
	}
	_, late := kept.Exec(t.Context(), `insert into effect (label) values ('late')`)
	if !errors.Is(late, handlertx.ErrOver) {
		t.Errorf("late: %v", late)
	}
	_ = callOver // what the queue function is given is the time in front of the tx' end; its effect is the job's then
	f.ended(id, toolcall.StateSucceeded, 1, "")
}

// TestCommit_J02_RepeatsWhatPostgresAsksToRepeat: in the commit half, in what it queued, and at COMMIT itself. The work is not
// done again.
func TestCommit_J02_RepeatsWhatPostgresAsksToRepeat(t *testing.T) {
	t.Parallel()
	raise := func(code string) string { return `do $$ begin raise sqlstate '` + code + `'; end $$` }
	for label, half := range map[string]func(ctx context.Context, tx pgx.Tx) error{
		"serialization": func(ctx context.Context, tx pgx.Tx) error { _, err := tx.Exec(ctx, raise("40001")); return err },
		"deadlock":      func(ctx context.Context, tx pgx.Tx) error { _, err := tx.Exec(ctx, raise("40P01")); return err },
		"queued":        func(ctx context.Context, _ pgx.Tx) error { return atFinish(ctx, raise("40001")) },
		"at COMMIT": func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `insert into late values (1)`)
			return err
		},
		"the connection is lost": func(ctx context.Context, tx pgx.Tx) error {
			_ = tx.Conn().Close(ctx)
			_, err := tx.Exec(ctx, `select 1`)
			return err
		},
		"the connection is lost, unawares": func(ctx context.Context, tx pgx.Tx) error { return tx.Conn().Close(ctx) },
	} {
		t.Run(strings.ReplaceAll(label, " ", "_"), func(t *testing.T) {
			t.Parallel()
			d, calls := halves(nil, func(ctx context.Context, tx pgx.Tx, n int) error {
				if n < 3 {
					return half(ctx, tx)
				}
				return nil
			})
			f := setup(t, still(), d)
			f.exec(`create table late (a int)`)
			f.exec(`create function late() returns trigger language plpgsql as $f$ begin raise sqlstate '40001'; end $f$`)
			f.exec(`create constraint trigger late after insert on late deferrable initially deferred for each row execute function late()`)
			id := submit(f, d, in{Label: "a"}, nil)
			if err := f.answer(t.Context(), d.def, id); err != nil || calls.Load() != 3 {
				t.Errorf("the doorbell: %v; the commit half was called %d times, want 3", err, calls.Load())
			}
			f.ended(id, toolcall.StateSucceeded, 1, "")
			f.effectsAre(map[string]int{"a": 1})
		})
	}
}

// TestCommit_J02_RepeatsUntilItsTimeIsOver: then the attempt has failed.
func TestCommit_J02_RepeatsUntilItsTimeIsOver(t *testing.T) {
	t.Parallel()
	d, calls := halves(&Options{CommitTimeout: 200 * time.Millisecond}, func(context.Context, pgx.Tx, int) error {
		return &pgconn.PgError{Code: codeSerialization}
	})
	f := setup(t, still(), d)
	id := submit(f, d, in{Label: "a"}, nil)
	if err := f.answer(t.Context(), d.def, id); !isError(err) || calls.Load() < 2 {
		t.Errorf("the doorbell: %v; the commit half was called %d times", err, calls.Load())
	}
	f.ended(id, toolcall.StateQueued, 1, "")
	f.effectsAre(map[string]int{})
}

// TestCommit_J02_WhatIsQueuedCommitsWithTheJob: and what is read of it cannot fail the job any more.
func TestCommit_J02_WhatIsQueuedCommitsWithTheJob(t *testing.T) {
	t.Parallel()
	read := 0
	d, _ := halves(nil, func(ctx context.Context, _ pgx.Tx, _ int) error {
		call, _ := toolcall.FromContext(ctx)
		return call.AtFinish(func(b *pgx.Batch) {
			b.Queue(`insert into effect (label) values ('queued')`)
			b.Queue(`select 7`).QueryRow(func(row pgx.Row) error { return row.Scan(&read) })
			b.Queue(`select 7`).QueryRow(func(pgx.Row) error { return errors.New("a callback fails") })
			b.Queue(`select 7`).QueryRow(func(pgx.Row) error { panic("a callback panics") })
			b.Queue(`select 'x'`).QueryRow(func(row pgx.Row) error { return row.Scan(&read) })
		})
	})
	f := setup(t, still(), d)
	id := submit(f, d, in{Label: "a"}, nil)
	if err := f.answer(t.Context(), d.def, id); err != nil || read != 7 {
		t.Errorf("the doorbell: %v; read %d", err, read)
	}
	f.ended(id, toolcall.StateSucceeded, 1, "")
	f.effectsAre(map[string]int{"a": 1, "queued": 1})
}

// TestCommit_J02_CallsAndJobsInsideTheCommitHalf commit with it: a call of RunTx, and the next job.
func TestCommit_J02_CallsAndJobsInsideTheCommitHalf(t *testing.T) {
	t.Parallel()
	var store *txidem.Store
	var f *fixture
	next := plainly("next", nil)
	var ids []string
	d, _ := halves(&Options{Backoff: func(int) time.Duration { return 0 }}, func(ctx context.Context, tx pgx.Tx, n int) error {
		for _, key := range []string{"k1", "k2"} {
			_, err := txidem.RunTx(ctx, tx, store, txidem.Request{Scope: scope, Tool: "inner", Key: key}, func(ctx context.Context, tx pgx.Tx) (jobHandle, error) {
				h, err := next.SubmitTx(ctx, tx, f.Runner, in{Label: "held " + key}, nil)
				return jobHandle(h), errors.Join(err, write(ctx, tx, key))
			})
			if err != nil {
				return err
			}
		}
		h, err := next.SubmitTx(ctx, tx, f.Runner, in{Label: "chained"}, nil)
		if err != nil {
			return err
		}
		ids = append(ids, h.JobID)
		if n == 1 {
			return errors.New("no luck")
		}
		return nil
	})
	f = setup(t, nil, d, next)
	var err error
	if store, err = txidem.New(f.pool, nil); err != nil {
		t.Fatal(err)
	}
	f.start(f.Runner)
	id := submit(f, d, in{Label: "a"}, nil)
	f.await(id, toolcall.StateSucceeded)
	f.ended(id, toolcall.StateSucceeded, 2, "")
	if len(ids) != 2 {
		t.Fatalf("%d jobs were chained, want 2, of which one was rolled back", len(ids))
	}
	undone, _ := toolcall.ParseID(ids[0])
	chained, _ := toolcall.ParseID(ids[1])
	if _, err := f.Status(t.Context(), scope, undone); !errors.Is(err, ErrNotFound) {
		t.Errorf("the job of the transaction that was rolled back: %v", err)
	}
	f.await(chained, toolcall.StateSucceeded)
	f.eventually("all have ended", func() bool { return get[int](f, `select count(*)::int from txonce.job where finished_at is null`) == 0 })
	f.effectsAre(map[string]int{"a": 1, "k1": 1, "k2": 1, "held k1": 1, "held k2": 1, "chained": 1})
	if n := get[int](f, `select count(*)::int from txonce.call where expires_at is not null and finished_at is not null`); n != 2 {
		t.Errorf("%d records of calls are let go, want 2", n)
	}
}

// jobHandle is an answer.
type jobHandle Handle

// TestCommit_R14_DownstreamKeysAreThoseOfTheJob: the same in each attempt and in both halves, others for another job.
func TestCommit_R14_DownstreamKeysAreThoseOfTheJob(t *testing.T) {
	t.Parallel()
	type seen struct {
		Compute, Commit string
		Over            bool
	}
	var got []seen
	d := Define("keys", func(ctx context.Context, job *Job[in]) (Commit[out], error) {
		call, ok := toolcall.FromContext(ctx)
		if !ok || call.ID != job.ID || call.Scope != scope || call.Tool != "keys" || call.Keep != 0 || call.Outer != nil {
			return nil, Fail("call", "no call, or another")
		}
		s := seen{Compute: call.DownstreamKey("mail"), Over: errors.Is(call.AtFinish(func(*pgx.Batch) {}), toolcall.ErrCallOver)}
		return func(ctx context.Context, tx pgx.Tx) (out, error) {
			call, _ := toolcall.FromContext(ctx)
			s.Commit = call.DownstreamKey("mail")
			got = append(got, s)
			if job.Attempt == 1 {
				return out{}, errors.New("no luck")
			}
			return out{}, write(ctx, tx, job.Args.Label)
		}, nil
	}, nil)
	f := setup(t, still(), d)
	for range 2 {
		id := submit(f, d, in{Label: "a"}, nil)
		if err := f.answer(t.Context(), d.def, id); !isError(err) {
			t.Errorf("the first doorbell: %v", err)
		}
		if err := f.answer(t.Context(), d.def, id); err != nil {
			t.Errorf("the second doorbell: %v", err)
		}
		f.ended(id, toolcall.StateSucceeded, 2, "")
	}
	if len(got) != 4 || got[0].Compute == "" || got[0].Compute == got[2].Compute {
		t.Fatalf("got %+v", got)
	}
	want := []seen{{got[0].Compute, got[0].Compute, true}, {got[0].Compute, got[0].Compute, true}, {got[2].Compute, got[2].Compute, true}, {got[2].Compute, got[2].Compute, true}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("keys differ (-want +got):\n%s", diff)
	}
}

// TestCommit_R20_SettingsOfItsTransaction: a worker that vanishes is noticed, the user's own lock_timeout is the user's, and nothing
// is left on the connection.
func TestCommit_R20_SettingsOfItsTransaction(t *testing.T) {
	t.Parallel()
	dbtest.SkipPooled(t, "what is set for a session goes astray")
	names := []string{"idle_in_transaction_session_timeout", "client_connection_check_interval", "lock_timeout", "transaction_isolation"}
	show := func(ctx context.Context, db interface {
		QueryRow(context.Context, string, ...any) pgx.Row
	},
	) map[string]string {
		got := make(map[string]string)
		for _, name := range names {
			var value string
			if err := db.QueryRow(ctx, `select current_setting($1::text)`, name).Scan(&value); err != nil {
				t.Error(err)
			}
			got[name] = value
		}
		return got
	}
	var inside map[string]string
	d, _ := halves(&Options{CommitTimeout: 7 * time.Second}, func(ctx context.Context, tx pgx.Tx, _ int) error {
		inside = show(ctx, tx)
		return nil
	})
	f := setup(t, still(), d)
	url := f.pool.Config().ConnString()
	f.pool = dbtest.PoolAt(t, url, withOneConn(map[string]string{"lock_timeout": "3s", "default_transaction_isolation": "serializable"}))
	admin := dbtest.PoolAt(t, url, nil)
	r := f.another(still(), d)
	before := show(t.Context(), f.pool)
	writer := &fixture{t: t, pool: admin, Runner: f.Runner}
	id := submit(writer, d, in{Label: "a"}, nil)
	if err := r.answer(t.Context(), d.def, id); err != nil {
		t.Errorf("the doorbell: %v", err)
	}
	want := map[string]string{
		"idle_in_transaction_session_timeout": "7s", "client_connection_check_interval": "1s", "lock_timeout": "3s",
		"transaction_isolation": "read committed",
	}
	if diff := cmp.Diff(want, inside); diff != "" {
		t.Errorf("settings inside (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, show(t.Context(), f.pool)); diff != "" {
		t.Errorf("settings behind the job (-before +behind):\n%s", diff)
	}
}
