package sqlc_test

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txonce/txonce/examples/sqlc"
	"github.com/txonce/txonce/internal/dbtest"
	"github.com/txonce/txonce/toolcall"
	"github.com/txonce/txonce/txidem"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

//go:embed schema.sql
var schema string

// call makes a call of the tool, as an adapter would.
func call(ctx context.Context, store *txidem.Store, key, args string) (txidem.Result[sqlc.Receipt], error) {
	return txidem.Run(ctx, store, txidem.Request{Scope: "tenant-7", Tool: "issue_refund", Key: key, Args: json.RawMessage(args)},
		func(ctx context.Context, tx pgx.Tx) (sqlc.Receipt, error) {
			var in sqlc.Refund
			if err := json.Unmarshal([]byte(args), &in); err != nil {
				return sqlc.Receipt{}, err
			}
			return sqlc.IssueRefund(ctx, tx, in)
		})
}

// orders stands for a database with one order, in the unit test.
type orders struct {
	pgx.Tx
	known   string
	refunds []string
}

func (o *orders) Commit(context.Context) error   { return nil }
func (o *orders) Rollback(context.Context) error { return nil }

func (o *orders) Exec(_ context.Context, _ string, args ...any) (pgconn.CommandTag, error) {
	if args[0] == o.known {
		return pgconn.NewCommandTag("UPDATE 1"), nil
	}
	return pgconn.NewCommandTag("UPDATE 0"), nil
}

func (o *orders) QueryRow(_ context.Context, _ string, args ...any) pgx.Row {
	o.refunds = append(o.refunds, args[0].(string))
	return row{int64(len(o.refunds))}
}

type row struct{ id int64 }

func (r row) Scan(dest ...any) error {
	*dest[0].(*int64) = r.id
	return nil
}

// TestIssueRefund_R22_UnitTest needs no Postgres: the store keeps its records in memory and the transaction is a stub.
func TestIssueRefund_R22_UnitTest(t *testing.T) {
	t.Parallel()
	shop := &orders{known: "A-1"}
	store, err := txidem.NewMemory(nil, &txidem.MemoryConfig{Begin: func(context.Context) (pgx.Tx, error) { return shop, nil }})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if r, err := call(t.Context(), store, "a", `{"order":"A-1","cents":5}`); err != nil || r.Value.Refund != 1 {
			t.Errorf("%+v, %v", r, err)
		}
	}
	for args, want := range map[string]string{
		`{"order":"A-1","cents":0}`: "bad_amount",
		`{"order":"B-2","cents":5}`: "no_such_order",
	} {
		_, err := call(t.Context(), store, "", args)
		var failure *toolcall.Failure
		if !errors.As(err, &failure) || failure.Code != want {
			t.Errorf("%s: %v, want %s", args, err, want)
		}
	}
	if len(shop.refunds) != 1 {
		t.Errorf("%d refunds, want 1", len(shop.refunds))
	}
}

// TestIssueRefund_R22_OnPostgres is the same tool on the real thing.
func TestIssueRefund_R22_OnPostgres(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, nil)
	if _, err := pool.Exec(t.Context(), schema+`insert into orders (id) values ('A-1')`); err != nil {
		t.Fatal(err)
	}
	store, err := txidem.New(pool, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if r, err := call(t.Context(), store, "a", `{"order":"A-1","cents":5}`); err != nil || r.Value.Refund != 1 {
			t.Errorf("%+v, %v", r, err)
		}
	}
	var refunds, refunded int64
	if err := pool.QueryRow(t.Context(), `select (select count(*) from refunds), (select refunded from orders)`).Scan(&refunds, &refunded); err != nil {
		t.Fatal(err)
	}
	if refunds != 1 || refunded != 5 {
		t.Errorf("%d refunds of %d cents, want one of 5", refunds, refunded)
	}
}
