package intent_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/internal/dbtest"
	"github.com/txonce/txonce/txidem"
	"github.com/txonce/txonce/txidem/mcpidem/intent"
)

// onPostgres is a world whose effects are rows.
func onPostgres(t testing.TB) (*world, *pgxpool.Pool) {
	t.Helper()
	pool := dbtest.Pool(t, nil)
	if _, err := pool.Exec(t.Context(), `create table refund (id bigserial primary key, order_id text, cents bigint)`); err != nil {
		t.Fatal(err)
	}
	store, err := txidem.New(pool, nil)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{}
	w.serve(t, store, func(ctx context.Context, tx pgx.Tx, in refund) (out receipt, err error) {
		out.Cents = in.Cents
		err = tx.QueryRow(ctx, `insert into refund (order_id, cents) values ($1, $2) returning id`, in.Order, in.Cents).Scan(&out.Refund)
		return out, err
	})
	return w, pool
}

func rows(t testing.TB, pool *pgxpool.Pool) (n int) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), `select count(*) from refund`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// breaker stands in front of a server and resets as many connections as it is told, with the call done and its answer not sent.
type breaker struct {
	handler http.Handler
	left    atomic.Int32
}

func (b *breaker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Mcp-Name") != "issue_refund" && r.Header.Get("Mcp-Session-Id") == "" || r.Method != http.MethodPost || b.left.Add(-1) < 0 {
		b.handler.ServeHTTP(w, r)
		return
	}
	b.handler.ServeHTTP(httptest.NewRecorder(), r)
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	_ = conn.(*net.TCPConn).SetLinger(0)
	_ = conn.Close()
}

// TestMiddleware_M10_OnPostgresOverANetwork has real connections reset behind commits, then every fault of the wire, and then the
// harness crash: it comes back on a new session and gets the same answers.
func TestMiddleware_M10_OnPostgresOverANetwork(t *testing.T) {
	t.Parallel()
	for label, options := range servings {
		t.Run(label, func(t *testing.T) {
			t.Parallel()
			w, pool := onPostgres(t)
			b := &breaker{handler: mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return w.server }, options)}
			server := httptest.NewServer(b)
			defer server.Close()
			transport := &http.Transport{}
			defer transport.CloseIdleConnections()
			cfg := &intent.Config{MinBackoff: time.Millisecond, MaxBackoff: 20 * time.Millisecond, Attempt: 500 * time.Millisecond}
			life := func() (answers []any) {
				s := w.open(t, server.URL, transport, cfg)
				defer func() { _ = s.Close() }()
				b.left.Store(2)
				for i, f := range faults {
					if f == cutAfter && options.JSONResponse {
						continue // it ends the session
					}
					w.wire.mu.Lock()
					w.wire.plan = []fault{f, f}
					w.wire.mu.Unlock()
					r, err := call(intent.WithStep(t.Context(), "run-7", intent.Nth("refunds", i)), s, int64(i))
					if err != nil || r.IsError {
						t.Fatalf("%s: %v, %v", f, err, r)
					}
					answers = append(answers, said(r))
				}
				return answers
			}
			first, again := life(), life()
			if diff := cmp.Diff(first, again); diff != "" {
				t.Errorf("the resumed run gets other answers:\n%s", diff)
			}
			if n := rows(t, pool); n != len(first) {
				t.Errorf("%d effects of %d intents", n, len(first))
			}
			if b.left.Load() > 0 {
				t.Error("no connection was reset")
			}
		})
	}
}
