package httpidem_test

import (
	"bytes"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/txidem/httpidem"
)

// TestMiddleware_K07_BodyReadInFront: middleware in front has read the body, so that nothing is left to compare.
func TestMiddleware_K07_BodyReadInFront(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		kind string
		read func(*http.Request)
	}{
		"a form":             {"application/x-www-form-urlencoded", func(r *http.Request) { _ = r.FormValue("csrf") }},
		"a form, no length":  {"application/x-www-form-urlencoded", func(r *http.Request) { _ = r.FormValue("csrf"); r.ContentLength = -1 }},
		"the bytes":          {"application/json", func(r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }},
		"the bytes, no body": {"application/json", func(r *http.Request) { _, _ = io.Copy(io.Discard, r.Body); r.Body = http.NoBody }},
	} {
		h := protect(t, memory(t, nil), &httpidem.Config{Key: httpidem.KeyOptional}, func(http.ResponseWriter, *http.Request, pgx.Tx) error {
			t.Errorf("%s: it ran", name)
			return nil
		})
		url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			c.read(r)
			h.ServeHTTP(w, r)
		}))
		if a := send(t, "POST", url, "to=alice", "Content-Type", c.kind, "Idempotency-Key", "k"); a.status != 500 || a.problem() != "fault" {
			t.Errorf("%s: %+v", name, a)
		}
	}
}

// TestMiddleware_K07_FormReadInFrontAndPutBack is a form like others.
func TestMiddleware_K07_FormReadInFrontAndPutBack(t *testing.T) {
	t.Parallel()
	h := protect(t, memory(t, nil), nil, func(w http.ResponseWriter, r *http.Request, _ pgx.Tx) error {
		_, err := io.WriteString(w, r.FormValue("to"))
		return err
	})
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		_ = r.FormValue("csrf")
		r.Body = io.NopCloser(bytes.NewReader(body))
		h.ServeHTTP(w, r)
	}))
	form := []string{"Content-Type", "application/x-www-form-urlencoded", "Idempotency-Key", "k"}
	if a := send(t, "POST", url, "to=alice", form...); a.status != 200 || a.body != "alice" {
		t.Errorf("first: %+v", a)
	}
	if a := send(t, "POST", url, "to=bob", form...); a.problem() != "key_reused" {
		t.Errorf("another: %+v", a)
	}
}

// TestHandler_H04_BodyBufferedInFront: the deadline of a body that middleware has read already is not the handler's either.
func TestHandler_H04_BodyBufferedInFront(t *testing.T) {
	t.Parallel()
	const timeout = 50 * time.Millisecond
	b := newBench(t, nil)
	h := b.routes(&httpidem.Config{BodyTimeout: timeout}, func(w http.ResponseWriter, r *http.Request, tx pgx.Tx) error {
		if _, err := tx.Exec(r.Context(), `select pg_sleep(0.2)`); err != nil {
			return err
		}
		return created(w, r, tx)
	})
	b.serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		h.ServeHTTP(w, r)
	}))
	b.want("first", b.post("A-1", "k", `{}`), 201, "", false)
}
