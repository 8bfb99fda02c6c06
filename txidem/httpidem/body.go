package httpidem

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

// bodyReader reads requests' bodies whole, within bounds (H04).
type bodyReader struct {
	most    int64
	timeout time.Duration
}

// newBodyReader gives the zero values their defaults. config is the type that has the fields, for errors.
func newBodyReader(config string, most int64, timeout time.Duration) (bodyReader, error) {
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
	return bodyReader{most, timeout}, nil
}

// read returns the body, or why not. It runs in front of the claim: a client that sends slowly holds no connection of the
// database, and one that stops sending has begun nothing.
func (b bodyReader) read(w http.ResponseWriter, r *http.Request) ([]byte, *problem) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(b.timeout)) // net/http takes it back behind the body
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, b.most))
	var large *http.MaxBytesError
	switch {
	case err == nil:
		return body, nil
	case errors.As(err, &large):
		return nil, largeBody(b.most)
	case errors.Is(err, os.ErrDeadlineExceeded):
		w.Header().Set("Connection", "close") // the rest of the body may still be on its way
		return nil, slowBody(b.timeout)
	}
	w.Header().Set("Connection", "close")
	return nil, badBody()
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
