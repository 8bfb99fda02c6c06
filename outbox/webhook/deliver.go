package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/txonce/txonce/outbox"
)

// Deliver makes one attempt. The package's documentation says which answer is which [outbox.Class]. It returns no error.
func (p *Publisher) Deliver(ctx context.Context, d outbox.Delivery) (outbox.Outcome, error) {
	to, err := p.target(d.Address, d.Headers)
	if err == nil {
		err = checkKey(d.Key)
	}
	if err != nil { // published by a process with another Config
		return outbox.Outcome{Class: outbox.Rejected, Reason: err.Error()}, nil
	}
	signers, err := p.signersFor(ctx, d)
	if err != nil {
		return outbox.Outcome{Class: outbox.Retry, Reason: "no secret to sign with: " + err.Error()}, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var sent sendings
	req, err := p.request(sent.watch(ctx), to, d, signers)
	if err != nil {
		return outbox.Outcome{Class: outbox.Rejected, Reason: err.Error()}, nil
	}
	resp, err := p.transport.RoundTrip(req) // no http.Client: it would follow redirects
	if err != nil {
		return sent.failed(err), nil
	}
	defer resp.Body.Close()
	out := sent.answered(resp)
	if p.cfg.ProviderIDHeader != "" {
		out.ProviderID = resp.Header.Get(p.cfg.ProviderIDHeader)
	}
	if body := p.read(resp, cancel); p.cfg.KeepResponse {
		out.Response = body
	}
	return out, nil
}

func (p *Publisher) signersFor(ctx context.Context, d outbox.Delivery) ([]signer, error) {
	if p.cfg.SecretsFor == nil {
		return p.signers, nil
	}
	secrets, err := p.cfg.SecretsFor(ctx, d)
	if err != nil {
		return nil, err
	}
	return signersOf(secrets)
}

func (p *Publisher) request(ctx context.Context, to *url.URL, d outbox.Delivery, signers []signer) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.String(), bytes.NewReader(d.Body))
	if err != nil {
		return nil, fmt.Errorf("webhook: %w", inner(err))
	}
	req.Header.Set("Content-Type", "application/json")
	for name, value := range d.Headers {
		req.Header.Set(name, value)
	}
	key := d.Key
	if !p.cfg.BareKey {
		key = quote(key)
	}
	req.Header.Set(p.cfg.KeyHeader, key)
	req.Header.Set("User-Agent", p.cfg.UserAgent)
	return req, sign(req.Header, signers, d.ID.String(), d.Body, time.Now())
}

// checkKey refuses what the outbox never has, and what net/http would refuse or change.
func checkKey(key string) error {
	if key == "" || len(key) > 255 || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fmt.Errorf("webhook: Delivery.Key has %d bytes; it must have 1 to 255 printable ASCII characters", len(key))
	}
	return nil
}

// quote writes a string of a structured field (RFC 9651). A key is printable ASCII.
func quote(key string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) + `"`
}

// bodyTime is how long the body of an answer is waited for: the status has said all that counts.
const bodyTime = 2 * time.Second

// read reads what there is of a body, up to MaxResponse bytes. Only a connection whose answer was read to its end is used again.
func (p *Publisher) read(resp *http.Response, cancel context.CancelFunc) []byte {
	defer time.AfterFunc(bodyTime, cancel).Stop()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, int64(p.cfg.MaxResponse)+1))
	return body[:min(len(body), p.cfg.MaxResponse)]
}

// sendings counts how often the request was given to a connection: net/http does it again when one that it had kept is broken.
type sendings struct{ n atomic.Int32 }

func (s *sendings) watch(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { s.n.Add(1) }})
}

// failed is the outcome of an attempt without an answer. It was not done, for certain, only if there never was a connection
// to send it on (I5).
func (s *sendings) failed(err error) outbox.Outcome {
	var refused *refusedError
	switch {
	case s.n.Load() > 0:
		return outbox.Outcome{Class: outbox.Unanswered, Reason: "no answer: " + err.Error()}
	case errors.As(err, &refused):
		return outbox.Outcome{Class: outbox.Rejected, Reason: "the URL " + err.Error()}
	}
	return outbox.Outcome{Class: outbox.Retry, Reason: "no connection: " + err.Error()}
}
