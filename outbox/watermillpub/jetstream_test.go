package watermillpub_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	watermillnats "github.com/ThreeDotsLabs/watermill-nats/v2/pkg/nats"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/txonce/txonce/internal/dbtest"
	"github.com/txonce/txonce/outbox"
	"github.com/txonce/txonce/outbox/watermillpub"
	"github.com/txonce/txonce/toolcall"
)

const subject = "refunds"

// stream makes a stream that remembers ids, and Watermill's publisher to it.
func stream(t *testing.T, s *natsServer) (nats.JetStreamContext, message.Publisher) {
	t.Helper()
	options := []nats.Option{nats.MaxReconnects(-1), nats.ReconnectWait(20 * time.Millisecond)}
	conn, err := nats.Connect(s.url(), options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := conn.JetStream(nats.MaxWait(30 * time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.AddStream(&nats.StreamConfig{Name: "REFUNDS", Subjects: []string{subject}, Storage: nats.FileStorage, Duplicates: time.Hour}); err != nil {
		t.Fatal(err)
	}
	publisher, err := watermillnats.NewPublisher(watermillnats.PublisherConfig{
		URL: s.url(), NatsOptions: options,
		JetStream: watermillnats.JetStreamConfig{TrackMsgId: true, PublishOptions: []nats.PubOpt{nats.AckWait(500 * time.Millisecond)}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := publisher.Close(); err != nil {
			t.Error(err)
		}
	})
	return js, publisher
}

// stored reads what the stream has, in its order.
func stored(t *testing.T, js nats.JetStreamContext) (all []*message.Message) {
	t.Helper()
	info, err := js.StreamInfo("REFUNDS")
	if err != nil {
		t.Fatal(err)
	}
	for seq := uint64(1); seq <= info.State.LastSeq; seq++ {
		raw, err := js.GetMsg("REFUNDS", seq)
		if err != nil {
			t.Fatal(err)
		}
		m, err := (&watermillnats.NATSMarshaler{}).Unmarshal(&nats.Msg{Subject: raw.Subject, Header: raw.Header, Data: raw.Data})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
	}
	return all
}

// often is a schedule that outlasts what happens in a test.
func often() outbox.Schedule {
	s := make(outbox.Schedule, 100)
	for i := range s {
		s[i] = time.Second
	}
	return s
}

func TestJetStream_O01_O07_MessageArrivesWhole(t *testing.T) {
	t.Parallel()
	s := startNATS(t)
	js, to := stream(t, s)
	pool := dbtest.Pool(t, nil)
	box := newBox(t, pool, outbox.Destination{Name: "events", Publisher: newPublisher(t, to, &watermillpub.Config{Topic: subject})})
	relay(t, box)
	ids := publish(t, pool, box, outbox.Message{
		Destination: "events", Key: "key-1", OrderingKey: "order 7", Type: "refund.created", Headers: map[string]string{"traceparent": "00-ab-cd-01"}, Body: []byte("a\x00\xffb"),
	})
	if fate := until(t, box, ids[0], ended); fate.State != toolcall.MessageDelivered {
		t.Fatalf("its fate is %+v", fate)
	}
	want := message.NewMessage(ids[0].String(), []byte("a\x00\xffb"))
	want.Metadata = message.Metadata{"traceparent": "00-ab-cd-01", "idempotency_key": "key-1", "ordering_key": "order 7", "type": "refund.created"}
	if got := stored(t, js); len(got) != 1 || !got[0].Equals(want) {
		t.Errorf("the stream has %+v", got)
	}
}

// The broker has the message, and nobody hears of it: it is sent again under the same id, which JetStream knows.
func TestJetStream_O01_AnswerThatIsLost(t *testing.T) {
	t.Parallel()
	s := startNATS(t)
	js, to := stream(t, s)
	pool := dbtest.Pool(t, nil)
	lost := errors.New("the answer is lost")
	var once sync.Once
	p := newPublisher(t, publishes(func(topic string, messages ...*message.Message) error {
		err := to.Publish(topic, messages...)
		once.Do(func() { err = errors.Join(err, lost) })
		return err
	}), &watermillpub.Config{Topic: subject})
	box := newBox(t, pool, outbox.Destination{Name: "events", Publisher: p, Retry: outbox.Schedule{time.Millisecond, time.Second, time.Second, time.Second}})
	relay(t, box)
	ids := publish(t, pool, box, outbox.Message{Destination: "events", Body: []byte("once")})
	if fate := until(t, box, ids[0], ended); fate.State != toolcall.MessageDelivered || fate.Attempts < 2 {
		t.Errorf("its fate is %+v", fate)
	}
	if got := stored(t, js); len(got) != 1 || got[0].UUID != ids[0].String() {
		t.Errorf("the stream has %+v", got)
	}
}

// outcomes notes what attempts came to.
type outcomes struct {
	outbox.Publisher
	unanswered chan struct{}
	mu         sync.Mutex
	classes    map[outbox.Class]int
}

func (o *outcomes) Deliver(ctx context.Context, d outbox.Delivery) (outbox.Outcome, error) {
	out, err := o.Publisher.Deliver(ctx, d)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.classes[out.Class]++
	if out.Class == outbox.Unanswered {
		select {
		case o.unanswered <- struct{}{}:
		default:
		}
	}
	return out, err
}

func TestJetStream_O01_O02_O03_BrokerKilledInTheMiddle(t *testing.T) {
	t.Parallel()
	const n, killedBehind, keys = 90, 20, 3
	s := startNATS(t)
	js, to := stream(t, s)
	pool := dbtest.Pool(t, nil)
	var mu sync.Mutex
	taken, killed := 0, make(chan struct{})
	dies := publishes(func(topic string, messages ...*message.Message) error {
		err := to.Publish(topic, messages...)
		mu.Lock()
		defer mu.Unlock() // nothing is handed over, and comes back, before the broker is gone
		if err != nil {
			return err
		}
		if taken++; taken == killedBehind {
			s.kill()
			close(killed)
		}
		return nil
	})
	p := &outcomes{Publisher: newPublisher(t, dies, &watermillpub.Config{Topic: subject}), unanswered: make(chan struct{}, 1), classes: make(map[outbox.Class]int)}
	box := newBox(t, pool, outbox.Destination{Name: "events", Publisher: p, Retry: often()})
	var messages []outbox.Message
	for i := range n {
		m := outbox.Message{Destination: "events", Body: fmt.Appendf(nil, "%02d", i)}
		if i%2 == 0 {
			m.OrderingKey = fmt.Sprint("order ", i/2%keys)
		}
		messages = append(messages, m)
	}
	ids := publish(t, pool, box, messages...)
	relay(t, box)
	get(t, killed)
	select {
	case <-p.unanswered: // of a broker that was slow
	default:
	}
	get(t, p.unanswered)
	s.start()
	want, got := make(map[string]string), make(map[string]string)
	for i, id := range ids {
		want[id.String()] = string(messages[i].Body)
		if fate := until(t, box, id, ended); fate.State != toolcall.MessageDelivered {
			t.Errorf("its fate is %+v", fate)
		}
	}
	last := make(map[string]string)
	all := stored(t, js)
	for _, m := range all {
		got[m.UUID] = string(m.Payload)
		if key := m.Metadata.Get(watermillpub.MetadataOrderingKey); key != "" {
			if last[key] >= string(m.Payload) {
				t.Errorf("%s: %s came behind %s", key, m.Payload, last[key])
			}
			last[key] = string(m.Payload)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" || len(all) != n || len(last) != keys {
		t.Errorf("the stream has %d messages under %d keys, lost or strange (-want +got):\n%s", len(all), len(last), diff)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.classes[outbox.Delivered] != n || p.classes[outbox.Retry]+p.classes[outbox.Rejected]+p.classes[outbox.Gone] != 0 {
		t.Errorf("attempts came to %v", p.classes)
	}
	t.Logf("%d attempts delivered, %d without an answer", p.classes[outbox.Delivered], p.classes[outbox.Unanswered])
}
