package httpidem

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"

	"github.com/txonce/txonce/txidem"
)

// About responses that cannot be kept back until the commit.
var (
	// ErrUnsupported is returned by what would send something before the commit: flushing and hijacking, also by way of
	// http.ResponseController. A handler that relies on it, or on informational responses (1xx) or trailers, fails with 500 and is
	// rolled back. It wraps http.ErrNotSupported.
	ErrUnsupported = fmt.Errorf("httpidem: a protected handler's response is sent in one piece, after the commit; serve a route that streams or hijacks without the adapter: %w", http.ErrNotSupported)
	// ErrOver is returned by Write when the handler has returned.
	ErrOver = errors.New("httpidem: the handler has returned; its ResponseWriter cannot be used any more")
)

// recorder is the ResponseWriter that a handler gets. It keeps everything back.
type recorder struct {
	before http.Header // what middleware in front has set
	header http.Header // the handler's to change
	most   int         // bytes of the body

	mu       sync.Mutex
	status   int         // 0 until the handler has chosen one
	chosen   http.Header // as it was then: what is changed later counts no more, as in net/http
	body     bytes.Buffer
	fault    error // why the response cannot be used
	hijacked bool  // the handler has asked for the connection
	over     bool
}

func newRecorder(before http.Header, most int) *recorder {
	return &recorder{before: before, header: before.Clone(), most: most}
}

func (rec *recorder) Header() http.Header {
	if rec.header == nil {
		rec.header = make(http.Header)
	}
	return rec.header
}

func (rec *recorder) WriteHeader(status int) {
	if status < 100 || status > 999 {
		panic(fmt.Sprintf("httpidem: WriteHeader with the status %d; use 200 to 599", status))
	}
	rec.mu.Lock()
	defer rec.mu.Unlock()
	rec.choose(status)
}

// choose is WriteHeader with mu held. The first status counts, as in net/http.
func (rec *recorder) choose(status int) {
	switch {
	case rec.over || rec.status != 0:
	case status < 200:
		rec.fault = fmt.Errorf("the informational status %d: %w", status, ErrUnsupported)
	default:
		rec.status, rec.chosen = status, rec.Header().Clone()
	}
}

func (rec *recorder) Write(p []byte) (int, error) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if rec.over {
		return 0, ErrOver
	}
	rec.choose(http.StatusOK)
	switch {
	case len(p) == 0: // fine whatever the status, as in net/http
		return 0, nil
	case !hasBody(rec.status):
		return 0, http.ErrBodyNotAllowed
	case rec.body.Len()+len(p) > rec.most:
		rec.fault = fmt.Errorf("%w: the response has more than %d bytes; answer with less, or with a reference to it", txidem.ErrAnswerTooLarge, rec.most)
		return 0, rec.fault
	}
	return rec.body.Write(p)
}

// hasBody reports whether a response with the status may have a body.
func hasBody(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}

// FlushError is what http.ResponseController calls.
func (rec *recorder) FlushError() error { return fmt.Errorf("flush: %w", ErrUnsupported) }

// Hijack gives a handler that asks for the connection an error that it can say.
func (rec *recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	rec.hijacked = true
	return nil, nil, fmt.Errorf("hijack: %w", ErrUnsupported)
}

// close makes the writer useless: goroutines that the handler has left must not change what was recorded.
func (rec *recorder) close() {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	rec.over = true
}

// end returns what the handler has said, or why that cannot be used.
func (rec *recorder) end(kept []string) (*response, error) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	switch {
	case rec.fault != nil:
		return nil, rec.fault
	case rec.hijacked && rec.status == 0: // it went on as if it had the connection
		return nil, fmt.Errorf("hijack: %w", ErrUnsupported)
	}
	rec.choose(http.StatusOK)
	if rec.trails() {
		return nil, fmt.Errorf("trailers: %w", ErrUnsupported)
	}
	if _, set := rec.chosen["Content-Type"]; !set && rec.body.Len() > 0 && rec.chosen.Get("Content-Encoding") == "" {
		rec.chosen.Set("Content-Type", http.DetectContentType(rec.body.Bytes())) // what net/http would guess is a part of the response
	}
	maps.DeleteFunc(rec.chosen, func(name string, _ []string) bool { return http.CanonicalHeaderKey(name) == HeaderReplayed })
	return newResponse(rec.status, rec.chosen, rec.before, kept, rec.body.String()), nil
}

// trails reports whether the handler has announced or set trailers.
func (rec *recorder) trails() bool {
	if len(rec.chosen["Trailer"]) > 0 {
		return true
	}
	for name := range rec.header {
		if strings.HasPrefix(name, http.TrailerPrefix) {
			return true
		}
	}
	return false
}
