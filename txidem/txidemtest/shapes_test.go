package txidemtest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/txidem"
	"github.com/txonce/txonce/txidem/mcpidem"
	"github.com/txonce/txonce/txidem/txidemtest"
)

// What other ways to run look like on the wire: these are as good as it takes to have the turns in other places.
const (
	sqlClaim  = `select set_config('txonce.attempt', gen_random_uuid()::text, true)`
	sqlRead   = `select count(*) from "txonce".call where key = $1::text`
	sqlRecord = `insert into "txonce".call (id, scope, tool, key, fingerprint, canon, state, attempt, answer, started_at, finished_at)
values (md5($1)::uuid, 'alice', 'pay', $1, '', 1, 'succeeded', current_setting('txonce.attempt')::uuid, '', now(), now())`
	sqlRecordOnce = sqlRecord + ` on conflict do nothing`
	sqlEffectOnce = `insert into effect (intent) select $2::integer from "txonce".call where key = $1::text and attempt = current_setting('txonce.attempt')::uuid`
)

// inOneTurn sends claim, record, effect and COMMIT at once.
func inOneTurn(ctx context.Context, pool *pgxpool.Pool, intent int) ([]byte, error) {
	key := fmt.Sprint("key-", intent)
	b := &pgx.Batch{}
	b.Queue("begin")
	b.Queue(sqlClaim)
	b.Queue(sqlRecordOnce, key)
	b.Queue(sqlEffectOnce, key, intent)
	b.Queue("commit")
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	return []byte("done"), conn.SendBatch(ctx, b).Close()
}

// inCallersTx claims, works and records in a transaction that the caller began and commits.
func inCallersTx(ctx context.Context, pool *pgxpool.Pool, intent int) ([]byte, error) {
	key := fmt.Sprint("key-", intent)
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		b := &pgx.Batch{}
		b.Queue("savepoint txonce")
		b.Queue(sqlClaim)
		var n int
		b.Queue(sqlRead, key).QueryRow(func(row pgx.Row) error { return row.Scan(&n) })
		if err := tx.SendBatch(ctx, b).Close(); err != nil || n > 0 {
			return err
		}
		if _, err := tx.Exec(ctx, sqlEffect, intent); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, sqlRecord, key)
		return err
	})
	return []byte("done"), err
}

// TestCheck_R18_OtherShapes: claim, record and commit may be one turn, or three.
func TestCheck_R18_OtherShapes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		call func(context.Context, *pgxpool.Pool, int) ([]byte, error)
		want string
	}{
		"one turn":    {inOneTurn, "the whole call"},
		"caller's tx": {inCallersTx, "begin, the claim, statement 1, the record, commit"},
		"Run":         {calls(twoStatements), "the claim, statement 1, statement 2, the record and commit"},
		"refused":     {calls(refuse), "the claim, statement 1, the record and commit"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := 1
			if name == "refused" {
				want = txidemtest.None
			}
			tool := txidemtest.Tool{Call: c.call, Effects: sqlCount, Want: want}
			found, missed := check(t, t.Name(), tool)
			if len(found)+len(missed) > 0 {
				t.Errorf("found %v, missed %q", found, missed)
			}
			got, err := txidemtest.Turns(t.Context(), database(t), tool)
			if turns := strings.Join(got, ", "); err != nil || turns != c.want {
				t.Errorf("the turns are %q, %v; want %q", turns, err, c.want)
			}
		})
	}
}

// overMCP makes the call as an agent's harness does, with a server and a client that end with the call.
func overMCP(ctx context.Context, pool *pgxpool.Pool, intent int) (_ []byte, err error) {
	store, err := txidem.New(pool, nil)
	if err != nil {
		return nil, err
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "billing", Version: "1"}, nil)
	idem, err := mcpidem.New(server, store, &mcpidem.Config{Scope: mcpidem.ScopeIs("agent")})
	if err != nil {
		return nil, err
	}
	type args struct {
		Order int `json:"order"`
	}
	mcpidem.AddTool(idem, &mcp.Tool{Name: "pay"}, func(ctx context.Context, tx pgx.Tx, in args) (args, error) {
		_, err := tx.Exec(ctx, sqlEffect, in.Order)
		return in, err
	})
	here, there := mcp.NewInMemoryTransports()
	session, err := server.Connect(ctx, there, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = session.Wait() }()
	client, err := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, nil).Connect(ctx, here, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	result, err := client.CallTool(ctx, &mcp.CallToolParams{Name: "pay", Arguments: args{intent}})
	if err != nil {
		return nil, err
	}
	if result.IsError {
		return nil, fmt.Errorf("%v", result.StructuredContent)
	}
	return json.Marshal(result.StructuredContent)
}

func TestCheck_M07_PassesAToolOfAnMCPServer(t *testing.T) {
	t.Parallel()
	found, missed := check(t, t.Name(), txidemtest.Tool{Call: overMCP})
	if len(found)+len(missed) > 0 {
		t.Errorf("found %v, missed %q", found, missed)
	}
}

// TestCheck_GoroutinesThatStayDoNoHarm: a server that lives on is waited for once.
func TestCheck_GoroutinesThatStayDoNoHarm(t *testing.T) {
	t.Parallel()
	found, _ := check(t, "", txidemtest.Tool{Call: func(ctx context.Context, pool *pgxpool.Pool, intent int) ([]byte, error) {
		go func() { <-t.Context().Done() }()
		return calls(insert)(ctx, pool, intent)
	}})
	if len(found) > 0 {
		t.Errorf("found %v", found)
	}
}
