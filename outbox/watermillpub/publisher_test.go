package watermillpub_test

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
	"github.com/google/go-cmp/cmp"

	"github.com/txonce/txonce/internal/dbtest"
	"github.com/txonce/txonce/outbox"
	"github.com/txonce/txonce/outbox/watermillpub"
	"github.com/txonce/txonce/toolcall"
)

func TestDeliver_O01_O07_OverGoChannel(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, nil)
	channel := gochannel.NewGoChannel(gochannel.Config{}, nil)
	defer func() {
		if err := channel.Close(); err != nil {
			t.Error(err)
		}
	}()
	received, err := channel.Subscribe(t.Context(), "refunds")
	if err != nil {
		t.Fatal(err)
	}
	box := newBox(t, pool, outbox.Destination{Name: "events", Publisher: newPublisher(t, channel, nil)})
	relay(t, box)
	ids := publish(t, pool, box,
		outbox.Message{Destination: "events", Address: "refunds", Key: "key-1", OrderingKey: "order 7", Type: "refund.created", Headers: map[string]string{"X-A": "1"}, Body: []byte("a\x00\xffb")},
		outbox.Message{Destination: "events", Address: "refunds", OrderingKey: "order 7"})
	for i, want := range []message.Metadata{
		{"X-A": "1", "idempotency_key": "key-1", "ordering_key": "order 7", "type": "refund.created"},
		{"idempotency_key": until(t, box, ids[1], func(outbox.Fate) bool { return true }).Key, "ordering_key": "order 7"},
	} {
		m := get(t, received)
		if diff := cmp.Diff(want, m.Metadata); diff != "" || m.UUID != ids[i].String() || string(m.Payload) != []string{"a\x00\xffb", ""}[i] {
			t.Errorf("received %s, %q, metadata (-want +got):\n%s", m.UUID, m.Payload, diff)
		}
		m.Ack()
		if fate := until(t, box, ids[i], ended); fate.State != toolcall.MessageDelivered {
			t.Errorf("its fate is %+v", fate)
		}
	}
}

func TestDeliver_O07_Topics(t *testing.T) {
	t.Parallel()
	var got string
	to := publishes(func(topic string, _ ...*message.Message) error { got = topic; return nil })
	byType := func(d outbox.Delivery) string { return d.Type }
	for _, c := range []struct {
		cfg  *watermillpub.Config
		want string
	}{
		{nil, "refunds"},
		{&watermillpub.Config{Topic: "events"}, "events"},
		{&watermillpub.Config{TopicOf: byType}, "refund.created"},
	} {
		out, err := newPublisher(t, to, c.cfg).Deliver(t.Context(), aDelivery())
		if err != nil || out.Class != outbox.Delivered || got != c.want {
			t.Errorf("%+v: %+v, %v, topic %q", c.cfg, out, err, got)
		}
	}
	got = "none"
	d := aDelivery()
	d.Type = ""
	out, err := newPublisher(t, to, &watermillpub.Config{TopicOf: byType}).Deliver(t.Context(), d)
	if err != nil || out.Class != outbox.Rejected || got != "none" {
		t.Errorf("without a topic: %+v, %v, topic %q", out, err, got)
	}
	if _, err := watermillpub.New(nil, nil); err == nil {
		t.Error("New without a publisher")
	}
	if _, err := watermillpub.New(to, &watermillpub.Config{Topic: "events", TopicOf: byType}); err == nil {
		t.Error("New with two topics")
	}
}

func TestCheck_O07_RefusesWhatCannotBeDelivered(t *testing.T) {
	t.Parallel()
	to := publishes(func(string, ...*message.Message) error { return nil })
	byAddress, fixed := newPublisher(t, to, nil), newPublisher(t, to, &watermillpub.Config{Topic: "events"})
	called := newPublisher(t, to, &watermillpub.Config{TopicOf: func(outbox.Delivery) string { return "t" }})
	header := func(name string) outbox.Message {
		return outbox.Message{Address: "a", Headers: map[string]string{name: "v"}}
	}
	for i, c := range []struct {
		p    *watermillpub.Publisher
		m    outbox.Message
		want string // in the error; empty where there is none
	}{
		{byAddress, outbox.Message{Address: "a"}, ""},
		{byAddress, outbox.Message{}, "topic"},
		{fixed, outbox.Message{}, ""},
		{called, outbox.Message{}, ""},
		{byAddress, header("Idempotency-Key"), ""},
		{byAddress, header("watermill"), ""},
		{byAddress, header("Idempotency_Key"), `"Idempotency_Key"`},
		{byAddress, header("ORDERING_KEY"), `"ORDERING_KEY"`},
		{byAddress, header("Type"), `"Type"`},
		{byAddress, header("_watermill_message_uuid"), `"_watermill_message_uuid"`},
		{byAddress, header("_Watermill-x"), `"_Watermill-x"`},
	} {
		err := c.p.Check(c.m)
		if (err == nil) != (c.want == "") || err != nil && (!strings.HasPrefix(err.Error(), "watermillpub: ") || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%d: %v", i, err)
		}
	}
	var _ outbox.Checker = fixed
}

func TestDeliver_O03_ErrorsAreUnanswered(t *testing.T) {
	t.Parallel()
	refused, broken := errors.New("too large"), errors.New("the wire is cut")
	to := func(err error) message.Publisher {
		return publishes(func(string, ...*message.Message) error { return err })
	}
	as := func(class outbox.Class) *watermillpub.Config {
		return &watermillpub.Config{Classify: func(err error) outbox.Class {
			if errors.Is(err, refused) {
				return class
			}
			return outbox.Unanswered
		}}
	}
	for i, c := range []struct {
		err  error
		cfg  *watermillpub.Config
		want outbox.Class
	}{
		{broken, nil, outbox.Unanswered},
		{broken, as(outbox.Rejected), outbox.Unanswered},
		{refused, as(outbox.Rejected), outbox.Rejected},
		{refused, as(outbox.Retry), outbox.Retry},
		{refused, as(outbox.Gone), outbox.Gone},
		{refused, as(outbox.Delivered), outbox.Unanswered}, // an error is no delivery
		{refused, as(99), outbox.Unanswered},
	} {
		out, err := newPublisher(t, to(c.err), c.cfg).Deliver(t.Context(), aDelivery())
		text := out.Reason
		if c.want == outbox.Unanswered && errors.Is(err, c.err) {
			text = err.Error()
		}
		if out.Class != c.want || !strings.HasPrefix(text, `watermillpub: topic "refunds": `) || (err == nil) != (c.want != outbox.Unanswered) {
			t.Errorf("%d: %+v, %v", i, out, err)
		}
	}
}

func TestDeliver_O01_PublisherMayChangeWhatItGets(t *testing.T) {
	t.Parallel()
	var attempts []*message.Message
	to := publishes(func(_ string, messages ...*message.Message) error {
		attempts = append(attempts, messages[0].Copy())
		attempts[len(attempts)-1].Payload = []byte(string(messages[0].Payload))
		clear(messages[0].Metadata)
		clear(messages[0].Payload)
		return nil
	})
	d := aDelivery()
	for d.Attempt = range 2 {
		if out, err := newPublisher(t, to, nil).Deliver(t.Context(), d); err != nil || out.Class != outbox.Delivered {
			t.Fatalf("%+v, %v", out, err)
		}
	}
	if !attempts[0].Equals(attempts[1]) {
		t.Errorf("attempts %+v and %+v", attempts[0], attempts[1])
	}
	d.Attempt = 1
	if diff := cmp.Diff(aDelivery(), d); diff != "" {
		t.Errorf("the delivery (-want +got):\n%s", diff)
	}
}

func TestDeliver_O08_MessageHasTheContextOfTheAttempt(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	to := publishes(func(_ string, messages ...*message.Message) error {
		calls++
		cancel()
		select {
		case <-messages[0].Context().Done():
			return messages[0].Context().Err()
		case <-time.After(time.Minute):
			return nil
		}
	})
	p := newPublisher(t, to, nil)
	if out, err := p.Deliver(ctx, aDelivery()); !errors.Is(err, context.Canceled) || out.Class != outbox.Unanswered {
		t.Errorf("an attempt that was cut off: %+v, %v", out, err)
	}
	if out, err := p.Deliver(ctx, aDelivery()); err != nil || out.Class != outbox.Retry || calls != 1 {
		t.Errorf("an attempt without time: %+v, %v, %d calls", out, err, calls)
	}
}

// A publisher that hangs is waited for, one call for each of the destination's slots; the outbox goes on when it returns.
func TestDeliver_O03_O08_PublisherThatHangs(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, nil)
	release := make(chan struct{})
	var calls, together, most atomic.Int32
	to := publishes(func(string, ...*message.Message) error {
		if n := together.Add(1); n > 1 {
			most.Store(n)
		}
		defer together.Add(-1)
		if calls.Add(1) == 1 {
			<-release
		}
		return nil
	})
	box := newBox(t, pool, outbox.Destination{
		Name: "events", Publisher: newPublisher(t, to, &watermillpub.Config{Topic: "t"}), Concurrency: 1,
		Timeout: time.Second, Retry: outbox.Schedule{time.Millisecond, time.Millisecond, time.Millisecond},
	})
	relay(t, box)
	ids := publish(t, pool, box, outbox.Message{Destination: "events"}, outbox.Message{Destination: "events"})
	first := until(t, box, ids[0], func(f outbox.Fate) bool { return f.Reason != "" || f.State.Ended() })
	if first.State.Ended() || !strings.Contains(first.Reason, "does not heed") || calls.Load() != 1 {
		t.Errorf("while it hangs, behind %d calls: %+v", calls.Load(), first)
	}
	close(release)
	for _, id := range ids {
		if fate := until(t, box, id, ended); fate.State != toolcall.MessageDelivered {
			t.Errorf("its fate is %+v", fate)
		}
	}
	if calls.Load() < 3 || most.Load() > 1 {
		t.Errorf("%d calls, up to %d at a time", calls.Load(), most.Load())
	}
}

func TestPublishTx_O07_HeaderThatIsKept(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, nil)
	box := newBox(t, pool, outbox.Destination{Name: "events", Publisher: newPublisher(t, publishes(nil), nil)})
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	headers := map[string]string{"Trace": "1"}
	if _, err := box.PublishTx(t.Context(), tx, outbox.Message{Destination: "events", Address: "a", Headers: headers}); err != nil {
		t.Error(err)
	}
	headers = maps.Clone(headers)
	headers["ordering_key"] = "another"
	if _, err := box.PublishTx(t.Context(), tx, outbox.Message{Destination: "events", Address: "a", Headers: headers}); err == nil {
		t.Error("published with a header that passes for the ordering key")
	}
}
