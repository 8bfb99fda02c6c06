package httpidem_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/txidem/httpidem"
)

// TestHandler_H04_WhatCannotWaitIsRefused: the handler hears why, and one that goes on regardless is rolled back.
func TestHandler_H04_WhatCannotWaitIsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		handle handler
		status int
		body   string // of what the handler itself could say, "" for a problem
	}{
		"flush, and go on": {func(w http.ResponseWriter, _ *http.Request, _ pgx.Tx) error {
			if err := http.NewResponseController(w).Flush(); !errors.Is(err, http.ErrNotSupported) || !errors.Is(err, httpidem.ErrUnsupported) {
				return fmt.Errorf("flush: %w", err)
			}
			_, err := io.WriteString(w, "in one piece")
			return err
		}, 200, "in one piece"},
		"flush, and give up": {func(w http.ResponseWriter, _ *http.Request, _ pgx.Tx) error {
			return http.NewResponseController(w).Flush()
		}, 500, ""},
		"no Flusher": {func(w http.ResponseWriter, _ *http.Request, _ pgx.Tx) error {
			if _, ok := w.(http.Flusher); ok {
				return errors.New("it pretends to flush")
			}
			http.Error(w, "no streaming", 500)
			return nil
		}, 500, "no streaming\n"},
		"hijack, and say so": {func(w http.ResponseWriter, _ *http.Request, _ pgx.Tx) error {
			if _, _, err := http.NewResponseController(w).Hijack(); err != nil {
				http.Error(w, "no upgrade", http.StatusNotImplemented)
			}
			return nil
		}, 501, "no upgrade\n"},
		"hijack, and go on": {func(w http.ResponseWriter, _ *http.Request, _ pgx.Tx) error {
			_, _, _ = w.(http.Hijacker).Hijack()
			return nil
		}, 500, ""},
		"early hints": {func(w http.ResponseWriter, _ *http.Request, _ pgx.Tx) error {
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(201)
			return nil
		}, 500, ""},
		"announced trailers": {func(w http.ResponseWriter, _ *http.Request, _ pgx.Tx) error {
			w.Header().Set("Trailer", "X-Sum")
			_, err := w.Write([]byte("x"))
			w.Header().Set("X-Sum", "1")
			return err
		}, 500, ""},
		"other trailers": {func(w http.ResponseWriter, _ *http.Request, _ pgx.Tx) error {
			_, err := w.Write([]byte("x"))
			w.Header().Set(http.TrailerPrefix+"X-Sum", "1")
			return err
		}, 500, ""},
		"full duplex": {func(w http.ResponseWriter, _ *http.Request, _ pgx.Tx) error {
			return http.NewResponseController(w).EnableFullDuplex()
		}, 500, ""},
		"a body where none may be": {func(w http.ResponseWriter, _ *http.Request, _ pgx.Tx) error {
			w.WriteHeader(204)
			if _, err := w.Write([]byte("x")); !errors.Is(err, http.ErrBodyNotAllowed) {
				return fmt.Errorf("got %w", err)
			}
			http.Error(w, "superfluous", 500)
			return nil
		}, 204, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, nil, c.handle)
			a := b.post("A-1", "k", `{}`)
			if a.status != c.status || c.body != "" && a.body != c.body || c.body == "" && c.status == 500 && a.problem() == "" {
				t.Errorf("%+v", a)
			}
			b.wantEffects(map[bool]int{true: 1}[c.status < 400])
		})
	}
}

// TestHandler_H04_WriterIsOverWhenTheHandlerIs: a goroutine that it has left changes nothing.
func TestHandler_H04_WriterIsOverWhenTheHandlerIs(t *testing.T) {
	t.Parallel()
	var kept http.ResponseWriter
	h := protect(t, memory(t, nil), nil, func(w http.ResponseWriter, _ *http.Request, _ pgx.Tx) error {
		kept = w
		var all sync.WaitGroup
		for range 8 { // at the same time is fine
			all.Go(func() { _, _ = io.WriteString(w, "x") })
		}
		all.Wait()
		return nil
	})
	first := ask(h, "POST", "/x", "", "Idempotency-Key", "k")
	if _, err := kept.Write([]byte("late")); !errors.Is(err, httpidem.ErrOver) {
		t.Errorf("late: %v", err)
	}
	kept.WriteHeader(500)
	if again := ask(h, "POST", "/x", "", "Idempotency-Key", "k"); first.body != "xxxxxxxx" || again.body != first.body || again.status != 200 {
		t.Errorf("first %+v, again %+v", first, again)
	}
	// And where it panicked.
	h = protect(t, memory(t, nil), nil, func(w http.ResponseWriter, _ *http.Request, _ pgx.Tx) error { kept = w; panic("x") })
	ask(h, "POST", "/x", "", "Idempotency-Key", "k")
	if _, err := kept.Write([]byte("late")); !errors.Is(err, httpidem.ErrOver) {
		t.Errorf("late, behind a panic: %v", err)
	}
}

// TestHandler_HeadHasNoBody: net/http leaves it out, and what the handler said of its length stays.
func TestHandler_HeadHasNoBody(t *testing.T) {
	t.Parallel()
	url := serve(t, protect(t, memory(t, nil), &httpidem.Config{Key: httpidem.KeyOptional}, func(w http.ResponseWriter, _ *http.Request, _ pgx.Tx) error {
		w.Header().Set("Content-Length", "7")
		return nil
	}))
	if a := send(t, "HEAD", url, ""); a.status != 200 || a.body != "" || a.header.Get("Content-Length") != "7" {
		t.Errorf("%+v", a)
	}
}

// TestHandler_H02_WriteOfNothingWhereNoBodyMayBe is fine, as in net/http.
func TestHandler_H02_WriteOfNothingWhereNoBodyMayBe(t *testing.T) {
	t.Parallel()
	h := protect(t, memory(t, nil), nil, func(w http.ResponseWriter, _ *http.Request, _ pgx.Tx) error {
		w.WriteHeader(204)
		_, err := w.Write(nil)
		return err
	})
	if a := ask(h, "POST", "/x", "", "Idempotency-Key", "k"); a.status != 204 {
		t.Errorf("%+v", a)
	}
}
