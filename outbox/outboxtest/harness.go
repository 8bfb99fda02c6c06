package outboxtest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/txonce/txonce/outbox"
)

// Ability is something that a far side and a publisher may be able to do.
type Ability string

// How the far side behaves towards what comes to it. It always can Take.
const (
	// Take: it takes messages, and says so.
	Take Ability = "take"
	// Refuse: it takes none, says so, and may take them later: Retry.
	Refuse Ability = "refuse"
	// Reject: it takes none, says so, and never will: Rejected, or Gone.
	Reject Ability = "reject"
	// Throttle: as Refuse, and it names the time when to come again: Outcome.RetryAfter.
	Throttle Ability = "throttle"
	// Hang: it takes messages and does not answer, until the publisher goes.
	Hang Ability = "hang"
	// Cut: it takes messages and breaks the connection instead of an answer.
	Cut Ability = "cut"
	// Dead: nobody is there.
	Dead Ability = "dead"
)

// What a publisher carries besides id, key and body.
const (
	// Headers: those of the message.
	Headers Ability = "headers"
	// Order: what is delivered one by one arrives in that order.
	Order Ability = "order"
)

// Harness is a publisher and its far side. Each test has its own.
type Harness struct {
	// Publisher is what is tested. Mandatory.
	Publisher outbox.Publisher

	// Received returns all that the far side has taken since the harness was made, in the order of arrival. What it refused is not among it.
	// The suite waits up to a minute for what was delivered to show up. Mandatory.
	Received func() []Received

	// Behave has the far side behave in this way towards what arrives from now on, when it returns. It begins with Take.
	// A far side without Behave can do only that.
	Behave func(Ability)

	// Cannot says what is beyond this publisher or its far side, and why: the test of it is skipped.
	Cannot map[Ability]string

	// Address is the Address of all messages. Defaults to none.
	Address string

	// Bad are messages that the publisher's Check must refuse, and Deliver must not deliver. Defaults to none.
	Bad []outbox.Message

	// Close ends what the publisher keeps between deliveries, such as idle connections, and the far side. It is called once, at the end of
	// a test; no goroutine that Deliver started may run after that. Defaults to nothing.
	Close func()
}

// Received is what the far side was given.
type Received struct {
	ID      string // Delivery.ID, as text
	Key     string
	Headers map[string]string // those that the message had; others do not matter. Names are not told apart by case
	Body    []byte
}

// patience is when something is taken to hang.
const patience = time.Minute

// check refuses a harness that would leave out tests without saying so.
func (h *Harness) check() error {
	switch {
	case h.Publisher == nil:
		return errors.New("Harness.Publisher is missing")
	case h.Received == nil:
		return errors.New("Harness.Received is missing")
	}
	for ability, reason := range h.Cannot {
		switch ability {
		case Refuse, Reject, Throttle, Hang, Cut, Dead, Headers, Order:
		default:
			return fmt.Errorf("Harness.Cannot has %q; every publisher can take, and other abilities are not known", ability)
		}
		if reason == "" {
			return fmt.Errorf("Harness.Cannot has no reason for %q", ability)
		}
	}
	if h.Behave != nil {
		return nil
	}
	for _, ability := range []Ability{Refuse, Reject, Throttle, Hang, Cut, Dead} {
		if h.Cannot[ability] == "" {
			return fmt.Errorf("Harness.Behave is missing; set it, or say in Harness.Cannot why the far side cannot %s", ability)
		}
	}
	return nil
}

// needs skips the test if an ability is missing, and has the far side behave so.
func (h *Harness) needs(t *testing.T, ability Ability) {
	t.Helper()
	if reason, missing := h.Cannot[ability]; missing {
		t.Skipf("it cannot %s: %s", ability, reason)
	}
	h.Behave(ability)
}

// attempt delivers, as the outbox would see it: an error counts as Unanswered. It fails the test if that does not end.
func (h *Harness) attempt(t *testing.T, ctx context.Context, d outbox.Delivery) outbox.Outcome {
	t.Helper()
	select {
	case out := <-h.start(t, ctx, d):
		return out
	case <-time.After(patience):
		t.Fatalf("Deliver has not returned for %v", patience)
		panic("unreachable")
	}
}

// start delivers in a goroutine of its own.
func (h *Harness) start(t *testing.T, ctx context.Context, d outbox.Delivery) <-chan outbox.Outcome {
	done := make(chan outbox.Outcome, 1)
	go func() {
		var out outbox.Outcome
		defer func() {
			if v := recover(); v != nil {
				t.Errorf("Deliver panicked: %v", v)
			}
			done <- out
		}()
		var err error
		if out, err = h.Publisher.Deliver(ctx, d); err != nil {
			out.Class, out.Reason = outbox.Unanswered, err.Error()
		}
	}()
	return done
}

// arrived waits until the far side has taken n messages, and returns all that it has.
func (h *Harness) arrived(t *testing.T, n int) []Received {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		got := h.Received()
		if len(got) >= n {
			return got
		}
		if time.Now().After(deadline) {
			t.Fatalf("the far side has taken %d messages, and not %d", len(got), n)
		}
	}
}

// want fails the test if the outcome is none of these.
func want(t *testing.T, what string, out outbox.Outcome, classes ...outbox.Class) {
	t.Helper()
	for _, class := range classes {
		if out.Class == class {
			return
		}
	}
	t.Errorf("%s: it says %s, and should say %s (status %d, reason %q)", what, nameOf(out.Class), nameOf(classes...), out.Status, out.Reason)
}

func nameOf(classes ...outbox.Class) (text string) {
	for i, class := range classes {
		if i > 0 {
			text += " or "
		}
		switch class {
		case outbox.Unanswered:
			text += "Unanswered"
		case outbox.Delivered:
			text += "Delivered"
		case outbox.Retry:
			text += "Retry"
		case outbox.Rejected:
			text += "Rejected"
		case outbox.Gone:
			text += "Gone"
		default:
			text += fmt.Sprintf("Class(%d)", class)
		}
	}
	return text
}
