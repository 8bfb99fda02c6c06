package watermillpub_test

import (
	"errors"
	"maps"
	"sync"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/txonce/txonce/outbox"
	"github.com/txonce/txonce/outbox/outboxtest"
	"github.com/txonce/txonce/outbox/watermillpub"
)

var (
	errRefused  = errors.New("not now")
	errRejected = errors.New("never")
	errBroken   = errors.New("the connection broke")
)

// broker is the far side of a publisher of Watermill's that minds the message's context.
type broker struct {
	mu       sync.Mutex
	as       outboxtest.Ability
	received []outboxtest.Received
}

func (b *broker) behave(a outboxtest.Ability) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.as = a
}

func (b *broker) all() []outboxtest.Received {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]outboxtest.Received(nil), b.received...)
}

func (b *broker) take(m *message.Message) outboxtest.Ability {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch b.as {
	case outboxtest.Take, outboxtest.Hang, outboxtest.Cut:
		b.received = append(b.received, outboxtest.Received{
			ID: m.UUID, Key: m.Metadata.Get(watermillpub.MetadataKey), Headers: maps.Clone(m.Metadata), Body: m.Payload,
		})
	}
	return b.as
}

func (b *broker) publish(_ string, messages ...*message.Message) error {
	switch b.take(messages[0]) {
	case outboxtest.Refuse, outboxtest.Dead:
		return errRefused
	case outboxtest.Reject:
		return errRejected
	case outboxtest.Cut:
		return errBroken
	case outboxtest.Hang:
		<-messages[0].Context().Done()
		return messages[0].Context().Err()
	}
	return nil
}

func classify(err error) outbox.Class {
	switch {
	case errors.Is(err, errRefused):
		return outbox.Retry
	case errors.Is(err, errRejected):
		return outbox.Rejected
	}
	return outbox.Unanswered
}

func TestPublisher_O07_Conformance(t *testing.T) {
	t.Parallel()
	outboxtest.Run(t, func(t *testing.T) outboxtest.Harness {
		b := &broker{as: outboxtest.Take}
		return outboxtest.Harness{
			Publisher: newPublisher(t, publishes(b.publish), &watermillpub.Config{Topic: "t", Classify: classify}),
			Received:  b.all, Behave: b.behave,
			Cannot: map[outboxtest.Ability]string{outboxtest.Throttle: "Watermill has no such answer"},
			Bad:    []outbox.Message{{Headers: map[string]string{"ordering_key": "x"}}},
		}
	})
}
