package peers

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/internal/dbtest"
	"github.com/txonce/txonce/txidem"
)

// world is a database, a gate, and a server whose tools use both. Its caller, and so its calls, are its own.
type world struct {
	t      *testing.T
	pool   *pgxpool.Pool
	gate   *gate
	plan   plan
	server *mcp.Server
}

// newPool makes a database. The worlds of one test may share it: making one costs more than most of these tests do.
func newPool(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool := dbtest.Pool(t, func(cfg *pgxpool.Config) { cfg.MaxConns = 16 })
	if _, err := pool.Exec(t.Context(), sqlTable); err != nil {
		t.Fatal(err)
	}
	return pool
}

// newWorld makes a world in the database. change, if not nil, may adjust the plan: by default duplicates do not wait.
func newWorld(t *testing.T, pool *pgxpool.Pool, change func(*plan)) *world {
	t.Helper()
	w := &world{t: t, pool: pool, gate: newGate(t)}
	w.plan = plan{Database: urlOf(w.pool), Gate: w.gate.url, Scope: t.Name(), Wait: txidem.NoWait, Progress: -1}
	if change != nil {
		change(&w.plan)
	}
	var err error
	if w.server, err = newServer(w.pool, w.plan); err != nil {
		t.Fatal(err)
	}
	return w
}

// serve serves the world's server over HTTP and returns its handler's URL. wrap, if not nil, stands in front of it.
func (w *world) serve(opts *mcp.StreamableHTTPOptions, wrap func(http.Handler) http.Handler) string {
	w.t.Helper()
	var handler http.Handler = mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return w.server }, opts)
	if w.plan.Scope == "" {
		handler = auth.RequireBearerToken(func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
			return &auth.TokenInfo{UserID: token, Expiration: time.Now().Add(time.Hour)}, nil
		}, nil)(handler)
	}
	if wrap != nil {
		handler = wrap(handler)
	}
	server := httptest.NewServer(handler)
	w.t.Cleanup(func() {
		for session := range w.server.Sessions() { // those that their clients have left without a word
			_ = session.Close()
		}
		server.Close()
	})
	return server.URL
}

// effects counts what was done for the order.
func (w *world) effects(order string) (n int) {
	w.t.Helper()
	if err := w.pool.QueryRow(w.t.Context(), sqlEffects, order, w.plan.Scope).Scan(&n); err != nil {
		w.t.Fatal(err)
	}
	return n
}

func (w *world) wantEffects(order string, want int) {
	w.t.Helper()
	if n := w.effects(order); n != want {
		w.t.Errorf("%d effects of order %s, want %d", n, order, want)
	}
}

// childEnv holds the plan of a server that is a process of its own, on stdio.
const childEnv = "TXONCE_PEERS_SERVER"

// child is the command of such a server.
func (w *world) child() *exec.Cmd {
	w.t.Helper()
	raw, err := json.Marshal(w.plan)
	if err != nil {
		w.t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+string(raw), "GORACE=atexit_sleep_ms=0") // else it waits a second before it ends
	cmd.Stderr = os.Stderr
	return cmd
}

// serveStdio is that process. It ends with its input.
func serveStdio(raw string) int {
	err := func() error {
		var p plan
		if err := json.Unmarshal([]byte(raw), &p); err != nil {
			return err
		}
		pool, err := pgxpool.New(context.Background(), p.Database)
		if err != nil {
			return err
		}
		defer pool.Close()
		server, err := newServer(pool, p)
		if err != nil {
			return err
		}
		return server.Run(context.Background(), &mcp.StdioTransport{})
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, "peers: the server on stdio:", err)
		return 1
	}
	return 0
}

// urlOf says where a pool connects to, and how it executes: through a pooler, if it does.
func urlOf(pool *pgxpool.Pool) string {
	cfg := pool.Config().ConnConfig
	u := url.URL{Scheme: "postgres", User: url.UserPassword(cfg.User, cfg.Password), Path: "/" + cfg.Database}
	query := url.Values{"host": {cfg.Host}, "port": {strconv.Itoa(int(cfg.Port))}, "sslmode": {"disable"}, "pool_max_conns": {"4"}}
	if mode := modes[cfg.DefaultQueryExecMode]; mode != "" {
		query.Set("default_query_exec_mode", mode)
	}
	u.RawQuery = query.Encode()
	return u.String()
}

// modes are the names that pgx reads. Its default has none.
var modes = map[pgx.QueryExecMode]string{
	pgx.QueryExecModeCacheDescribe:  "cache_describe",
	pgx.QueryExecModeExec:           "exec",
	pgx.QueryExecModeSimpleProtocol: "simple_protocol",
}

// newTransport is a client's own, so that clients do not share connections, and ends with the test.
func newTransport(t *testing.T) *http.Transport {
	transport := &http.Transport{DialContext: (&net.Dialer{}).DialContext}
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}
