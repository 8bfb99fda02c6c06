package outboxtest_test

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/txonce/txonce/outbox"
	"github.com/txonce/txonce/outbox/outboxtest"
)

// farSide is a function's: a list in memory.
type farSide struct {
	mu       sync.Mutex
	behaves  outboxtest.Ability
	received []outboxtest.Received
}

func (f *farSide) behave(a outboxtest.Ability) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.behaves = a
}

func (f *farSide) all() []outboxtest.Received {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]outboxtest.Received(nil), f.received...)
}

// take notes a message, unless the far side takes none now, and says how the far side behaves.
func (f *farSide) take(d outbox.Delivery) outboxtest.Ability {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch f.behaves {
	case outboxtest.Take, outboxtest.Hang, outboxtest.Cut:
		f.received = append(f.received, outboxtest.Received{ID: d.ID.String(), Key: d.Key, Headers: maps.Clone(d.Headers), Body: bytes.Clone(d.Body)})
	}
	return f.behaves
}

func (f *farSide) deliver(ctx context.Context, d outbox.Delivery) (outbox.Outcome, error) {
	if ctx.Err() != nil {
		return outbox.Outcome{Class: outbox.Retry}, nil
	}
	switch f.take(d) {
	case outboxtest.Refuse:
		return outbox.Outcome{Class: outbox.Retry}, nil
	case outboxtest.Throttle:
		return outbox.Outcome{Class: outbox.Retry, RetryAfter: time.Minute, Throttled: true}, nil
	case outboxtest.Reject:
		return outbox.Outcome{Class: outbox.Rejected}, nil
	case outboxtest.Hang:
		<-ctx.Done()
		return outbox.Outcome{}, ctx.Err()
	case outboxtest.Cut:
		return outbox.Outcome{}, errors.New("the connection broke")
	case outboxtest.Dead:
		return outbox.Outcome{Class: outbox.Retry}, nil
	}
	return outbox.Outcome{Class: outbox.Delivered}, nil
}

func TestFunc_O07_Conformance(t *testing.T) {
	t.Parallel()
	outboxtest.Run(t, func(*testing.T) outboxtest.Harness {
		f := &farSide{behaves: outboxtest.Take}
		return outboxtest.Harness{Publisher: outbox.Func(f.deliver), Received: f.all, Behave: f.behave}
	})
}
