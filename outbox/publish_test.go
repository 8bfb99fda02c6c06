package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/internal/dbtest"
	"github.com/txonce/txonce/outbox"
	"github.com/txonce/txonce/toolcall"
	"github.com/txonce/txonce/txidem"
)

// way makes a call whose handler publishes, with what the handler has to publish by, and then returns err.
type way func(ctx context.Context, pool *pgxpool.Pool, store *txidem.Store, key string, handler func(publish func(outbox.Message) (toolcall.ID, error)) error) error

func ways(box *outbox.Outbox) map[string]way {
	byTx := func(ctx context.Context, tx pgx.Tx) func(outbox.Message) (toolcall.ID, error) {
		return func(m outbox.Message) (toolcall.ID, error) { return box.PublishTx(ctx, tx, m) }
	}
	byContext := func(ctx context.Context) func(outbox.Message) (toolcall.ID, error) {
		return func(m outbox.Message) (toolcall.ID, error) { return box.Publish(ctx, m) }
	}
	type handler = func(func(outbox.Message) (toolcall.ID, error)) error
	return map[string]way{
		"Run": func(ctx context.Context, _ *pgxpool.Pool, store *txidem.Store, key string, h handler) error {
			_, err := txidem.Run(ctx, store, request(key), func(ctx context.Context, tx pgx.Tx) (string, error) { return "", h(byTx(ctx, tx)) })
			return err
		},
		"Run, by context": func(ctx context.Context, _ *pgxpool.Pool, store *txidem.Store, key string, h handler) error {
			_, err := txidem.Run(ctx, store, request(key), func(ctx context.Context, _ pgx.Tx) (string, error) { return "", h(byContext(ctx)) })
			return err
		},
		"RunTx": func(ctx context.Context, pool *pgxpool.Pool, store *txidem.Store, key string, h handler) error {
			return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
				_, err := txidem.RunTx(ctx, tx, store, request(key), func(ctx context.Context, tx pgx.Tx) (string, error) { return "", h(byTx(ctx, tx)) })
				return err
			})
		},
		"RunBatch": func(ctx context.Context, _ *pgxpool.Pool, store *txidem.Store, key string, h handler) error {
			_, err := txidem.RunBatch(ctx, store, request(key), func(ctx context.Context, _ *txidem.Batch) (string, error) { return "", h(byContext(ctx)) })
			return err
		},
		"RunLeased": func(ctx context.Context, _ *pgxpool.Pool, store *txidem.Store, key string, h handler) error {
			_, err := txidem.RunLeased(ctx, store, request(key), func(ctx context.Context) (string, error) { return "", h(byContext(ctx)) }, nil)
			return err
		},
	}
}

// TestPublish_O01_CommitsWithTheCall: in each way to run, a message exists if and only if its call succeeded, and a replay adds none.
func TestPublish_O01_CommitsWithTheCall(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, nil)
	box := newBox(t, pool, nil, mail())
	store := newStore(t, pool, nil)
	want := 0
	for label, run := range ways(box) {
		for end, err := range map[string]error{"an error": errOops, "a failure": txidem.Fail("no", "no"), "success": nil} {
			key := label + end
			calls := 0
			for range 2 {
				got := run(t.Context(), pool, store, key, func(publish func(outbox.Message) (toolcall.ID, error)) error {
					calls++
					if _, err := publish(outbox.Message{Destination: "mail", OrderingKey: "k"}); err != nil {
						t.Errorf("%s: %v", label, err)
					}
					return err
				})
				if (got == nil) != (err == nil) {
					t.Errorf("%s, %s: the call gives %v", label, end, got)
				}
			}
			if err == nil {
				want++
				if calls != 1 && label != "RunBatch" { // which asks its handler first
					t.Errorf("%s: the handler ran %d times", label, calls)
				}
			}
			if n := messages(t, pool); n != want {
				t.Fatalf("%s, %s: %d messages, want %d", label, end, n, want)
			}
		}
	}
	if n := get[int](t, pool, `select count(*)::integer from txonce.message_pending`); n != want {
		t.Errorf("%d are pending, want %d", n, want)
	}
}

// TestPublish_O01_WithTheSavepoint: a message that is published through a savepoint has the savepoint's fate, not the call's.
func TestPublish_O01_WithTheSavepoint(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, nil)
	box := newBox(t, pool, nil, mail())
	store := newStore(t, pool, nil)
	ids := make(map[string]toolcall.ID)
	_, err := txidem.Run(t.Context(), store, request("1"), func(ctx context.Context, tx pgx.Tx) (_ string, err error) {
		for _, end := range []string{"rolled back", "released"} {
			savepoint, err := tx.Begin(ctx)
			if err != nil {
				return "", err
			}
			if ids[end], err = box.PublishTx(ctx, savepoint, outbox.Message{Destination: "mail", Effect: end, OrderingKey: "k"}); err != nil {
				return "", err
			}
			if end == "released" {
				err = savepoint.Commit(ctx)
			} else {
				err = savepoint.Rollback(ctx)
			}
			if err != nil {
				return "", err
			}
		}
		ids["queued"], err = box.PublishTx(ctx, tx, outbox.Message{Destination: "mail", OrderingKey: "k"})
		return "", err
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := box.Fate(t.Context(), ids["rolled back"]); !errors.Is(err, outbox.ErrNotFound) {
		t.Errorf("the message of the savepoint that was rolled back: %v", err)
	}
	for _, label := range []string{"released", "queued"} {
		if f := fate(t, box, ids[label]); f.State != toolcall.MessagePending || f.Scope != "alice" || f.Tool != "refund" || f.Call.IsZero() {
			t.Errorf("%s: %+v", label, f)
		}
	}
}

// TestPublish_O01_InATransactionOfOnesOwn: also one that is begun beside the call has its own fate.
func TestPublish_O01_InATransactionOfOnesOwn(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, nil)
	box := newBox(t, pool, nil, mail())
	for _, end := range []error{errOops, nil} {
		err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			_, err := box.PublishTx(t.Context(), tx, outbox.Message{Destination: "mail"})
			return errors.Join(err, end)
		})
		if (err == nil) != (end == nil) {
			t.Fatal(err)
		}
	}
	if n := messages(t, pool); n != 1 {
		t.Errorf("%d messages, want that of the transaction that committed", n)
	}
	if _, err := box.PublishTx(t.Context(), nil, outbox.Message{Destination: "mail"}); err == nil {
		t.Error("a message was published in no transaction")
	}
	if _, err := box.Publish(t.Context(), outbox.Message{Destination: "mail"}); !errors.Is(err, outbox.ErrNoCall) {
		t.Errorf("outside a call, Publish gives %v", err)
	}
}

// TestPublish_R11_O01_OnceHoweverOftenTheHandlerRuns: also where what was queued in front has to be queued again.
func TestPublish_R11_O01_OnceHoweverOftenTheHandlerRuns(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, nil)
	execute(t, pool, `create sequence runs`)
	execute(t, pool, `create function conflict() returns void language plpgsql as
		$$ begin if nextval('runs') % 2 = 1 then raise 'once' using errcode = '40001'; end if; end $$`)
	box := newBox(t, pool, nil, mail())
	store := newStore(t, pool, nil)
	runs := 0
	_, err := txidem.Run(t.Context(), store, request("run"), func(ctx context.Context, tx pgx.Tx) (string, error) {
		runs++
		if _, err := box.PublishTx(ctx, tx, outbox.Message{Destination: "mail", Effect: "a"}); err != nil {
			t.Error(err)
		}
		_, err := tx.Exec(ctx, `select conflict()`)
		return "", err
	})
	if n := messages(t, pool); err != nil || runs != 2 || n != 1 {
		t.Errorf("%v: %d messages of %d runs", err, n, runs)
	}
	runs = 0
	_, err = txidem.RunBatch(t.Context(), store, request("batch"), func(ctx context.Context, b *txidem.Batch) (string, error) {
		runs++
		b.Queue(`select conflict()`)
		_, err := box.Publish(ctx, outbox.Message{Destination: "mail", Effect: "a"})
		return "", err
	})
	if n := messages(t, pool); err != nil || runs != 1 || n != 2 {
		t.Errorf("%v: %d messages behind %d runs", err, n, runs)
	}
}

// TestPublish_O01_BodyIsTheCallersAgain: its memory may be used for something else as soon as PublishTx has returned.
func TestPublish_O01_BodyIsTheCallersAgain(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, nil)
	box := newBox(t, pool, nil, mail())
	m := outbox.Message{Destination: "mail", Body: []byte("first"), Headers: map[string]string{"A": "first"}}
	_, err := txidem.Run(t.Context(), newStore(t, pool, nil), request("1"), func(ctx context.Context, tx pgx.Tx) (string, error) {
		_, err := box.PublishTx(ctx, tx, m)
		copy(m.Body, "other")
		m.Headers["A"] = "other"
		return "", err
	})
	if err != nil {
		t.Fatal(err)
	}
	if body, header := get[string](t, pool, `select convert_from(body, 'UTF8') from txonce.message`), get[string](t, pool, `select headers->>'A' from txonce.message`); body != "first" || header != "first" {
		t.Errorf("body %q and header %q were sent", body, header)
	}
}

// TestPublish_O01_TooLateIsAnError: whoever hears no error finds the message, and whoever hears one does not.
func TestPublish_O01_TooLateIsAnError(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, nil)
	box := newBox(t, pool, nil, mail())
	store := newStore(t, pool, nil)
	for i := range 30 {
		ids, errs := make([]toolcall.ID, 8), make([]error, 8)
		var all sync.WaitGroup
		_, err := txidem.Run(t.Context(), store, request(fmt.Sprint(i)), func(ctx context.Context, tx pgx.Tx) (string, error) {
			began := make(chan struct{}, len(ids))
			for n := range ids {
				all.Go(func() {
					began <- struct{}{}
					ids[n], errs[n] = box.PublishTx(ctx, tx, outbox.Message{Destination: "mail"})
				})
			}
			for range len(ids) * i / 30 {
				<-began
			}
			return "", nil
		})
		if all.Wait(); err != nil {
			t.Fatal(err)
		}
		sent := 0
		for n, id := range ids {
			if errs[n] == nil {
				fate(t, box, id)
				sent++
			} else if !errors.Is(errs[n], toolcall.ErrCallOver) || !id.IsZero() {
				t.Errorf("a message that came too late: %v, %v", id, errs[n])
			}
		}
		if n := get[int](t, pool, `select count(*)::integer from txonce.message where call = $1::text::uuid`, toolcall.NewID("alice", "refund", fmt.Sprintf("x:%d", i)).String()); n != sent {
			t.Errorf("%d messages were sent, %d publishers heard that theirs was", n, sent)
		}
	}
}

// TestPublish_O01_BehindTheHandler: in no way is anything published any more.
func TestPublish_O01_BehindTheHandler(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, nil)
	box := newBox(t, pool, nil, mail())
	store := newStore(t, pool, nil)
	var kept context.Context
	var tx pgx.Tx
	_, err := txidem.Run(t.Context(), store, request("1"), func(ctx context.Context, given pgx.Tx) (string, error) {
		kept, tx = ctx, given
		return "", nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := box.PublishTx(kept, tx, outbox.Message{Destination: "mail"}); !errors.Is(err, toolcall.ErrCallOver) {
		t.Errorf("with the tx: %v", err)
	}
	if _, err := box.Publish(kept, outbox.Message{Destination: "mail"}); !errors.Is(err, outbox.ErrNoCall) {
		t.Errorf("with the context: %v", err)
	}
	if n := messages(t, pool); n != 0 {
		t.Errorf("%d messages", n)
	}
	// In another transaction it is a message like any other, of no call.
	var id toolcall.ID
	err = pgx.BeginFunc(t.Context(), pool, func(other pgx.Tx) (err error) {
		id, err = box.PublishTx(kept, other, outbox.Message{Destination: "mail"})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if f := fate(t, box, id); !f.Call.IsZero() || f.Scope != "" {
		t.Errorf("it counts as the call's: %+v", f)
	}
}

// TestPublish_R22_StoreInMemory: handlers that publish can be tested without a database.
func TestPublish_R22_StoreInMemory(t *testing.T) {
	t.Parallel()
	box := newBox(t, dbtest.Pool(t, nil), nil, mail())
	store, err := txidem.NewMemory(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for label, run := range ways(box) {
		if label == "RunTx" {
			continue // it brings a transaction of its own
		}
		runs := 0
		for range 2 {
			err := run(t.Context(), nil, store, label, func(publish func(outbox.Message) (toolcall.ID, error)) error {
				runs++
				id, err := publish(outbox.Message{Destination: "mail", Effect: "a"})
				if err == nil && id.IsZero() {
					t.Errorf("%s: the message has no id", label)
				}
				if _, again := publish(outbox.Message{Destination: "mail", Effect: "a"}); !errors.Is(again, outbox.ErrSameEffect) {
					t.Errorf("%s: the second one of an effect gives %v", label, again)
				}
				return err
			})
			if err != nil {
				t.Errorf("%s: %v", label, err)
			}
		}
		if runs != 1 {
			t.Errorf("%s: the handler ran %d times", label, runs)
		}
	}
}

// TestPublish_R15_Unprotected: where a tool's protection is off, its messages still commit with its effects, and the receiver still
// knows a repeated call by its key.
func TestPublish_R15_Unprotected(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, nil)
	box := newBox(t, pool, nil, mail())
	store := newStore(t, pool, &txidem.Policy{Disabled: true})
	for _, end := range []error{errOops, nil, nil} {
		_, err := txidem.Run(t.Context(), store, request("1"), func(ctx context.Context, tx pgx.Tx) (string, error) {
			_, err := box.PublishTx(ctx, tx, outbox.Message{Destination: "mail"})
			return "", errors.Join(err, end)
		})
		if (err == nil) != (end == nil) {
			t.Fatal(err)
		}
	}
	if n, keys := messages(t, pool), get[int](t, pool, `select count(distinct key)::integer from txonce.message`); n != 2 || keys != 1 {
		t.Errorf("%d messages with %d keys", n, keys)
	}
}
