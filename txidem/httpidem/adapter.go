package httpidem

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/textproto"
	"slices"
	"time"

	"github.com/txonce/txonce/internal/keyheader"
	"github.com/txonce/txonce/txidem"
)

// The headers.
const (
	// HeaderKey carries the caller's idempotency key.
	HeaderKey = keyheader.Name
	// HeaderReplayed is "true" on a response that an earlier request was given.
	HeaderReplayed = "Idempotent-Replayed"
)

// KeyRule says what becomes of a request without the header Idempotency-Key. Its default is the strict one, other than package mcpidem's:
// programs can be asked for a key, models often cannot.
type KeyRule int

const (
	// KeyRequired refuses it with 400.
	KeyRequired KeyRule = iota
	// KeyOptional takes the hash of the request for its key, for Policy.Window: the same request again is a repeat.
	KeyOptional
)

// Config is what an [Adapter] must and may be told.
type Config struct {
	// Scope names who is calling: the same caller by the same name in each request. It may read the request's body. An error
	// refuses the request with 401 and goes to Logger. Use [ScopeIs] where there is one caller only. Mandatory: one caller's
	// responses must never reach another.
	Scope func(*http.Request) (string, error)

	// Key says what becomes of a request without a key. Defaults to KeyRequired.
	Key KeyRule

	// Policy overrides the store's, field by field. Defaults to the store's policy.
	Policy *txidem.Policy

	// Rules say what of the request counts when two are compared; the package's documentation shows the document that its
	// paths are of, such as "/body/memo". Defaults to all of it.
	Rules txidem.RuleSpec

	// Operation names what is called, in at most 255 bytes of printable text: the same key for another operation is another
	// request. It must tell apart what a prefix tells apart that was stripped. Defaults to the method and the pattern that
	// http.ServeMux or chi has matched; in front of those there is none, and the path takes its place. Middleware that runs when only a
	// prefix has been matched (Use in a chi subrouter, a ServeMux in another one) takes all behind the prefix for one
	// operation, such as "POST /api/*": put it on the routes, in chi by With or Group.
	Operation func(*http.Request) string

	// Record reports whether a response with this status, 400 to 499, is a property of the request, so that the same request
	// would get it again: it is recorded then. Defaults to [RecordsStatus].
	Record func(status int) bool

	// Headers are response headers that are kept with the response, beside Cache-Control, Content-Disposition,
	// Content-Encoding, Content-Language, Content-Location, Content-Type, ETag, Expires, Last-Modified, Link, Location, Retry-After,
	// Vary and X-Content-Type-Options. Those that belong to one connection or to one session, such as Set-Cookie, are refused. Defaults to none.
	Headers []string

	// MaxBody is the size in bytes above which a body is refused with 413. Defaults to 1 MiB. A body of JSON above 4 MiB is
	// compared by its bytes.
	MaxBody int64

	// BodyTimeout is how long the client may take to send the body; 408 behind it. It works by the server's read deadline,
	// which it takes the place of; middleware in front must have an Unwrap method for it, else http.Server.ReadTimeout is
	// what remains. Defaults to 30 seconds.
	BodyTimeout time.Duration

	// Logger hears what clients should not: database errors and panics of handlers. Defaults to a logger that discards.
	Logger *slog.Logger
}

// ScopeIs states the caller for servers that have one only. An empty name is no caller: New refuses it.
func ScopeIs(name string) func(*http.Request) (string, error) {
	if name == "" {
		return nil
	}
	return func(*http.Request) (string, error) { return name, nil }
}

// RecordsStatus is the default of [Config].Record. It reports true for 400, 410, 413, 415 and 422, which say that the request
// is wrong; and false for all others, which may be another response tomorrow: who may do what (401, 403), what exists (404),
// what state it is in (409, 412), how busy the server is (429).
func RecordsStatus(status int) bool {
	switch status {
	case http.StatusBadRequest, http.StatusGone, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity:
		return true
	}
	return false
}

// Adapter protects handlers. It may be used by any number of goroutines.
type Adapter struct {
	store     *txidem.Store
	scope     func(*http.Request) (string, error)
	key       KeyRule
	policy    *txidem.Policy
	maxAnswer int
	bare      bool // Policy.Disabled: nothing is recorded
	rules     *txidem.Rules
	operation func(*http.Request) string
	records   func(status int) bool
	kept      []string
	reader    bodyReader
	log       *slog.Logger
}

// New makes an adapter. It returns an error that names the field for a bad config.
func New(store *txidem.Store, cfg *Config) (*Adapter, error) {
	switch {
	case store == nil:
		return nil, errors.New("httpidem: New needs a store; make one with txidem.New")
	case cfg == nil || cfg.Scope == nil:
		return nil, errors.New(`httpidem: Config.Scope is missing; give a function that says who is calling, or ScopeIs("name") where there is one caller only`)
	case cfg.Key != KeyRequired && cfg.Key != KeyOptional:
		return nil, fmt.Errorf("httpidem: Config.Key is %d; use KeyRequired or KeyOptional", cfg.Key)
	}
	policy, err := store.PolicyFor(cfg.Policy)
	if err != nil {
		return nil, fmt.Errorf("httpidem: Config.Policy: %w", err)
	}
	rules, err := txidem.NewRules(cfg.Rules)
	if err != nil {
		return nil, fmt.Errorf("httpidem: Config.Rules: %w", err)
	}
	kept, err := keptHeaders(cfg.Headers)
	if err != nil {
		return nil, err
	}
	reader, err := newBodyReader("Config", cfg.MaxBody, cfg.BodyTimeout, cfg.Logger)
	if err != nil {
		return nil, err
	}
	a := &Adapter{
		store: store, scope: cfg.Scope, key: cfg.Key, policy: cfg.Policy, maxAnswer: policy.MaxAnswer, bare: policy.Disabled, rules: rules,
		operation: cfg.Operation, records: cfg.Record, kept: kept, reader: reader, log: loggerOr(cfg.Logger),
	}
	if a.operation == nil {
		a.operation = operationOf
	}
	if a.records == nil {
		a.records = RecordsStatus
	}
	return a, nil
}

func loggerOr(log *slog.Logger) *slog.Logger {
	if log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return log
}

// keptHeaders are the built-in ones and the user's, by their canonical names.
func keptHeaders(more []string) ([]string, error) {
	kept := []string{
		"Cache-Control", "Content-Disposition", "Content-Encoding", "Content-Language", "Content-Location", "Content-Type", "Etag",
		"Expires", "Last-Modified", "Link", "Location", "Retry-After", "Vary", "X-Content-Type-Options",
	}
	for _, name := range more {
		name = textproto.CanonicalMIMEHeaderKey(name)
		switch name {
		case "":
			return nil, errors.New("httpidem: Config.Headers has an empty name")
		case "Set-Cookie", "Connection", "Content-Length", "Date", "Keep-Alive", "Proxy-Authenticate", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
			"Www-Authenticate", HeaderReplayed:
			return nil, fmt.Errorf("httpidem: Config.Headers has %s, which belongs to one connection or session and cannot be given again; leave it out", name)
		}
		kept = append(kept, name)
	}
	slices.Sort(kept)
	return slices.Compact(kept), nil
}
