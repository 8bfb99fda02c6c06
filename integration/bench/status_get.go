package main

import (
	"bytes"
	"context"
	"net/http"
	"net/url"

	"github.com/txonce/txonce/toolcall"
)

// scopeOf is who asks.
func scopeOf(*http.Request) (string, error) { return scope, nil }

// get asks a handler in this process.
func get(ctx context.Context, h http.Handler, id toolcall.ID, query string) (code int, body string) {
	r := (&http.Request{Method: http.MethodGet, URL: &url.URL{Path: "/status/" + id.String(), RawQuery: query}}).WithContext(ctx)
	w := &response{header: make(http.Header)}
	h.ServeHTTP(w, r)
	return w.code, w.body.String()
}

// response is what a handler answered.
type response struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

func (w *response) Header() http.Header         { return w.header }
func (w *response) WriteHeader(code int)        { w.code = code }
func (w *response) Write(p []byte) (int, error) { return w.body.Write(p) }
