package txidemtest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/internal/dbtest"
	"github.com/txonce/txonce/txidem"
	"github.com/txonce/txonce/txidem/txidemtest"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

// database returns the URL of a database for tools.
func database(t testing.TB) string {
	t.Helper()
	url := dbtest.URL(t)
	pool := dbtest.PoolAt(t, url, nil)
	if _, err := pool.Exec(t.Context(), `create table effect (intent integer not null); create table note (intent integer not null)`); err != nil {
		t.Fatal(err)
	}
	return url
}

const (
	sqlEffect = `insert into effect (intent) values ($1)`
	sqlNote   = `insert into note (intent) values ($1)`
	sqlCount  = `select count(*) from effect where intent = $1`
)

// request is the call of an intent.
func request(intent int) txidem.Request {
	return txidem.Request{Scope: "alice", Tool: "pay", Key: fmt.Sprint("key-", intent), Args: fmt.Appendf(nil, `{"n":%d}`, intent)}
}

// handler is what samples protect.
type handler func(ctx context.Context, pool *pgxpool.Pool, tx pgx.Tx, intent int) (string, error)

// calls returns a Call that protects the handler as it should be.
func calls(h handler) func(context.Context, *pgxpool.Pool, int) ([]byte, error) {
	return func(ctx context.Context, pool *pgxpool.Pool, intent int) ([]byte, error) {
		return run(ctx, pool, request(intent), intent, h)
	}
}

func run(ctx context.Context, pool *pgxpool.Pool, req txidem.Request, intent int, h handler) (json.RawMessage, error) {
	store, err := txidem.New(pool, nil)
	if err != nil {
		return nil, err
	}
	result, err := txidem.Run(ctx, store, req, func(ctx context.Context, tx pgx.Tx) (string, error) { return h(ctx, pool, tx, intent) })
	return result.Raw, err
}

// check returns what is found in a tool, and which points its calls did not come to. Without the name of the test, no process
// is killed.
func check(t *testing.T, test string, tool txidemtest.Tool) (found []txidemtest.Finding, missed []string) {
	t.Helper()
	if tool.Effects == "" {
		tool.Effects = sqlCount
	}
	found, missed, err := txidemtest.Missed(t.Context(), test, func() string { return database(t) }, tool)
	if err != nil {
		t.Fatal(err)
	}
	return found, missed
}
