package outbox

import (
	"context"
	"time"

	"github.com/txonce/txonce/toolcall"
)

// Publisher brings messages to a destination: an HTTP endpoint, a broker, a function. It may be used by many goroutines at
// once. outboxtest has the tests that every one should pass.
type Publisher interface {
	// Deliver makes one attempt. ctx ends after Destination.Timeout, and Deliver returns soon after that. What it returns says
	// whether the receiver has taken the message; when in doubt, that is Unanswered. An error counts as Unanswered, with its
	// text as the reason, and so does a panic. The same message may come again, with the same ID, Key and Body.
	Deliver(ctx context.Context, d Delivery) (Outcome, error)
}

// Checker is a Publisher that looks at a message before it is published: an error refuses it, and so fails the call that
// publishes it before that commits. It must be quick and may not use the network.
type Checker interface {
	Check(m Message) error
}

// Func is a Publisher that is a function.
type Func func(ctx context.Context, d Delivery) (Outcome, error)

// Deliver calls f.
func (f Func) Deliver(ctx context.Context, d Delivery) (Outcome, error) { return f(ctx, d) }

// Delivery is a message on its way, as a [Publisher] gets it. But for Attempt, it is the same in each attempt.
type Delivery struct {
	ID          toolcall.ID // names the message: a UUID of version 7
	Key         string      // the downstream idempotency key: printable ASCII, at most 255 bytes
	Destination string
	Address     string
	OrderingKey string
	Type        string
	Headers     map[string]string
	Body        []byte
	PublishedAt time.Time // by the database's clock

	Scope string      // who made the call that published it; empty if none did
	Call  toolcall.ID // that call or job; zero if there was none
	Tool  string      // its tool

	Attempt int // 1 for the first
}

// Class says what an attempt came to.
type Class int

const (
	// Unanswered: it may have been done, and nobody knows. The message is sent again with the same key, as long as the receiver
	// remembers that (Destination.KeyLifetime). It is the zero value: to say nothing is to know nothing.
	Unanswered Class = iota
	// Delivered: the receiver has taken it.
	Delivered
	// Retry: the receiver has not taken it, for certain, and may later.
	Retry
	// Rejected: the receiver has not taken it, for certain, and never will.
	Rejected
	// Gone: as Rejected, and the receiver wants no more messages. A destination whose messages have no Address is paused.
	Gone
)

// Outcome is what an attempt came to, and what is known about it.
type Outcome struct {
	Class      Class
	Status     int           // what the receiver answered, such as an HTTP status
	ProviderID string        // the receiver's name for what it did, at most 255 bytes
	Reason     string        // why it was not delivered, for operators, at most 1,000 bytes; longer ones are cut
	Response   []byte        // what to keep of the answer, for operators, at most 64 KiB; longer ones are cut
	RetryAfter time.Duration // with Retry and Unanswered: do not come again before; at most 24 hours count
	// Throttled, with RetryAfter: the receiver refuses all messages until then, not only this one. It does not count
	// for messages with an Address.
	Throttled bool
}
