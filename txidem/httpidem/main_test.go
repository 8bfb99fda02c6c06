package httpidem_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/internal/dbtest"
	"github.com/txonce/txonce/txidem"
	"github.com/txonce/txonce/txidem/httpidem"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

type handler = func(http.ResponseWriter, *http.Request, pgx.Tx) error

// bench is a server on a real socket with a protected endpoint, POST /orders/{id}/refunds, and what tests look at.
type bench struct {
	t     *testing.T
	pool  *pgxpool.Pool
	store *txidem.Store
	url   string
	log   *lockedBuffer
}

// setup makes a bench. The handler writes an effect and then does what handle does.
func setup(t *testing.T, cfg *httpidem.Config, handle handler, changes ...func(*pgxpool.Config)) *bench {
	t.Helper()
	b := newBench(t, &txidem.Config{Policy: &txidem.Policy{Wait: txidem.NoWait}}, changes...)
	b.serve(b.routes(cfg, handle))
	return b
}

func newBench(t *testing.T, cfg *txidem.Config, changes ...func(*pgxpool.Config)) *bench {
	t.Helper()
	b := &bench{t: t, log: &lockedBuffer{}}
	b.pool = dbtest.Pool(t, func(cfg *pgxpool.Config) {
		for _, change := range changes {
			change(cfg)
		}
	})
	if _, err := b.pool.Exec(t.Context(), `create table refund (id bigserial primary key, order_id text unique, cents bigint)`); err != nil {
		t.Fatal(err)
	}
	var err error
	if b.store, err = txidem.New(b.pool, cfg); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *bench) adapter(cfg *httpidem.Config) *httpidem.Adapter {
	b.t.Helper()
	if cfg == nil {
		cfg = &httpidem.Config{}
	}
	if cfg.Scope == nil {
		cfg.Scope = httpidem.ScopeIs("alice")
	}
	cfg.Logger = slog.New(slog.NewTextHandler(b.log, nil))
	a, err := httpidem.New(b.store, cfg)
	if err != nil {
		b.t.Fatal(err)
	}
	return a
}

func (b *bench) routes(cfg *httpidem.Config, handle handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /orders/{id}/refunds", b.adapter(cfg).Handler(func(w http.ResponseWriter, r *http.Request, tx pgx.Tx) error {
		if err := refund(r.Context(), tx, r.PathValue("id")); err != nil {
			return err
		}
		return handle(w, r, tx)
	}))
	return mux
}

// serve starts the server. It ends, with its connections, when the test does.
func (b *bench) serve(h http.Handler) {
	b.t.Helper()
	b.url = serve(b.t, h)
}

func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.URL
}

// refund is the effect that tests count. One order has at most one.
func refund(ctx context.Context, tx pgx.Tx, order string) error {
	_, err := tx.Exec(ctx, `insert into refund (order_id, cents) values ($1, 1050)`, order)
	return err
}

func created(w http.ResponseWriter, _ *http.Request, _ pgx.Tx) error {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_, err := io.WriteString(w, `{"refund": "R-1"}`)
	return err
}

func (b *bench) count(sql string) (n int) {
	b.t.Helper()
	if err := b.pool.QueryRow(b.t.Context(), sql).Scan(&n); err != nil {
		b.t.Fatal(err)
	}
	return n
}

func (b *bench) effects() int { return b.count(`select count(*) from refund`) }
func (b *bench) records() int { return b.count(`select count(*) from txonce.call`) }

// answer is what a client got.
type answer struct {
	status int
	header http.Header
	body   string
}

func (a answer) replayed() bool { return a.header.Get("Idempotent-Replayed") == "true" }

// problem returns the word at the end of the problem's type.
func (a answer) problem() string {
	word, _ := strings.CutPrefix(a.document()["type"].(string), "tag:txonce.dev,2026:")
	return word
}

func (a answer) document() map[string]any {
	doc := map[string]any{"type": ""}
	if a.header.Get("Content-Type") == "application/problem+json" {
		_ = json.Unmarshal([]byte(a.body), &doc)
	}
	return doc
}

// post sends a refund of an order. Headers are pairs of name and value.
func (b *bench) post(order, key, body string, headers ...string) answer {
	b.t.Helper()
	if key != "" {
		headers = append([]string{"Idempotency-Key", key}, headers...)
	}
	return send(b.t, "POST", b.url+"/orders/"+order+"/refunds", body, headers...)
}

func send(t testing.TB, method, url, body string, headers ...string) answer {
	t.Helper()
	a, err := try(t.Context(), method, url, body, headers...)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// try sends a request over a connection of its own.
func try(ctx context.Context, method, url, body string, headers ...string) (answer, error) {
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	addHeaders(r, headers)
	transport := &http.Transport{DisableKeepAlives: true, DisableCompression: true}
	resp, err := transport.RoundTrip(r)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(got)}, err
}

// addHeaders adds pairs of name and value; the type of the body is JSON where they do not say another.
func addHeaders(r *http.Request, pairs []string) {
	for i := 0; i < len(pairs); i += 2 {
		r.Header.Add(pairs[i], pairs[i+1])
	}
	if r.Header["Content-Type"] == nil {
		r.Header.Set("Content-Type", "application/json")
	}
}

// want checks the parts of an answer that tests speak of.
func (b *bench) want(label string, got answer, status int, problem string, replayed bool) {
	b.t.Helper()
	if got.status != status || got.problem() != problem || got.replayed() != replayed {
		b.t.Errorf("%s: got %d %q replayed %v, want %d %q replayed %v\n%s", label, got.status, got.problem(), got.replayed(), status, problem, replayed, got.body)
	}
	if strings.Contains(got.body, "secret") {
		b.t.Errorf("%s: what is for the log has left the server: %s", label, got.body)
	}
}

func (b *bench) wantEffects(want int) {
	b.t.Helper()
	if n := b.effects(); n != want {
		b.t.Errorf("%d effects, want %d", n, want)
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// memory makes a store without Postgres.
func memory(t testing.TB, cfg *txidem.Config) *txidem.Store {
	t.Helper()
	store, err := txidem.NewMemory(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// protect puts a handler on a store in memory.
func protect(t testing.TB, store *txidem.Store, cfg *httpidem.Config, handle handler) http.Handler {
	t.Helper()
	if cfg == nil {
		cfg = &httpidem.Config{}
	}
	if cfg.Scope == nil {
		cfg.Scope = httpidem.ScopeIs("alice")
	}
	a, err := httpidem.New(store, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return a.Handler(handle)
}

// ask calls a handler without a socket.
func ask(h http.Handler, method, target, body string, headers ...string) answer {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	addHeaders(r, headers)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return answer{w.Code, w.Result().Header, w.Body.String()}
}
