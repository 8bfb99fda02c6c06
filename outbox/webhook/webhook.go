package webhook

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/txonce/txonce/outbox"
)

// Config is what [New] may be told. The zero value of a field means its default.
type Config struct {
	// URL is where all messages go. Messages then have no Address. Defaults to none: each message's Address is its URL.
	URL string

	// Secrets sign the messages: "whsec_" and base64 of at least 24 random bytes each. While a secret is replaced, give the new one
	// and the old one: each makes a signature, the first one's comes first, and the receiver needs to know one of them. At
	// most 10. Defaults to no signature.
	Secrets []string

	// SecretsFor, when set, is asked for the secrets of each attempt, instead of Secrets: where customers have endpoints, each
	// should have its own. It may be used by many goroutines at once. An error puts the attempt off (Retry); no secret means
	// no signature.
	SecretsFor func(ctx context.Context, d outbox.Delivery) ([]string, error)

	// KeyHeader is the header for the downstream idempotency key. Defaults to Idempotency-Key.
	KeyHeader string

	// BareKey sends the key as it is, as most providers document it. Defaults to a key between quotation marks, as
	// draft-ietf-httpapi-idempotency-key-header writes it.
	BareKey bool

	// UserAgent is the header User-Agent. Visible ASCII characters and spaces, at most 255. Defaults to txonce-webhook.
	UserAgent string

	// ProviderIDHeader is the header of the answer with the receiver's name for what it did (Outcome.ProviderID), such as
	// Request-Id. Defaults to none.
	ProviderIDHeader string

	// KeepResponse keeps the beginning of the answer's body for operators (Outcome.Response), MaxResponse bytes of it. What a
	// receiver writes there may be private, or be meant to mislead who reads it. Defaults to keeping nothing.
	KeepResponse bool

	// MaxResponse is how many bytes of an answer's body are read. From 1 to 65,536. Defaults to 4,096.
	MaxResponse int

	// AllowHTTP allows URLs without TLS. Defaults to https only.
	AllowHTTP bool

	// AllowPrivate allows every address, those of this machine and of its network among them: for tests, and where URL is in-house. Never
	// use it where customers name URLs. Defaults to public addresses only.
	AllowPrivate bool

	// Allow are addresses that are connected to even though they are not public. Defaults to none.
	Allow []netip.Prefix

	// TLS is for connections over https: roots, client certificates. It is copied. Defaults to the system's roots.
	TLS *tls.Config
}

// Publisher posts messages. It is an [outbox.Publisher] and an [outbox.Checker].
type Publisher struct {
	cfg       Config
	url       *url.URL // nil: the message's Address
	signers   []signer
	guard     *guard
	transport *http.Transport
}

var (
	_ outbox.Publisher = (*Publisher)(nil)
	_ outbox.Checker   = (*Publisher)(nil)
)

const (
	connectTime    = 10 * time.Second // and as much again for TLS: a dial outlives the attempt that began it
	mostHeaderSize = 64 << 10
	mostSecrets    = 10
)

// New makes a publisher. cfg may be nil: messages go to their Address, unsigned. The error names the field.
func New(cfg *Config) (*Publisher, error) {
	p := &Publisher{}
	if cfg != nil {
		p.cfg = *cfg
	}
	p.cfg.KeyHeader = or(p.cfg.KeyHeader, "Idempotency-Key")
	p.cfg.UserAgent = or(p.cfg.UserAgent, "txonce-webhook")
	p.cfg.MaxResponse = or(p.cfg.MaxResponse, 4<<10)
	if err := p.cfg.check(); err != nil {
		return nil, fmt.Errorf("webhook: %w", err)
	}
	p.guard = newGuard(p.cfg.AllowPrivate, p.cfg.Allow)
	var err error
	if p.signers, err = signersOf(p.cfg.Secrets); err != nil {
		return nil, fmt.Errorf("webhook: Config.Secrets: %w", err)
	}
	if p.cfg.URL != "" {
		if p.url, err = p.parse(p.cfg.URL); err != nil {
			return nil, fmt.Errorf("webhook: Config.URL %w", err)
		}
	}
	p.transport = p.newTransport()
	return p, nil
}

// CloseIdleConnections closes the connections that no attempt is using. Others are closed 30 seconds after their last one.
func (p *Publisher) CloseIdleConnections() { p.transport.CloseIdleConnections() }

func (c *Config) check() error {
	switch {
	case c.SecretsFor != nil && len(c.Secrets) > 0:
		return errors.New("Config.Secrets and Config.SecretsFor are both set; keep one")
	case !isHeader(c.KeyHeader) || ours(c.KeyHeader) || strings.EqualFold(c.KeyHeader, "Content-Type"):
		return fmt.Errorf("Config.KeyHeader is %.80q; use a header of letters, digits and hyphens that has no other meaning, such as Idempotency-Key", c.KeyHeader)
	case c.ProviderIDHeader != "" && !isHeader(c.ProviderIDHeader):
		return fmt.Errorf("Config.ProviderIDHeader is %.80q; use a header of letters, digits and hyphens, such as Request-Id", c.ProviderIDHeader)
	case len(c.UserAgent) > 255 || !carried(c.UserAgent):
		return fmt.Errorf("Config.UserAgent has %d bytes; use at most 255 visible ASCII characters, and spaces between them", len(c.UserAgent))
	case c.MaxResponse < 1 || c.MaxResponse > 64<<10:
		return fmt.Errorf("Config.MaxResponse is %d; use 1 to 65536 bytes", c.MaxResponse)
	}
	for _, prefix := range c.Allow {
		if !prefix.IsValid() {
			return errors.New("Config.Allow has an invalid prefix; make it with netip.ParsePrefix")
		}
	}
	return nil
}

// newTransport never asks the environment for a proxy, for that would connect in our place (O07).
func (p *Publisher) newTransport() *http.Transport {
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	secure := &tls.Config{MinVersion: tls.VersionTLS12}
	if p.cfg.TLS != nil {
		secure = p.cfg.TLS.Clone()
	}
	return &http.Transport{
		Proxy:                  nil,
		DialContext:            p.guard.dial,
		TLSClientConfig:        secure,
		TLSHandshakeTimeout:    connectTime,
		Protocols:              protocols,
		DisableCompression:     true, // what is kept of an answer is what was sent
		MaxResponseHeaderBytes: mostHeaderSize,
		MaxIdleConns:           256,
		MaxIdleConnsPerHost:    64,
		IdleConnTimeout:        30 * time.Second,
	}
}

func or[T comparable](value, otherwise T) T {
	var zero T
	if value == zero {
		return otherwise
	}
	return value
}
