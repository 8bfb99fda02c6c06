package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/txonce/txonce/integration/internal/lives"
)

// arrival is a delivery that the receiver saw.
type arrival struct {
	ID   string // of the message
	Key  string
	Name string // in the body
	Lane string
	Body string
	Act  act
}

// act is what the receiver does with a delivery.
type act string

const (
	accepts act = "accepted" // takes it, 200
	breaks  act = "500"      // does not take it
	cuts    act = "cut"      // takes it, and closes the connection
)

func acts() []act { return []act{accepts, breaks, cuts} }

// takes reports whether the receiver has the message then.
func (a act) takes() bool { return a == accepts || a == cuts }

// How long the receiver does one thing, about.
const mood = 2 * time.Second

// receiver takes what is sent to it, or does not, as its mood is, and writes it down.
type receiver struct {
	url    string
	server *http.Server

	mu       sync.Mutex
	now      act
	arrivals []arrival
	problems []string
}

// receive starts a receiver on the loopback interface.
func receive() (*receiver, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &receiver{url: "http://" + listener.Addr().String(), now: accepts}
	r.server = &http.Server{Handler: r, ReadHeaderTimeout: time.Minute}
	go func() { _ = r.server.Serve(listener) }()
	return r, nil
}

func (r *receiver) stop(ctx context.Context) error { return r.server.Shutdown(ctx) }

// flip changes the mood until ctx ends, and takes everything from then on. It is good half of the time, so that no
// message waits for long, and bad in one way after the other, so that a short run sees each.
func (r *receiver) flip(ctx context.Context) {
	defer r.become(accepts)
	moods := []act{breaks, accepts, cuts, accepts}
	for n := 0; lives.Pause(ctx, mood/2+rand.N(mood)) == nil; n++ {
		r.become(moods[n%len(moods)])
	}
}

func (r *receiver) become(a act) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now = a
}

// ServeHTTP takes one delivery.
func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil { // its relay was killed, or gave up, as it wrote
		return
	}
	switch r.note(req.Header, body) {
	case breaks:
		w.WriteHeader(http.StatusInternalServerError)
	case cuts:
		panic(http.ErrAbortHandler)
	}
}

// note writes a delivery down, and says what becomes of it.
func (r *receiver) note(h http.Header, body []byte) act {
	var l letter
	err := json.Unmarshal(body, &l)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.problems = append(r.problems, fmt.Sprintf("a delivery of message %s has the body %q: %v", h.Get("Webhook-Id"), body, err))
	}
	r.arrivals = append(r.arrivals, arrival{
		ID: h.Get("Webhook-Id"), Key: h.Get("Idempotency-Key"), Name: l.Name, Lane: l.Lane, Body: string(body), Act: r.now,
	})
	return r.now
}

// all returns what arrived so far, in order.
func (r *receiver) all() ([]arrival, []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]arrival(nil), r.arrivals...), r.problems
}
