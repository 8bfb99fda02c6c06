package httpidem

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime/multipart"
	"net/http"
	"os"
	"time"
)

// bodyReader reads requests' bodies whole, within bounds (H04).
type bodyReader struct {
	most    int64
	timeout time.Duration
	log     *slog.Logger
}

// newBodyReader gives the zero values their defaults. config is the type that has the fields, for errors.
func newBodyReader(config string, most int64, timeout time.Duration, log *slog.Logger) (bodyReader, error) {
	switch {
	case most < 0:
		return bodyReader{}, fmt.Errorf("httpidem: %s.MaxBody is %d; it must be a number of bytes above 0", config, most)
	case timeout < 0:
		return bodyReader{}, fmt.Errorf("httpidem: %s.BodyTimeout is %v; it must be above 0", config, timeout)
	case most == 0:
		most = 1 << 20
	}
	if timeout == 0 {
		timeout = 30 * time.Second
	}
	return bodyReader{most, timeout, loggerOr(log)}, nil
}

// read returns the body, or why not. It runs in front of the claim: a client that sends slowly holds no connection of the
// database, and one that stops sending has begun nothing.
func (b bodyReader) read(w http.ResponseWriter, r *http.Request) ([]byte, *problem) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, b.taken(r, nil)
	}
	connection := http.NewResponseController(w)
	_ = connection.SetReadDeadline(time.Now().Add(b.timeout))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, b.most))
	var large *http.MaxBytesError
	switch {
	case err == nil:
		_ = connection.SetReadDeadline(time.Time{}) // net/http does so too, but not behind a body that middleware has read already
		return body, b.taken(r, body)
	case errors.As(err, &large):
		return nil, largeBody(b.most)
	case errors.Is(err, os.ErrDeadlineExceeded):
		w.Header().Set("Connection", "close") // the rest of the body may still be on its way
		return nil, slowBody(b.timeout)
	}
	w.Header().Set("Connection", "close")
	return nil, badBody()
}

// taken refuses a request whose body was read in front and not put back: it could not be compared with another one, and two
// different forms would be one request (K07).
func (b bodyReader) taken(r *http.Request, body []byte) *problem {
	if len(body) > 0 || r.ContentLength <= 0 && len(r.PostForm) == 0 && r.MultipartForm == nil {
		return nil
	}
	b.log.ErrorContext(r.Context(), "httpidem: a request was refused because middleware in front has read its body and not put it back", "path", r.URL.Path)
	return takenBody()
}

// removeFiles removes the files of a form that was read of r, a copy: net/http does so only for the request that it knows. Those
// of the form that was there before belong to whoever has read it.
func removeFiles(r *http.Request, before *multipart.Form) {
	if r.MultipartForm != nil && r.MultipartForm != before {
		_ = r.MultipartForm.RemoveAll()
	}
}

// withBody returns the request with a body that can be read from its beginning.
func withBody(r *http.Request, body []byte) *http.Request {
	r = r.WithContext(r.Context())
	r.Body, r.ContentLength, r.TransferEncoding = http.NoBody, int64(len(body)), nil
	if len(body) > 0 {
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	r.GetBody = nil
	return r
}
