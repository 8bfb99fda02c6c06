package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"time"

	"github.com/txonce/txonce/outbox"
)

// timeout is the time of an attempt.
const timeout = 300 * time.Millisecond

// lease is how long a killed relay keeps a message from the others, as the documentation of Destination.Timeout says.
const lease = timeout + 10*time.Second

// schedule of attempts: kills and refusals must not use them up.
func retry() outbox.Schedule {
	s := make(outbox.Schedule, 100)
	for i := range s {
		s[i] = 200 * time.Millisecond
	}
	return s
}

// destinationsOf returns the destinations, for processes that deliver with this publisher, or with none only publish.
func destinationsOf(p outbox.Publisher) (all []outbox.Destination) {
	for _, name := range destinations() {
		all = append(all, outbox.Destination{Name: name, Publisher: p, Timeout: timeout, Retry: retry(), Concurrency: 4})
	}
	return all
}

// relay delivers messages until the process dies or is to leave.
func (p *process) relay(ctx context.Context) error {
	box, err := outbox.New(p.pool, nil, destinationsOf(newPost(p))...)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		<-p.left
		cancel()
	}()
	if err := box.Run(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// post is a publisher over HTTP.
type post struct {
	*process
	client *http.Client
}

func newPost(p *process) *post {
	// Without connections that are kept, for over these the client repeats a request by itself.
	return &post{process: p, client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
}

// The headers of a delivery, beside the message's own.
const (
	idHeader       = "Message-Id"
	keyHeader      = "Idempotency-Key"
	orderingHeader = "Ordering-Key"
	attemptHeader  = "Attempt"
	untilHeader    = "Until" // when the attempt gives up, in nanoseconds
	intentHeader   = "X-Intent"
)

// Deliver makes one attempt.
func (p *post) Deliver(ctx context.Context, d outbox.Delivery) (outbox.Outcome, error) {
	a := p.reaper.delivering(d.ID, d.Attempt)
	until, _ := ctx.Deadline()
	if p.reaper.begun(a) { // it is late, and does not know
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
		defer cancel()
		ctx = late
	}
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(info httptrace.WroteRequestInfo) {
		if info.Err == nil {
			p.reaper.sent(a)
		}
	}})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.a.Receiver+"/"+d.Destination, bytes.NewReader(d.Body))
	if err != nil {
		return outbox.Outcome{}, err
	}
	for name, value := range d.Headers {
		req.Header.Set(name, value)
	}
	if p.a.Plant == keyPerAttempt {
		d.Key += "-" + strconv.Itoa(d.Attempt)
	}
	req.Header.Set(idHeader, d.ID.String())
	req.Header.Set(keyHeader, d.Key)
	req.Header.Set(orderingHeader, d.OrderingKey)
	req.Header.Set(attemptHeader, strconv.Itoa(d.Attempt))
	req.Header.Set(untilHeader, strconv.FormatInt(until.UnixNano(), 10))
	resp, err := p.client.Do(req)
	if err != nil {
		return outbox.Outcome{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return outbox.Outcome{}, err
	}
	p.reaper.at(a, afterAnswered, func(t *trace) { t.Answered = true })
	return outcomeOf(resp), nil
}

// outcomeOf says what an answer means.
func outcomeOf(resp *http.Response) outbox.Outcome {
	out := outbox.Outcome{Class: outbox.Retry, Status: resp.StatusCode, Reason: resp.Status}
	if resp.StatusCode == http.StatusOK {
		out.Class, out.Reason = outbox.Delivered, ""
	}
	if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil {
		out.RetryAfter = time.Duration(seconds) * time.Second
	}
	out.Throttled = resp.StatusCode == http.StatusTooManyRequests
	return out
}
