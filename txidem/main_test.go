package txidem

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/internal/dbtest"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

// fixture is a store on a database of its own, with a table of effects to count.
type fixture struct {
	t     testing.TB
	pool  *pgxpool.Pool
	store *Store
}

func setup(t testing.TB, policy *Policy, change func(*pgxpool.Config)) *fixture {
	t.Helper()
	return setupAt(t, dbtest.URL(t), policy, change)
}

// setupAt is setup on the migrated database at url.
func setupAt(t testing.TB, url string, policy *Policy, change func(*pgxpool.Config)) *fixture {
	t.Helper()
	pool := dbtest.PoolAt(t, url, change)
	if _, err := pool.Exec(t.Context(), `create table effect (id bigserial primary key, intent text not null)`); err != nil {
		t.Fatal(err)
	}
	store, err := New(pool, &Config{Policy: policy})
	if err != nil {
		t.Fatal(err)
	}
	return &fixture{t: t, pool: pool, store: store}
}

// request is a call with a key.
func request(key string) Request {
	return Request{Scope: "alice", Tool: "issue_refund", Key: key, Args: []byte(`{"order":"A-1","cents":1050}`)}
}

// write is the effect that tests count.
func write(ctx context.Context, tx pgx.Tx, intent string) error {
	_, err := tx.Exec(ctx, `insert into effect (intent) values ($1)`, intent)
	return err
}

// writes returns a handler that writes one effect and answers with the intent.
func writes(intent string) func(context.Context, pgx.Tx) (string, error) {
	return func(ctx context.Context, tx pgx.Tx) (string, error) { return "done " + intent, write(ctx, tx, intent) }
}

func (f *fixture) effects(intent string) int {
	f.t.Helper()
	var n int
	if err := f.pool.QueryRow(f.t.Context(), `select count(*) from effect where intent = $1`, intent).Scan(&n); err != nil {
		f.t.Fatal(err)
	}
	return n
}

func (f *fixture) records() int {
	f.t.Helper()
	var n int
	if err := f.pool.QueryRow(f.t.Context(), `select count(*) from txonce.call`).Scan(&n); err != nil {
		f.t.Fatal(err)
	}
	return n
}

func (f *fixture) exec(sql string, args ...any) {
	f.t.Helper()
	if _, err := f.pool.Exec(f.t.Context(), sql, args...); err != nil {
		f.t.Fatal(err)
	}
}

// eventually polls until cond is true. It is for what another process does, of which no signal reaches the test.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !cond() {
		if time.Now().After(deadline) {
			t.Fatalf("still not so after a minute: %s", what)
		}
		<-time.After(2 * time.Millisecond)
	}
}

// idle checks that the pool has all its connections back.
func (f *fixture) idle() {
	f.t.Helper()
	eventually(f.t, "no connection is in use", func() bool { return f.pool.Stat().AcquiredConns() == 0 })
}

// hold starts a call whose handler writes its effect and then waits. It returns when the handler is there.
func (f *fixture) hold(req Request, intent string) *held {
	f.t.Helper()
	h := &held{t: f.t, there: make(chan struct{}), goOn: make(chan error, 1), ended: make(chan error, 1)}
	ctx := f.t.Context()
	go func() {
		_, err := Run(ctx, f.store, req, func(ctx context.Context, tx pgx.Tx) (string, error) {
			if err := write(ctx, tx, intent); err != nil {
				return "", err
			}
			close(h.there)
			return "done " + intent, <-h.goOn
		})
		h.ended <- err
	}()
	select {
	case <-h.there:
	case err := <-h.ended:
		f.t.Fatalf("the call ended before its handler ran: %v", err)
	}
	return h
}

type held struct {
	t           testing.TB
	there       chan struct{}
	goOn, ended chan error
}

// end lets the handler return err, and returns what became of the call.
func (h *held) end(err error) error {
	h.t.Helper()
	h.goOn <- err
	select {
	case err := <-h.ended:
		return err
	case <-time.After(time.Minute):
		h.t.Fatal("the call did not end")
		return nil
	}
}

func name(parts ...any) string { return strings.ReplaceAll(fmt.Sprint(parts...), " ", "_") }
