package outbox

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Message is what is to leave the database. Only Destination is mandatory.
type Message struct {
	// Destination is the name of one of the outbox's destinations.
	Destination string

	// Effect names what the message is for within the call that publishes it, such as "charge" or "mail to the customer": the
	// downstream key is derived from it, so two messages of one call must not share one. At most 255 bytes. Defaults to the name of
	// the destination and a number: the first message there, the second.
	Effect string

	// Key is the idempotency key that the receiver gets. 1 to 255 printable ASCII characters without spaces. Defaults to one that
	// is derived from the call and Effect, and so is the same when the call is made again; outside a call, from the message's id.
	Key string

	// OrderingKey, when set, has the message delivered in the order of commits among those to the same destination with the same
	// one, each when the one before it is delivered. At most 255 bytes. Defaults to none: any order.
	OrderingKey string

	// Address says where at the destination, such as the URL of a customer's endpoint, if the publisher wants one. At most 2,048
	// bytes.
	Address string

	// Type says what has happened, such as "refund.created". At most 255 bytes.
	Type string

	// Headers go with the body. At most 64, names of letters, digits, hyphens and underscores up to 64 bytes, values of visible ASCII characters
	// and spaces up to 4,096 bytes. Names are not told apart by case.
	Headers map[string]string

	// Body is what is delivered, byte for byte. At most Config.MaxBody.
	Body []byte

	// Delay puts off the first attempt. Up to a year.
	Delay time.Duration

	// Within is the time after which the message is not sent any more. Defaults to none: until Destination.Retry ends. From 1
	// second to a year, and longer than Delay.
	Within time.Duration
}

const (
	mostName    = 255
	mostAddress = 2048
	mostHeaders = 64
	mostHeader  = 4096
	longest     = 366 * 24 * time.Hour
)

// check refuses what could not be delivered or stored. It says which field is wrong and what is right.
func (m *Message) check(maxBody int) error {
	for _, text := range []struct {
		name, value string
		most        int
	}{
		{"Effect", m.Effect, mostName}, {"OrderingKey", m.OrderingKey, mostName}, {"Address", m.Address, mostAddress}, {"Type", m.Type, mostName},
	} {
		if len(text.value) > text.most || !validText(text.value) || strings.ContainsFunc(text.value, control) {
			return fmt.Errorf("%w: Message.%s has %d bytes; use at most %d, of valid UTF-8 without control characters", ErrMessage, text.name, len(text.value), text.most)
		}
	}
	switch {
	case m.Key != "" && !validKey(m.Key):
		return fmt.Errorf("%w: Message.Key has %d bytes; use 1 to %d printable ASCII characters without spaces, or leave it empty", ErrMessage, len(m.Key), mostName)
	case len(m.Body) > maxBody:
		return fmt.Errorf("%w: Message.Body has %d bytes, Config.MaxBody is %d; store it, and send a reference", ErrMessage, len(m.Body), maxBody)
	case m.Delay < 0 || m.Delay > longest:
		return fmt.Errorf("%w: Message.Delay is %v; use 0 to %v", ErrMessage, m.Delay, longest)
	case m.Within != 0 && (m.Within < time.Second || m.Within > longest || m.Within <= m.Delay):
		return fmt.Errorf("%w: Message.Within is %v; use 0 for no end, or 1s to %v and more than Delay", ErrMessage, m.Within, longest)
	}
	return m.checkHeaders()
}

func (m *Message) checkHeaders() error {
	if len(m.Headers) > mostHeaders {
		return fmt.Errorf("%w: Message.Headers has %d entries; use at most %d", ErrMessage, len(m.Headers), mostHeaders)
	}
	seen := make(map[string]bool, len(m.Headers))
	for _, name := range slices.Sorted(maps.Keys(m.Headers)) {
		value := m.Headers[name]
		switch lower := strings.ToLower(name); {
		case name == "" || len(name) > 64 || strings.ContainsFunc(name, func(r rune) bool { return !letter(r) && r != '-' && r != '_' }):
			return fmt.Errorf("%w: the name %.80q in Message.Headers; use 1 to 64 letters, digits, hyphens and underscores", ErrMessage, name)
		case seen[lower]:
			return fmt.Errorf("%w: Message.Headers has %q twice, by case; keep one", ErrMessage, lower)
		case len(value) > mostHeader || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }):
			return fmt.Errorf("%w: the value of %q in Message.Headers; use at most %d visible ASCII characters and spaces", ErrMessage, name, mostHeader)
		default:
			seen[lower] = true
		}
	}
	return nil
}

func validKey(key string) bool {
	return key != "" && len(key) <= mostName && !strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' })
}

// validText reports whether Postgres takes it.
func validText(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }

func control(r rune) bool { return r < ' ' || r == 0x7f }

func letter(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
}
