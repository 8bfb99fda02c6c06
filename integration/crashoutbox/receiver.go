package main

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// arrival is a delivery that the receiver saw.
type arrival struct {
	At          time.Time
	Until       time.Time // when its relay gives up
	ID          string
	Name        string // in the body
	Destination string
	Key         string
	OrderingKey string
	Intent      string // in a header
	Body        string
	Attempt     int
	Act         act
}

// act is what the receiver does with a delivery.
type act string

const (
	accepts act = "accepted" // takes it, 200
	breaks  act = "500"      // does not take it
	busy    act = "503"      // does not take it, and says when to come again
	closes  act = "429"      // likewise, for all messages of the destination
	cuts    act = "cut"      // takes it, and closes the connection
	slow    act = "slow"     // takes it, and answers when nobody listens any more
	late    act = "late"     // takes it when the lease of the attempt is over
)

func acts() []act { return []act{accepts, breaks, busy, closes, cuts, slow, late} }

// takes reports whether the receiver has the message then.
func (a act) takes() bool { return a == accepts || a == cuts || a == slow || a == late }

// lateness is how long a delivery that comes late is on its way: longer than the lease of its attempt.
const lateness = lease + timeout

// mostBad is how many deliveries of a message may come to something else than 200, by plan.
const mostBad = 3

// actOn draws what becomes of a delivery of a message. It depends on the seed, the message and how many there were before.
func actOn(seed uint64, name string, before int) act {
	if before >= mostBad {
		return accepts
	}
	h := fnv.New64a()
	_, _ = io.WriteString(h, name)
	switch draw := rand.New(rand.NewPCG(seed, h.Sum64()+uint64(before))).IntN(200); {
	case draw < 12:
		return breaks
	case draw < 18:
		return busy
	case draw < 20:
		return closes
	case draw < 30:
		return cuts
	case draw < 38:
		return slow
	case draw < 44:
		return late
	}
	return accepts
}

// receiver takes what is sent to it, as the plan says, and writes it down.
type receiver struct {
	seed   uint64
	url    string
	server *http.Server

	mu       sync.Mutex
	arrivals []arrival
	seen     map[string]int // deliveries that came, by the name of the message
	held     sync.WaitGroup // deliveries that come late
	problems []string
}

// receive starts a receiver on the loopback interface.
func receive(seed uint64) (*receiver, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &receiver{seed: seed, url: "http://" + listener.Addr().String(), seen: make(map[string]int)}
	r.server = &http.Server{Handler: r, ReadHeaderTimeout: time.Minute}
	go func() { _ = r.server.Serve(listener) }()
	return r, nil
}

// stop waits for what is still to come late, and stops receiving.
func (r *receiver) stop(ctx context.Context) error {
	r.held.Wait()
	return r.server.Shutdown(ctx)
}

// ServeHTTP takes one delivery.
func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil { // its relay was killed, or gave up, as it wrote
		return
	}
	attempt, err := strconv.Atoi(req.Header.Get(attemptHeader))
	until, untilErr := strconv.ParseInt(req.Header.Get(untilHeader), 10, 64)
	a := arrival{
		ID: req.Header.Get(idHeader), Name: nameIn(body), Destination: req.URL.Path[1:], Key: req.Header.Get(keyHeader),
		OrderingKey: req.Header.Get(orderingHeader), Intent: req.Header.Get(intentHeader), Body: string(body), Attempt: attempt, Until: time.Unix(0, until),
	}
	if err = errors.Join(err, untilErr); err != nil {
		r.complain("a delivery of message %s has no attempt, or no end: %v", a.ID, err)
	}
	if a.Act = r.decide(a.Name); a.Act == late {
		time.Sleep(lateness)
	}
	r.note(a)
	if a.Act == late {
		r.held.Done()
	}
	r.answer(w, req, a.Act)
}

// decide says what becomes of a delivery.
func (r *receiver) decide(name string) act {
	r.mu.Lock()
	defer r.mu.Unlock()
	what := actOn(r.seed, name, r.seen[name])
	r.seen[name]++
	if what == late {
		r.held.Add(1)
	}
	return what
}

func (r *receiver) note(a arrival) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a.At = time.Now()
	r.arrivals = append(r.arrivals, a)
}

func (r *receiver) answer(w http.ResponseWriter, req *http.Request, what act) {
	switch what {
	case accepts, late:
		w.WriteHeader(http.StatusOK)
	case breaks:
		w.WriteHeader(http.StatusInternalServerError)
	case busy:
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
	case closes:
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
	case cuts:
		panic(http.ErrAbortHandler)
	case slow:
		select { // until the client has given up
		case <-req.Context().Done():
		case <-time.After(10 * timeout):
		}
	}
}

func (r *receiver) complain(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.problems = append(r.problems, fmt.Sprintf(format, args...))
}

// all returns what arrived so far, in order.
func (r *receiver) all() []arrival {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]arrival(nil), r.arrivals...)
}
