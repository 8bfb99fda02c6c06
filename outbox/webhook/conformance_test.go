package webhook_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/txonce/txonce/internal/keyheader"
	"github.com/txonce/txonce/outbox"
	"github.com/txonce/txonce/outbox/outboxtest"
	"github.com/txonce/txonce/outbox/webhook"
)

// endpoint is a receiver that behaves as the suite says.
type endpoint struct {
	t      *testing.T
	server *httptest.Server
	bare   bool          // keys are not quoted
	done   chan struct{} // closed when the test is over

	mu       sync.Mutex
	behaves  outboxtest.Ability
	received []outboxtest.Received
}

// door accepts nobody while the endpoint is dead.
type door struct {
	net.Listener
	e *endpoint
}

func (d door) Accept() (net.Conn, error) {
	for {
		conn, err := d.Listener.Accept()
		if err != nil || d.e.behaviour() != outboxtest.Dead {
			return conn, err
		}
		_ = conn.Close()
	}
}

func newEndpoint(t *testing.T, secure bool) *endpoint {
	e := &endpoint{t: t, behaves: outboxtest.Take, done: make(chan struct{})}
	e.server = httptest.NewUnstartedServer(e)
	e.server.Listener = door{e.server.Listener, e}
	if secure {
		e.server.StartTLS()
	} else {
		e.server.Start()
	}
	t.Cleanup(e.server.Close)
	t.Cleanup(func() { close(e.done) })
	return e
}

func (e *endpoint) behaviour() outboxtest.Ability {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.behaves
}

func (e *endpoint) behave(a outboxtest.Ability) {
	e.mu.Lock()
	e.behaves = a
	e.mu.Unlock()
	if a == outboxtest.Dead {
		e.server.CloseClientConnections()
	}
}

func (e *endpoint) all() []outboxtest.Received {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]outboxtest.Received(nil), e.received...)
}

func (e *endpoint) take(r *http.Request) {
	body, err := io.ReadAll(r.Body)
	key, bad := r.Header.Get("Idempotency-Key"), error(nil)
	if !e.bare {
		key, bad = keyheader.Parse(r.Header.Values("Idempotency-Key"))
	}
	if err != nil || bad != nil || key == "" {
		e.t.Errorf("a request cannot be read: %v, %v", err, bad)
	}
	got := outboxtest.Received{ID: r.Header.Get("Webhook-Id"), Key: key, Headers: map[string]string{}, Body: body}
	for name := range r.Header {
		got.Headers[name] = r.Header.Get(name)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.received = append(e.received, got)
}

func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch e.behaviour() {
	case outboxtest.Take:
		e.take(r)
	case outboxtest.Refuse:
		w.WriteHeader(http.StatusConflict)
	case outboxtest.Throttle:
		w.Header().Set("Retry-After", "120")
		w.WriteHeader(http.StatusTooManyRequests)
	case outboxtest.Reject:
		w.WriteHeader(http.StatusNotFound)
	case outboxtest.Hang:
		e.take(r)
		select {
		case <-r.Context().Done():
		case <-e.done:
		}
	case outboxtest.Cut:
		e.take(r)
		panic(http.ErrAbortHandler)
	}
}

// publisher makes one that may reach the endpoint.
func (e *endpoint) publisher(cfg webhook.Config) *webhook.Publisher {
	e.t.Helper()
	e.bare = cfg.BareKey
	cfg.AllowHTTP, cfg.AllowPrivate = e.server.TLS == nil, true
	cfg.TLS = e.server.Client().Transport.(*http.Transport).TLSClientConfig
	return newPublisher(e.t, cfg)
}

func newPublisher(t *testing.T, cfg webhook.Config) *webhook.Publisher {
	t.Helper()
	p, err := webhook.New(&cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.CloseIdleConnections)
	return p
}

func TestPublisher_O07_ConformanceAtOneURL(t *testing.T) {
	t.Parallel()
	outboxtest.Run(t, func(t *testing.T) outboxtest.Harness {
		e := newEndpoint(t, false)
		p := e.publisher(webhook.Config{URL: e.server.URL, Secrets: []string{secret(1)}})
		return outboxtest.Harness{
			Publisher: p, Received: e.all, Behave: e.behave, Close: p.CloseIdleConnections,
			Bad: []outbox.Message{
				{Address: e.server.URL}, // there is one URL for all
				{Headers: map[string]string{"webhook-id": "1"}},
				{Headers: map[string]string{"IDEMPOTENCY-KEY": "1"}},
				{Headers: map[string]string{"Host": "other.example"}},
				{Headers: map[string]string{"Content_Length": "0"}},
				{Headers: map[string]string{"X-A": "b\r\nX-C: d"}},
				{Headers: map[string]string{"X-A: b\r\nX-C": "d"}},
				{Headers: map[string]string{"X-A": " b"}},
			},
		}
	})
}

func TestPublisher_O07_ConformanceAtAddressesOverTLS(t *testing.T) {
	t.Parallel()
	outboxtest.Run(t, func(t *testing.T) outboxtest.Harness {
		e := newEndpoint(t, true)
		p := e.publisher(webhook.Config{BareKey: true})
		return outboxtest.Harness{
			Publisher: p, Received: e.all, Behave: e.behave, Close: p.CloseIdleConnections, Address: e.server.URL + "/hooks?tenant=7",
			Bad: []outbox.Message{{}, {Address: "http://a.example"}, {Address: "https://u:p@a.example"}, {Address: "ftp://a.example"}},
		}
	})
}
