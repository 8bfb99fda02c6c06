package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"time"
)

// network stands between agent and server and loses answers, as networks do.
type network struct {
	seed    uint64
	server  string // URL
	client  *http.Client
	journal *journal
}

func newNetwork(seed uint64, server string, j *journal) *network {
	return &network{
		seed:    seed,
		server:  server,
		client:  &http.Client{Transport: newTransport(), Timeout: 20 * time.Second},
		journal: j,
	}
}

func newTransport() *http.Transport { return &http.Transport{MaxIdleConnsPerHost: 64} }

// longestHold bounds how long an answer is held back for a client that does not give up.
const longestHold = 3 * time.Second

func (n *network) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client is gone
	}
	name, named := parseName(r.Header.Get(nameHeader))
	if !named || !isToolCall(body) {
		n.send(r, body).deliver(w)
		return
	}
	f := faultFor(n.seed, name)
	n.journal.met(name, f)
	switch f {
	case cutBefore:
		cut()
	case lostAnswer:
		n.send(r, body)
		cut()
	case cutAnswer:
		n.send(r, body).deliverHalf(w)
		cut()
	case lateAnswer:
		n.send(r, body)
		select {
		case <-r.Context().Done():
		case <-time.After(longestHold):
		}
		cut()
	case sentTwice:
		n.sendTwice(w, r, body)
	case noFault:
		n.send(r, body).deliver(w)
	}
}

// cut ends the connection to the client at once: this is net/http's way to do so.
func cut() { panic(http.ErrAbortHandler) }

// sendTwice delivers the answer that comes first.
func (n *network) sendTwice(w http.ResponseWriter, r *http.Request, body []byte) {
	answers := make(chan reply, 2)
	for range cap(answers) {
		go func() { answers <- n.send(r, body) }()
	}
	(<-answers).deliver(w)
	<-answers
}

// send passes the request on and reads the whole answer. A client that has left does not stop it: the network does not
// know.
func (n *network) send(r *http.Request, body []byte) reply {
	req, err := http.NewRequestWithContext(context.WithoutCancel(r.Context()), r.Method, n.server, bytes.NewReader(body))
	if err != nil {
		return reply{}
	}
	req.Header = r.Header.Clone()
	resp, err := n.client.Do(req)
	if err != nil {
		return reply{}
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return reply{}
	}
	return reply{status: resp.StatusCode, header: resp.Header, body: answer}
}

// reply is an answer of the server. The zero reply is none.
type reply struct {
	status int
	header http.Header
	body   []byte
}

func (a reply) deliver(w http.ResponseWriter) {
	a.begin(w)
	_, _ = w.Write(a.body)
	_ = http.NewResponseController(w).Flush()
}

func (a reply) deliverHalf(w http.ResponseWriter) {
	a.begin(w)
	_, _ = w.Write(a.body[:len(a.body)/2])
	_ = http.NewResponseController(w).Flush()
}

func (a reply) begin(w http.ResponseWriter) {
	if a.status == 0 {
		cut()
	}
	for name, values := range a.header {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(a.body)))
	w.WriteHeader(a.status)
}

func isToolCall(body []byte) bool {
	var message struct {
		Method string `json:"method"`
	}
	return json.Unmarshal(body, &message) == nil && message.Method == "tools/call"
}
