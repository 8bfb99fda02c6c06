package outbox_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/internal/dbtest"
	"github.com/txonce/txonce/outbox"
	"github.com/txonce/txonce/toolcall"
)

// TestRetry_O04_RelaysDoNotMultiplyAttempts is the second half of trap 9: twelve relays make as many attempts as the schedule has, of
// each message, in its order.
func TestRetry_O04_RelaysDoNotMultiplyAttempts(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, func(cfg *pgxpool.Config) { cfg.MaxConns = 24 })
	r := answers(busy)
	d := outbox.Destination{Name: "hook", Publisher: r, Retry: outbox.Schedule{time.Millisecond, time.Millisecond, time.Millisecond}, OnDead: outbox.SkipKey}
	var box *outbox.Outbox
	for range 12 {
		box = newBox(t, pool, nil, d)
		relay(t, box)
	}
	var all []outbox.Message
	for i := range 20 {
		all = append(all, outbox.Message{Destination: "hook"}, outbox.Message{Destination: "hook", OrderingKey: fmt.Sprint(i % 3)})
	}
	ids := publish(t, pool, box, all...)
	for _, id := range ids {
		ended(t, box, id, toolcall.MessageFailed, 4)
	}
	got := map[toolcall.ID]int{}
	for _, d := range r.all() {
		if got[d.ID]++; got[d.ID] != d.Attempt {
			t.Errorf("attempt %d came as number %d", d.Attempt, got[d.ID])
		}
	}
	for id, n := range got {
		if n != 4 {
			t.Errorf("%s was sent %d times", id, n)
		}
	}
}

// TestRetry_O04_RelaysThatDieAreCounted: an attempt is counted as it begins.
func TestRetry_O04_RelaysThatDieAreCounted(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, nil)
	g := newGate(t)
	box := newBox(t, pool, nil, outbox.Destination{Name: "hook", Publisher: g, Timeout: 10 * time.Minute, Retry: outbox.Schedule{1, 1}})
	relay(t, box)
	id := publish(t, pool, box, outbox.Message{Destination: "hook"})[0]
	for range 3 {
		g.next(t)
		lapse(t, pool, id)
	}
	ended(t, box, id, toolcall.MessageUnknown, 3)
	g.nobody(t)
}

// TestRetry_O04_RetryAfter: the database says when the next attempt is due, and never earlier than the receiver did.
func TestRetry_O04_RetryAfter(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, nil)
	after := busy
	after.RetryAfter = time.Hour
	box := newBox(t, pool, nil, outbox.Destination{Name: "hook", Publisher: answers(after), Retry: outbox.Schedule{time.Second}})
	before := get[time.Time](t, pool, `select clock_timestamp()`)
	relay(t, box)
	id := publish(t, pool, box, outbox.Message{Destination: "hook"})[0]
	f := until(t, box, id, func(f outbox.Fate) bool { return f.Reason != "" })
	if wait := f.NextAttemptAt.Sub(before); f.State != toolcall.MessagePending || wait < time.Hour || wait > 2*time.Hour {
		t.Errorf("the next attempt is due behind %v; %+v", wait, f)
	}
	if n := get[int](t, pool, `select count(*)::integer from txonce.destination where closed_until is not null`); n != 0 {
		t.Error("others have to wait as well")
	}
}

// TestRetry_O04_Throttled: the receiver wants to be left alone by all relays, with all messages; others are not concerned.
func TestRetry_O04_Throttled(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, nil)
	var open atomic.Bool
	r := newReceiver(nil)
	r.answer = func(d outbox.Delivery) (outbox.Outcome, error) {
		if d.Destination == "other" || open.Load() {
			return delivered, nil
		}
		return outbox.Outcome{Class: outbox.Retry, Status: 429, RetryAfter: time.Hour, Throttled: true}, nil
	}
	dest := []outbox.Destination{{Name: "hook", Publisher: r, Concurrency: 1}, {Name: "other", Publisher: r}}
	box, second := newBox(t, pool, nil, dest...), newBox(t, pool, nil, dest...)
	first := publish(t, pool, box, outbox.Message{Destination: "hook"})[0]
	relay(t, box)
	until(t, box, first, func(f outbox.Fate) bool { return f.Status == 429 })
	relay(t, second)
	waiting := publish(t, pool, box, outbox.Message{Destination: "hook"}, outbox.Message{Destination: "hook", OrderingKey: "k"})
	for range 20 { // each has many looks meanwhile
		ended(t, box, publish(t, pool, box, outbox.Message{Destination: "other"})[0], toolcall.MessageDelivered, 1)
	}
	for _, id := range waiting {
		if f := fate(t, box, id); f.Attempts != 0 {
			t.Errorf("a throttled destination got %+v", f)
		}
	}
	open.Store(true)
	execute(t, pool, `update txonce.destination set closed_until = clock_timestamp() where name = 'hook' and closed_until > clock_timestamp() + interval '50 minutes'`)
	for _, id := range waiting {
		ended(t, box, id, toolcall.MessageDelivered, 1)
	}
}

// TestRetry_O04_ThrottledAtAnAddress: one customer's endpoint does not close the others'.
func TestRetry_O04_ThrottledAtAnAddress(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, nil)
	for _, out := range []outbox.Outcome{{Class: outbox.Retry, RetryAfter: time.Hour, Throttled: true}, gone} {
		r := newReceiver(func(d outbox.Delivery) (outbox.Outcome, error) {
			if d.Address == "a" {
				return out, nil
			}
			return delivered, nil
		})
		box := newBox(t, pool, nil, outbox.Destination{Name: "hook", Publisher: r})
		stop := relay(t, box)
		first := publish(t, pool, box, outbox.Message{Destination: "hook", Address: "a"})[0]
		until(t, box, first, func(f outbox.Fate) bool {
			return f.State == toolcall.MessagePending && f.Attempts == 1 && f.NextAttemptAt.After(f.PublishedAt.Add(time.Minute)) || f.State == toolcall.MessageFailed
		})
		ended(t, box, publish(t, pool, box, outbox.Message{Destination: "hook", Address: "b"})[0], toolcall.MessageDelivered, 1)
		stop()
	}
}

// TestRetry_O05_GonePauses: the receiver wants no more, so what waits is kept until an operator says that it may go.
func TestRetry_O05_GonePauses(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, nil)
	log := &logbook{}
	box := newBox(t, pool, &outbox.Config{Logger: log.logger()}, outbox.Destination{Name: "hook", Publisher: answers(gone, delivered), Concurrency: 1}, mail())
	relay(t, box)
	ended(t, box, publish(t, pool, box, outbox.Message{Destination: "hook"})[0], toolcall.MessageFailed, 1)
	second := publish(t, pool, box, outbox.Message{Destination: "hook"})[0]
	for range 10 {
		ended(t, box, publish(t, pool, box, outbox.Message{Destination: "mail"})[0], toolcall.MessageDelivered, 1)
	}
	if f := fate(t, box, second); f.Attempts != 0 {
		t.Errorf("the receiver got %+v", f)
	}
	if why := get[string](t, pool, `select paused_for from txonce.destination where name = 'hook'`); why != "the receiver wants no more messages: no more" || log.count("destination is paused") != 1 {
		t.Errorf("it is paused for %q", why)
	}
	if err := box.Resume(t.Context(), "hook"); err != nil {
		t.Fatal(err)
	}
	ended(t, box, second, toolcall.MessageDelivered, 1)
}

// TestRetry_O04_Rate: two relays together begin no more attempts than the rate allows, by the database's clock.
func TestRetry_O04_Rate(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, nil)
	const rate, n = 20, 60
	r := newReceiver(nil)
	dest := outbox.Destination{Name: "hook", Publisher: r, Rate: rate}
	box, second := newBox(t, pool, nil, dest), newBox(t, pool, nil, dest)
	var all []outbox.Message
	for i := range n {
		m := outbox.Message{Destination: "hook"}
		if i%2 == 0 {
			m.OrderingKey = fmt.Sprint(i)
		}
		all = append(all, m)
	}
	publish(t, pool, box, all...)
	began := get[time.Time](t, pool, `select clock_timestamp()`)
	relay(t, box)
	relay(t, second)
	r.wait(t, n)
	took := get[time.Time](t, pool, `select clock_timestamp()`).Sub(began)
	// A burst of one second's worth, and then the rate: (60 - 20) / 20 is two seconds, however slow the machine.
	if least := time.Second * (n - rate) / rate; took < least*99/100 {
		t.Errorf("%d attempts began within %v, at %d in a second", n, took, rate)
	}
}

// TestRetry_O02_SlowRateServesBothKinds: where there is one attempt at a time, messages with and without ordering keys take turns.
func TestRetry_O02_SlowRateServesBothKinds(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, nil)
	r := newReceiver(nil)
	box := newBox(t, pool, &outbox.Config{Poll: 5 * time.Millisecond}, outbox.Destination{Name: "hook", Publisher: r, Rate: 1})
	execute(t, pool, `create function hurry() returns trigger language plpgsql as $$ begin new.counted_at := new.counted_at - interval '1 second'; return new; end $$`)
	execute(t, pool, `create trigger hurry before insert or update on txonce.destination for each row execute function hurry()`) // each look is a second behind the last one
	var all []outbox.Message
	for range 20 {
		all = append(all, outbox.Message{Destination: "hook"})
	}
	for range 3 {
		all = append(all, outbox.Message{Destination: "hook", OrderingKey: "k"})
	}
	ids := publish(t, pool, box, all...)
	relay(t, box)
	for _, id := range ids[20:] {
		ended(t, box, id, toolcall.MessageDelivered, 1)
	}
	if f := fate(t, box, ids[19]); f.State.Ended() {
		t.Error("those with a key came last")
	}
	if f := fate(t, box, ids[0]); !f.State.Ended() {
		t.Error("those without one were not served")
	}
	only := publish(t, pool, box, outbox.Message{Destination: "hook", OrderingKey: "k"})
	for _, id := range append(ids, only...) {
		ended(t, box, id, toolcall.MessageDelivered, 1)
	}
}

// TestRetry_O04_Concurrency is never exceeded, by either kind of message.
func TestRetry_O04_Concurrency(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, nil)
	var mu sync.Mutex
	now, most := 0, 0
	p := outbox.Func(func(ctx context.Context, _ outbox.Delivery) (outbox.Outcome, error) {
		mu.Lock()
		now++
		most = max(most, now)
		mu.Unlock()
		defer func() {
			mu.Lock()
			now--
			mu.Unlock()
		}()
		_, err := pool.Exec(ctx, `select pg_sleep(0.001)`) // a while
		return delivered, err
	})
	box := newBox(t, pool, nil, outbox.Destination{Name: "hook", Publisher: p, Concurrency: 3})
	var all []outbox.Message
	for i := range 60 {
		all = append(all, outbox.Message{Destination: "hook"}, outbox.Message{Destination: "hook", OrderingKey: fmt.Sprint(i % 7)})
	}
	ids := publish(t, pool, box, all...)
	relay(t, box)
	for _, id := range ids {
		ends(t, box, id)
	}
	if mu.Lock(); most != 3 {
		t.Errorf("%d attempts were under way at a time, want 3", most)
	}
	mu.Unlock()
}

// TestRetry_O01_DelayAndWithin: nothing is sent before its time or behind it.
func TestRetry_O01_DelayAndWithin(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, nil)
	r := answers(delivered)
	box := newBox(t, pool, nil, outbox.Destination{Name: "hook", Publisher: r})
	ids := publish(t, pool, box,
		outbox.Message{Destination: "hook", Delay: time.Hour, Body: []byte("delayed")},
		outbox.Message{Destination: "hook", Within: time.Hour, OrderingKey: "k", Body: []byte("too late")},
		outbox.Message{Destination: "hook", Within: time.Hour, OrderingKey: "k", Body: []byte("in time")})
	if f := fate(t, box, ids[0]); f.NextAttemptAt.Sub(f.PublishedAt) != time.Hour {
		t.Errorf("it is due %v behind its publication", f.NextAttemptAt.Sub(f.PublishedAt))
	}
	execute(t, pool, `update txonce.message_pending set ends_at = clock_timestamp() where id = $1::text::uuid`, ids[1].String())
	relay(t, box)
	if f := ended(t, box, ids[1], toolcall.MessageExpired, 0); f.Blocking {
		t.Error("what has expired keeps others waiting")
	}
	ended(t, box, ids[2], toolcall.MessageDelivered, 1)
	if all := r.all(); len(all) != 1 || string(all[0].Body) != "in time" {
		t.Errorf("the receiver got %+v", all)
	}
	due(t, pool, ids[0])
	ended(t, box, ids[0], toolcall.MessageDelivered, 1)
}

// TestRetry_O02_TimeIsOverBetweenAttempts: the message ends then, and not when its next attempt would have been due, so that those
// behind it go on. It is unknown where an attempt got no answer.
func TestRetry_O02_TimeIsOverBetweenAttempts(t *testing.T) {
	t.Parallel()
	for label, c := range map[string]struct {
		first outbox.Outcome
		want  toolcall.MessageState
	}{"refused": {busy, toolcall.MessageExpired}, "unanswered": {unanswered, toolcall.MessageUnknown}} {
		t.Run(label, func(t *testing.T) {
			t.Parallel()
			pool := dbtest.Pool(t, nil)
			c.first.RetryAfter = 20 * time.Hour
			box := newBox(t, pool, nil, outbox.Destination{Name: "hook", Publisher: answers(c.first, delivered), Retry: outbox.Schedule{1, 1}, OnDead: outbox.SkipKey})
			relay(t, box)
			ids := publish(t, pool, box, outbox.Message{Destination: "hook", Within: time.Hour, OrderingKey: "k"}, outbox.Message{Destination: "hook", OrderingKey: "k"})
			f := until(t, box, ids[0], func(f outbox.Fate) bool { return f.State == toolcall.MessagePending && f.Reason != "" })
			if next := f.NextAttemptAt.Sub(f.PublishedAt); next != time.Hour {
				t.Errorf("it is looked at behind %v, when its time is over", next)
			}
			execute(t, pool, `update txonce.message_pending set due_at = clock_timestamp(), ends_at = clock_timestamp() where id = $1::text::uuid`, ids[0].String())
			ended(t, box, ids[0], c.want, 1)
			ended(t, box, ids[1], toolcall.MessageDelivered, 1)
		})
	}
}
