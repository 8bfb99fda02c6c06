package httpidem_test

import (
	"bytes"
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/txidem/httpidem"
)

// TestHandler_H04_FilesOfAScopeThatParsesTheForm are removed.
func TestHandler_H04_FilesOfAScopeThatParsesTheForm(t *testing.T) {
	t.Parallel()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	part, _ := form.CreateFormFile("f", "f")
	_, _ = part.Write(make([]byte, 1000))
	_ = form.Close()
	var names []string
	parse := func(r *http.Request) {
		if err := r.ParseMultipartForm(0); err != nil {
			t.Error(err)
			return
		}
		f, err := r.MultipartForm.File["f"][0].Open()
		if err != nil {
			t.Error(err)
			return
		}
		defer f.Close()
		if on, ok := f.(*os.File); ok {
			names = append(names, on.Name())
		}
	}
	h := protect(t, memory(t, nil), &httpidem.Config{
		Scope:     func(r *http.Request) (string, error) { parse(r); return "alice", nil },
		Operation: func(r *http.Request) string { parse(r); return "upload" },
	}, func(_ http.ResponseWriter, r *http.Request, _ pgx.Tx) error { parse(r); return nil })
	if a := ask(h, "POST", "/x", body.String(), "Content-Type", form.FormDataContentType(), "Idempotency-Key", "k"); a.status != 200 {
		t.Errorf("%+v", a)
	}
	if len(names) != 3 {
		t.Fatalf("files: %q", names)
	}
	for _, name := range names {
		if _, err := os.Stat(name); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is still there: %v", name, err)
		}
	}
}

// TestMiddleware_H04_FilesOfAFormParsedInFrontStay: they are of whoever has parsed it, and the handler reads them.
func TestMiddleware_H04_FilesOfAFormParsedInFrontStay(t *testing.T) {
	t.Parallel()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	part, _ := form.CreateFormFile("f", "f")
	_, _ = part.Write(make([]byte, 1000))
	_ = form.Close()
	h := protect(t, memory(t, nil), nil, func(_ http.ResponseWriter, r *http.Request, _ pgx.Tx) error {
		f, _, err := r.FormFile("f")
		if err == nil {
			_ = f.Close()
		}
		return err
	})
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = io.NopCloser(bytes.NewReader(body.Bytes()))
		if err := r.ParseMultipartForm(0); err != nil {
			t.Error(err)
		}
		r.Body = io.NopCloser(bytes.NewReader(body.Bytes()))
		h.ServeHTTP(w, r)
	}))
	if a := send(t, "POST", url, body.String(), "Content-Type", form.FormDataContentType(), "Idempotency-Key", "k"); a.status != 200 {
		t.Errorf("%+v", a)
	}
}
