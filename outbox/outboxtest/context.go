package outboxtest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/txonce/txonce/outbox"
)

// contextEnds: the far side has the message and does not answer. When the context ends, nobody knows what became of it.
func contextEnds(t *testing.T, h *Harness) {
	h.needs(t, Hang)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	d := h.delivery()
	done := h.start(t, ctx, d)
	same(t, d, h.arrived(t, 1)[0])
	select {
	case out := <-done:
		t.Fatalf("Deliver has returned %+v, and the far side has not answered", out)
	default:
	}
	cancel()
	select {
	case out := <-done:
		want(t, "behind the end of its context", out, outbox.Unanswered)
	case <-time.After(patience):
		t.Fatal("Deliver does not heed the end of its context; the relay waits one second for it")
	}
	h.takesAgain(t)
}

// contextHasEnded: either it sends nothing, or it does not say that it has not.
func contextHasEnded(t *testing.T, h *Harness) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	out := h.attempt(t, ctx, h.delivery())
	switch out.Class {
	case outbox.Delivered:
		h.arrived(t, 1)
	case outbox.Unanswered:
	default:
		h.nothingTaken(t)
	}
}

// manyAtATime: 64 deliveries, and none has anything of another.
func manyAtATime(t *testing.T, h *Harness) {
	const many = 64
	sent := make(map[string]outbox.Delivery, many)
	var wg sync.WaitGroup
	for range many {
		d := h.delivery()
		d.Body = []byte("body of " + d.ID.String())
		sent[d.ID.String()] = d
		wg.Go(func() { want(t, "one of 64", h.attemptBeside(t, d), outbox.Delivered) })
	}
	wg.Wait()
	got := h.arrived(t, many)
	if len(got) != many {
		t.Errorf("%d were delivered, and the far side has %d", many, len(got))
	}
	for _, got := range got {
		d, ok := sent[got.ID]
		if !ok {
			t.Errorf("the far side has %s, which nobody sent, or which it has twice", got.ID)
			continue
		}
		same(t, d, got)
		delete(sent, got.ID)
	}
}

// attemptBeside is attempt for goroutines that may not stop the test.
func (h *Harness) attemptBeside(t *testing.T, d outbox.Delivery) outbox.Outcome {
	select {
	case out := <-h.start(t, t.Context(), d):
		return out
	case <-time.After(patience):
		return outbox.Outcome{Reason: "Deliver has not returned"}
	}
}
