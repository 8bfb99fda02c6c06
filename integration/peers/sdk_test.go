package peers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// sdkClient is a session of the official SDK's client. What it has received is read from the wire, for the client makes
// floats of numbers.
type sdkClient struct {
	session *mcp.ClientSession
	tap     *tap
}

// connectSDK opens a session over the transport that via makes; it gets a tap to put in.
func connectSDK(t *testing.T, opts *mcp.ClientOptions, via func(*tap) mcp.Transport) (*sdkClient, error) {
	t.Helper()
	c := &sdkClient{tap: &tap{}}
	var err error
	c.session, err = mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, opts).Connect(t.Context(), via(c.tap), nil)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = c.session.Close() })
	return c, nil
}

func (c *sdkClient) revision() string { return c.session.InitializeResult().ProtocolVersion }

func (c *sdkClient) call(ctx context.Context, what call) (*answer, error) {
	_, err := c.session.CallTool(ctx, &mcp.CallToolParams{Name: what.name(), Arguments: json.RawMessage(what.args), Meta: what.allMeta()})
	if err != nil {
		return nil, err
	}
	return c.tap.last()
}

// pipe puts the tap into a transport of messages, such as memory and stdio.
func (tp *tap) pipe(over mcp.Transport) mcp.Transport { return tapped{over, tp} }

// web makes a client's transport over HTTP with the tap in it.
func (tp *tap) web(t *testing.T, url string, k kind) mcp.Transport {
	over := &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: webTap{k.over(newTransport(t)), tp}}, MaxRetries: -1}
	if k.resume {
		over.MaxRetries = 0 // its default
	}
	return over
}

func (k kind) sdkOptions() *mcp.ClientOptions {
	opts := &mcp.ClientOptions{}
	if k.ask != nil {
		opts.ElicitationHandler = func(_ context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: k.ask(req.Params.Message)}, nil
		}
	}
	if k.hears != nil {
		opts.ProgressNotificationHandler = func(_ context.Context, req *mcp.ProgressNotificationClientRequest) {
			k.hear(progress{req.Params.ProgressToken, req.Params.Progress, req.Params.Message})
		}
	}
	return opts
}

// hear never holds up the client.
func (k kind) hear(p progress) {
	select {
	case k.hears <- p:
	default:
	}
}

// over sends the caller's token with each request.
func (k kind) over(next http.RoundTripper) http.RoundTripper {
	if k.token == "" {
		return next
	}
	return bearer{k.token, next}
}

type bearer struct {
	token string
	next  http.RoundTripper
}

func (b bearer) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("Authorization", "Bearer "+b.token)
	return b.next.RoundTrip(req)
}

// tap keeps the messages of a session.
type tap struct {
	mu       sync.Mutex
	messages []message
}

// message is one, in JSON. An arrow says which way it went.
type message struct {
	arrow string
	json  []byte
}

const (
	toServer = "-->"
	toClient = "<--"
)

func (tp *tap) add(arrow string, raw []byte) {
	tp.mu.Lock()
	defer tp.mu.Unlock()
	tp.messages = append(tp.messages, message{arrow, bytes.Clone(raw)})
}

// all returns the messages up to now.
func (tp *tap) all() []message {
	tp.mu.Lock()
	defer tp.mu.Unlock()
	return append([]message(nil), tp.messages...)
}

// last is the result of the last call: a session of these tests calls one at a time.
func (tp *tap) last() (*answer, error) {
	messages := tp.all()
	for i := len(messages) - 1; i >= 0; i-- {
		var m struct {
			Result json.RawMessage `json:"result"`
		}
		if messages[i].arrow == toClient && json.Unmarshal(messages[i].json, &m) == nil && bytes.Contains(m.Result, []byte(`"content"`)) {
			return answerOf(m.Result)
		}
	}
	return nil, errors.New("no result has come over the wire")
}

// tapped is a transport with a tap.
type tapped struct {
	mcp.Transport
	tap *tap
}

func (t tapped) Connect(ctx context.Context) (mcp.Connection, error) {
	conn, err := t.Transport.Connect(ctx)
	return tappedConn{conn, t.tap}, err
}

type tappedConn struct {
	mcp.Connection
	tap *tap
}

func (c tappedConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	m, err := c.Connection.Read(ctx)
	if err == nil {
		err = c.keep(toClient, m)
	}
	return m, err
}

func (c tappedConn) Write(ctx context.Context, m jsonrpc.Message) error {
	return errors.Join(c.keep(toServer, m), c.Connection.Write(ctx, m))
}

func (c tappedConn) keep(arrow string, m jsonrpc.Message) error {
	raw, err := jsonrpc.EncodeMessage(m)
	if err == nil {
		c.tap.add(arrow, raw)
	}
	return err
}

// webTap keeps the messages in the answers to HTTP requests.
type webTap struct {
	next http.RoundTripper
	tap  *tap
}

func (w webTap) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := w.next.RoundTrip(req)
	if err == nil {
		kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
		resp.Body = &tappedBody{ReadCloser: resp.Body, tap: w.tap, stream: kind == "text/event-stream"}
	}
	return resp, err
}

// tappedBody is one message, or a stream of them.
type tappedBody struct {
	io.ReadCloser
	tap    *tap
	stream bool
	line   []byte // has not ended yet
}

func (b *tappedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.line = append(b.line, p[:n]...)
	for b.stream {
		line, rest, ended := bytes.Cut(b.line, []byte("\n"))
		if !ended {
			break
		}
		b.line = rest
		if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok && len(data) > 0 {
			b.tap.add(toClient, data)
		}
	}
	if err != nil && !b.stream && len(b.line) > 0 {
		b.tap.add(toClient, b.line)
		b.line = nil
	}
	return n, err
}
