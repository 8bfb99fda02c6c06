package peers

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"sync"
	"testing"
)

// loss is what becomes of a call on the way.
type loss string

const (
	beforeRequest loss = "before the request" // the server never hears of it
	inRequest     loss = "in the request"     // the server reads half of it
	beforeCommit  loss = "before the commit"  // the client leaves while the handler runs
	afterCommit   loss = "after the commit"   // no byte of the answer arrives
	inAnswer      loss = "in the answer"      // half of it does

	// Those that need what comes before the answer to arrive.
	lastMessage loss = "the last message" // all of the stream but the answer arrives
	inStream    loss = "in the stream"    // it breaks when leave is called, behind its first event
)

func losses() []loss { return []loss{beforeRequest, inRequest, beforeCommit, afterCommit, inAnswer} }

// proxy stands between a client and a server and loses one call each time it is told to. Everything else passes.
type proxy struct {
	url    string
	server string
	client *http.Client
	pass   http.Handler

	mu    sync.Mutex
	next  loss
	leave chan struct{} // closed when the client leaves, with beforeCommit and inStream
	lost  []byte        // the last answer that was lost
	calls int           // how many have come
	gets  []string      // the Last-Event-ID of each GET
}

func newProxy(t *testing.T, server string) *proxy {
	t.Helper()
	target, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	transport := newTransport(t)
	pass := httputil.NewSingleHostReverseProxy(target)
	pass.Transport, pass.FlushInterval, pass.ErrorLog = transport, -1, log.New(io.Discard, "", 0)
	p := &proxy{server: server, client: &http.Client{Transport: transport}, pass: pass}
	front := httptest.NewUnstartedServer(p)
	front.Config.ErrorLog = log.New(io.Discard, "", 0)
	front.Start()
	t.Cleanup(front.Close)
	p.url = front.URL
	return p
}

// lose has the next call lost. With beforeCommit and inStream the client leaves when leave is called.
func (p *proxy) lose(l loss) (leave func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	gone := make(chan struct{})
	p.next, p.leave = l, gone
	return func() { close(gone) }
}

func (p *proxy) take() (loss, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.next
	if l != lastMessage { // which stays until there is a last message: a question comes before it
		p.next = ""
	}
	p.calls++
	return l, p.leave
}

// seen says how many calls have come, and which streams were taken up again.
func (p *proxy) seen() (calls int, resumed []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls, append([]string(nil), p.gets...)
}

// lastLost is the last answer that was lost.
func (p *proxy) lastLost() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lost
}

func (p *proxy) noteLost(answer []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lost, p.next = answer, ""
}

func (p *proxy) noteGet(r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if id := r.Header.Get("Last-Event-ID"); id != "" {
		p.gets = append(p.gets, id)
	}
}

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if r.Method == http.MethodGet {
		p.noteGet(r)
	}
	var l loss
	var leave <-chan struct{}
	if isCall(body) {
		l, leave = p.take()
	}
	switch l {
	case "":
		r.Body = io.NopCloser(bytes.NewReader(body))
		p.pass.ServeHTTP(w, r)
		return
	case beforeRequest:
	case inRequest:
		half := io.MultiReader(bytes.NewReader(body[:len(body)/2]), brokenReader{})
		_, _ = p.send(r.Context(), r, half, len(body))
	case beforeCommit:
		ctx, cancel := context.WithCancel(r.Context())
		go func() { <-leave; cancel() }()
		_, _ = p.send(ctx, r, bytes.NewReader(body), len(body))
	case afterCommit, inAnswer:
		resp, answer := p.send(r.Context(), r, bytes.NewReader(body), len(body))
		p.noteLost(answer)
		if l == inAnswer && resp != nil {
			deliverHalf(w, resp, answer)
		}
	case lastMessage, inStream:
		if p.stream(w, r, body, l, leave) {
			return
		}
	}
	panic(http.ErrAbortHandler) // the way to cut the connection
}

// stream passes a request on, and its answer line by line up to where it is lost. It returns true if there was nothing to lose.
func (p *proxy) stream(w http.ResponseWriter, r *http.Request, body []byte, l loss, leave <-chan struct{}) (complete bool) {
	req, err := http.NewRequestWithContext(r.Context(), r.Method, p.server, bytes.NewReader(body))
	if err != nil {
		return false
	}
	req.Header = r.Header.Clone()
	resp, err := p.client.Do(req)
	if err != nil {
		return false
	}
	defer func() { _ = resp.Body.Close() }()
	for name, values := range resp.Header {
		w.Header()[name] = values
	}
	w.Header().Del("Content-Length")
	w.WriteHeader(resp.StatusCode)
	in := bufio.NewReader(resp.Body)
	for {
		line, err := in.ReadBytes('\n')
		if l == lastMessage && bytes.Contains(line, []byte(`"structuredContent"`)) {
			p.noteLost(line)
			return false
		}
		_, _ = w.Write(line)
		_ = http.NewResponseController(w).Flush()
		if l == inStream && len(bytes.TrimSpace(line)) == 0 { // an event has ended
			<-leave
			return false
		}
		if err != nil {
			return true
		}
	}
}

// send passes a request on and reads the whole answer.
func (p *proxy) send(ctx context.Context, r *http.Request, body io.Reader, size int) (*http.Response, []byte) {
	req, err := http.NewRequestWithContext(ctx, r.Method, p.server, body)
	if err != nil {
		return nil, nil
	}
	req.Header, req.ContentLength = r.Header.Clone(), int64(size)
	resp, err := p.client.Do(req)
	if err != nil {
		return nil, nil
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, nil
	}
	return resp, answer
}

func deliverHalf(w http.ResponseWriter, resp *http.Response, answer []byte) {
	for name, values := range resp.Header {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
	w.WriteHeader(resp.StatusCode)
	_, _ = w.Write(answer[:len(answer)/2])
	_ = http.NewResponseController(w).Flush()
}

// brokenReader ends a body that has not ended.
type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errors.New("peers: the network is gone") }

func isCall(body []byte) bool {
	var m struct {
		Method string `json:"method"`
	}
	return json.Unmarshal(body, &m) == nil && m.Method == "tools/call"
}
