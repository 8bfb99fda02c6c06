package txidem

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/txonce/txonce/internal/canonjson"
	"github.com/txonce/txonce/toolcall"
)

// Request identifies a call.
type Request struct {
	// Scope says who is calling, such as a tenant or a verified user. The same key under another scope is another
	// call. Mandatory, at most 255 bytes.
	Scope string

	// Tool names the operation. Mandatory, at most 255 bytes. A version of a tool that must not give the old one's
	// answers gets a name of its own, such as "refund/2".
	Tool string

	// Key is the caller's idempotency key: 1 to 255 bytes of printable text, chosen once per intent and sent with each
	// retry of it. Without one, the key is derived from the arguments and kept for Policy.Window. A call with a key and
	// one without are two identities, even with equal arguments.
	Key string

	// Args are the arguments as JSON, as they came in. They are compared as values: white space, key order and the
	// spelling of numbers do not count, but no digit is lost. Nothing stands for {}.
	Args json.RawMessage

	// Rules say which of the arguments count. Defaults to all.
	Rules *Rules

	// Policy overrides the store's policy, field by field. Defaults to the store's.
	Policy *Policy
}

// identity is a checked request: what is stored of it and what decides about replays.
type identity struct {
	toolcall.ID
	scope, tool, key string
	args             json.RawMessage
	rules            *canonjson.Rules
	canon            []byte // of the arguments that count, in the current version
	fingerprint      [32]byte
	policy           Policy
	keep             time.Duration // how long the record is kept, from its end
	explicit         bool          // the caller gave the key
	leased           bool          // the effect lies outside the database
	held             bool          // the last run of the handler had its record held: it is written without an expiry
	event            *Event        // what the observer will hear
}

func (s *Store) identify(req Request) (*identity, error) {
	if err := checkName(req.Scope); err != nil {
		return nil, fmt.Errorf("%w that says who is calling: %w", ErrScope, err)
	}
	if err := checkName(req.Tool); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTool, err)
	}
	policy, err := s.PolicyFor(req.Policy)
	if err != nil {
		return nil, err
	}
	args := req.Args
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	canon, err := canonjson.Canonical(canonjson.Version, args, req.Rules.compiled())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrArgs, err)
	}
	fingerprint := sha256.Sum256(canon)
	id := &identity{
		scope: req.Scope, tool: req.Tool, args: args, rules: req.Rules.compiled(),
		canon: canon, fingerprint: fingerprint, policy: policy, event: &Event{},
		key: "h:" + hex.EncodeToString(fingerprint[:]), keep: policy.Window,
	}
	if req.Key != "" {
		if err := checkKey(req.Key); err != nil {
			return nil, err
		}
		id.key, id.keep, id.explicit = "x:"+req.Key, policy.Retention, true
	}
	id.ID = toolcall.NewID(id.scope, id.tool, id.key)
	return id, nil
}

// keepSeconds is how long the record of a call that succeeded is kept. Nothing makes it one that does not expire: an interval
// of null seconds is null, and so is a time to which it is added.
func (id *identity) keepSeconds() any {
	if id.held {
		return nil
	}
	return id.keep.Seconds()
}

const maxName = 255

func checkName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("it is empty")
	case len(name) > maxName:
		return fmt.Errorf("it has %d bytes; at most %d are allowed", len(name), maxName)
	case !isPrintable(name):
		return fmt.Errorf("%q has characters that cannot be printed", name)
	}
	return nil
}

func checkKey(key string) error {
	switch {
	case len(key) > maxName:
		return fmt.Errorf("%w: it has %d bytes; use 1 to %d, such as a UUID", ErrKey, len(key), maxName)
	case !isPrintable(key):
		return fmt.Errorf("%w: %q has characters that cannot be printed; use letters, digits and punctuation", ErrKey, key)
	}
	return nil
}

func isPrintable(s string) bool {
	if !utf8.ValidString(s) {
		return false
	}
	for _, r := range s {
		if !unicode.IsPrint(r) {
			return false
		}
	}
	return true
}
