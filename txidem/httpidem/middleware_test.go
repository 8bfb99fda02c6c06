package httpidem_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/google/go-cmp/cmp"

	"github.com/txonce/txonce/toolcall"
	"github.com/txonce/txonce/txidem"
	"github.com/txonce/txonce/txidem/httpidem"
)

// route says which operation the request is, of a protected handler.
func route(w http.ResponseWriter, r *http.Request) {
	call, _ := toolcall.FromContext(r.Context())
	_, _ = io.WriteString(w, call.Tool)
}

// TestMiddleware_K01_OperationIsMethodAndRoute, in ServeMux and in chi, behind the router or in front of it.
func TestMiddleware_K01_OperationIsMethodAndRoute(t *testing.T) {
	t.Parallel()
	a, err := httpidem.New(memory(t, nil), &httpidem.Config{Scope: httpidem.ScopeIs("alice")})
	if err != nil {
		t.Fatal(err)
	}
	plain := http.HandlerFunc(route)
	mux := http.NewServeMux()
	mux.Handle("POST /orders/{id}/refunds", a.Middleware(plain))
	mux.Handle("/any/", a.Middleware(plain))
	inFront := http.NewServeMux()
	inFront.Handle("POST /orders/{id}/refunds", plain)
	router := chi.NewRouter()
	router.With(a.Middleware).Post("/orders/{id}/refunds", route)
	router.Route("/v1", func(r chi.Router) {
		r.Group(func(r chi.Router) { r.Use(a.Middleware); r.Post("/orders/{id}", route) })
	})
	for _, c := range []struct {
		h                    http.Handler
		method, target, want string
	}{
		{mux, "POST", "/orders/A-1/refunds", "POST /orders/{id}/refunds"},
		{mux, "PUT", "/any/thing", "PUT /any/"},
		{a.Middleware(inFront), "POST", "/orders/A-1/refunds", "POST /orders/A-1/refunds"},
		{a.Middleware(plain), "POST", "/" + strings.Repeat("x", 300), "sha256:"},
		{router, "POST", "/orders/A-1/refunds", "POST /orders/{id}/refunds"},
		{router, "POST", "/v1/orders/A-1", "POST /v1/orders/{id}"},
	} {
		got := ask(c.h, c.method, c.target, "", "Idempotency-Key", c.target[:5]).body
		if strings.HasPrefix(c.want, "sha256:") {
			got, c.want = got[:min(7, len(got))], "sha256:"
		}
		if got != c.want {
			t.Errorf("%s %s: %q, want %q", c.method, c.target, got, c.want)
		}
	}
}

// TestMiddleware_K07_AnotherPrefixIsAnotherRequest: what a router strips from the path tells requests apart.
func TestMiddleware_K07_AnotherPrefixIsAnotherRequest(t *testing.T) {
	t.Parallel()
	a, err := httpidem.New(memory(t, nil), &httpidem.Config{Scope: httpidem.ScopeIs("alice")})
	if err != nil {
		t.Fatal(err)
	}
	inner, outer := http.NewServeMux(), http.NewServeMux()
	inner.Handle("POST /refunds", a.Middleware(http.HandlerFunc(route)))
	outer.Handle("/eu/", http.StripPrefix("/eu", inner))
	outer.Handle("/us/", http.StripPrefix("/us", inner))
	if first := ask(outer, "POST", "/eu/refunds", "", "Idempotency-Key", "k"); first.status != 200 || first.body != "POST /refunds" {
		t.Errorf("%+v", first)
	}
	if other := ask(outer, "POST", "/us/refunds", "", "Idempotency-Key", "k"); other.status != 422 || other.problem() != "key_reused" {
		t.Errorf("%+v", other)
	}
}

// TestMiddleware_H02_TransactionAndAbort: the handler finds its transaction, and ends with an error by Abort.
func TestMiddleware_H02_TransactionAndAbort(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.serve(b.adapter(nil).Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tx, ok := httpidem.Tx(r.Context())
		if safe := r.Method == "GET" || r.Method == "HEAD" || r.Method == "OPTIONS" || r.Method == "TRACE"; ok == safe {
			t.Errorf("%s: transaction %v", r.Method, ok)
		}
		if !ok {
			if httpidem.Abort(r.Context(), errors.New("x")) {
				t.Errorf("%s: there is nothing to abort", r.Method)
			}
			w.WriteHeader(204)
			return
		}
		if err := refund(r.Context(), tx, r.URL.Path); err != nil {
			httpidem.Abort(r.Context(), err)
			return
		}
		w.WriteHeader(201)
		switch r.URL.Path {
		case "/fail":
			httpidem.Abort(r.Context(), txidem.Fail("bad", "no"))
			httpidem.Abort(r.Context(), errors.New("the first one counts"))
		case "/nil":
			if httpidem.Abort(r.Context(), nil) {
				t.Error("nil aborts")
			}
		}
	})))
	for _, method := range []string{"GET", "HEAD", "OPTIONS", "TRACE"} {
		b.want(method, send(t, method, b.url+"/x", ""), 204, "", false)
	}
	b.want("POST without a key", send(t, "POST", b.url+"/x", ""), 400, "no_key", false)
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE"} {
		key := []string{"Idempotency-Key", method}
		b.want(method, send(t, method, b.url+"/"+method, "", key...), 201, "", false)
		b.want(method, send(t, method, b.url+"/"+method, "", key...), 201, "", true)
	}
	b.want("fail", send(t, "POST", b.url+"/fail", "", "Idempotency-Key", "f"), 422, "failed", false)
	b.want("fail", send(t, "POST", b.url+"/fail", "", "Idempotency-Key", "f"), 422, "failed", true)
	b.want("nil", send(t, "POST", b.url+"/nil", "", "Idempotency-Key", "n"), 201, "", false)
	b.want("violated constraint", send(t, "POST", b.url+"/nil", "", "Idempotency-Key", "other"), 500, "fault", false)
	b.wantEffects(5)
}

// TestMiddleware_R10_OneAdapterInAnother says so, instead of waiting for itself.
func TestMiddleware_R10_OneAdapterInAnother(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.serve(b.adapter(nil).Middleware(b.routes(nil, created)))
	b.want("nested", b.post("A-1", "k", `{}`), 500, "fault", false)
	if !strings.Contains(b.log.String(), txidem.ErrNested.Error()) {
		t.Errorf("the log has %s", b.log)
	}
}

func TestTx_OfNothing(t *testing.T) {
	t.Parallel()
	if tx, ok := httpidem.Tx(t.Context()); ok || tx != nil {
		t.Error("a transaction out of nowhere")
	}
}

func TestNew_ErrorsNameTheField(t *testing.T) {
	t.Parallel()
	store := memory(t, nil)
	scope := httpidem.ScopeIs("alice")
	for want, make := range map[string]func() (*httpidem.Adapter, error){
		"needs a store": func() (*httpidem.Adapter, error) { return httpidem.New(nil, &httpidem.Config{Scope: scope}) },
		"Scope":         func() (*httpidem.Adapter, error) { return httpidem.New(store, nil) },
		"Config.Scope": func() (*httpidem.Adapter, error) {
			return httpidem.New(store, &httpidem.Config{Scope: httpidem.ScopeIs("")})
		},
		"Config.Key": func() (*httpidem.Adapter, error) { return httpidem.New(store, &httpidem.Config{Scope: scope, Key: 7}) },
		"Config.Policy": func() (*httpidem.Adapter, error) {
			return httpidem.New(store, &httpidem.Config{Scope: scope, Policy: &txidem.Policy{Attempts: -1}})
		},
		"Config.Rules": func() (*httpidem.Adapter, error) {
			return httpidem.New(store, &httpidem.Config{Scope: scope, Rules: txidem.RuleSpec{Ignore: []string{"memo"}}})
		},
		"Config.MaxBody": func() (*httpidem.Adapter, error) {
			return httpidem.New(store, &httpidem.Config{Scope: scope, MaxBody: -1})
		},
		"Config.BodyTimeout": func() (*httpidem.Adapter, error) {
			return httpidem.New(store, &httpidem.Config{Scope: scope, BodyTimeout: -1})
		},
		"Set-Cookie": func() (*httpidem.Adapter, error) {
			return httpidem.New(store, &httpidem.Config{Scope: scope, Headers: []string{"set-cookie"}})
		},
		"empty name": func() (*httpidem.Adapter, error) {
			return httpidem.New(store, &httpidem.Config{Scope: scope, Headers: []string{""}})
		},
	} {
		if a, err := make(); a != nil || err == nil || !strings.HasPrefix(err.Error(), "httpidem: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v", want, a, err)
		}
	}
}

func TestRecordsStatus(t *testing.T) {
	t.Parallel()
	var got []int
	for status := range 1000 {
		if httpidem.RecordsStatus(status) {
			got = append(got, status)
		}
	}
	if diff := cmp.Diff([]int{400, 410, 413, 415, 422}, got); diff != "" {
		t.Error(diff)
	}
}
