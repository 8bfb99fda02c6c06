package outboxtest

import (
	"fmt"
	"testing"
	"time"

	"github.com/txonce/txonce/outbox"
)

// checkAsksNobody: Check runs while a call is about to commit, so it looks at the message alone. That the far side is not there changes nothing.
func checkAsksNobody(t *testing.T, h *Harness) {
	checker, ok := h.Publisher.(outbox.Checker)
	if !ok {
		t.Skip("the publisher is no Checker")
	}
	for _, ability := range []Ability{Dead, Hang} {
		if _, missing := h.Cannot[ability]; !missing {
			h.Behave(ability)
			break
		}
	}
	d := h.delivery()
	done := make(chan error, 1)
	go func() {
		for range 1000 {
			if err := ask(checker, outbox.Message{Destination: d.Destination, Address: d.Address, Type: d.Type, Body: d.Body}); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("Check refuses a message that can be delivered: %v", err)
		}
	case <-time.After(patience):
		t.Error("1,000 messages are not checked within a minute")
	}
	h.nothingTaken(t)
}

func checkRefuses(t *testing.T, h *Harness) {
	if len(h.Bad) == 0 {
		t.Skip("the harness has no bad messages")
	}
	checker, ok := h.Publisher.(outbox.Checker)
	if !ok {
		t.Fatal("the harness has bad messages, and the publisher is no Checker")
	}
	for _, m := range h.Bad {
		if err := ask(checker, m); err == nil {
			t.Errorf("Check takes %+v", m)
		}
		d := h.delivery()
		d.Address, d.Headers, d.Type, d.OrderingKey, d.Body = m.Address, m.Headers, m.Type, m.OrderingKey, m.Body
		want(t, fmt.Sprintf("%+v", m), h.attempt(t, t.Context(), d), outbox.Rejected, outbox.Gone)
	}
	h.nothingTaken(t)
}

// ask makes an error of a panic.
func ask(checker outbox.Checker, m outbox.Message) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("the check panicked: %v", v)
		}
	}()
	return checker.Check(m)
}
