package outbox_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/txonce/txonce/internal/dbtest"
	"github.com/txonce/txonce/outbox"
	"github.com/txonce/txonce/toolcall"
)

// poisoned takes all but messages of type "poison".
func poisoned() *receiver {
	return newReceiver(func(d outbox.Delivery) (outbox.Outcome, error) {
		if d.Type == "poison" {
			return rejected, nil
		}
		return delivered, nil
	})
}

// TestDead_O05_PoisonedHead is trap 9: dead at the first attempt, no hot loop, other keys move, its own is blocked or skipped.
func TestDead_O05_PoisonedHead(t *testing.T) {
	t.Parallel()
	for _, policy := range []outbox.DeadPolicy{outbox.BlockKey, outbox.SkipKey} {
		pool := dbtest.Pool(t, nil)
		r := poisoned()
		box := newBox(t, pool, nil, outbox.Destination{Name: "hook", Publisher: r, OnDead: policy})
		ids := publish(t, pool, box,
			outbox.Message{Destination: "hook", OrderingKey: "k", Type: "poison", Body: []byte("kept")}, outbox.Message{Destination: "hook", OrderingKey: "k"})
		relay(t, box)
		f := ended(t, box, ids[0], toolcall.MessageFailed, 1)
		if f.Blocking != (policy == outbox.BlockKey) || f.Reason != rejected.Reason || f.Status != 400 {
			t.Errorf("policy %d: %+v", policy, f)
		}
		for range 20 {
			ended(t, box, publish(t, pool, box, outbox.Message{Destination: "hook", OrderingKey: "l"})[0], toolcall.MessageDelivered, 1)
		}
		poison := 0
		for _, d := range r.all() {
			if d.Type == "poison" {
				poison++
			}
		}
		if poison != 1 {
			t.Errorf("policy %d: the poison was sent %d times", policy, poison)
		}
		if n := get[int](t, pool, `select count(*)::integer from txonce.message where body = 'kept'`); n != 1 {
			t.Error("the payload of a dead message is gone")
		}
		if policy == outbox.BlockKey {
			if f := fate(t, box, ids[1]); f.State != toolcall.MessagePending || f.Attempts != 0 {
				t.Errorf("what is behind the poison: %+v", f)
			}
			if err := box.Skip(t.Context(), ids[1]); !errors.Is(err, outbox.ErrNotDead) {
				t.Errorf("skipping what is alive gives %v", err)
			}
			if err := box.Skip(t.Context(), ids[0]); err != nil {
				t.Fatal(err)
			}
			if f := fate(t, box, ids[0]); f.State != toolcall.MessageFailed || f.Blocking {
				t.Errorf("what was skipped: %+v", f)
			}
			if err := box.Skip(t.Context(), ids[0]); !errors.Is(err, outbox.ErrNotDead) {
				t.Errorf("skipping it twice gives %v", err)
			}
		}
		ended(t, box, ids[1], toolcall.MessageDelivered, 1)
	}
}

// TestDead_O05_WhatBlocks: failed and unknown keep those behind waiting; cancelled and expired do not.
func TestDead_O05_WhatBlocks(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, nil)
	box := newBox(t, pool, nil, outbox.Destination{Name: "hook", Publisher: answers(unanswered, delivered), Retry: outbox.Schedule{}})
	ids := publish(t, pool, box, outbox.Message{Destination: "hook", OrderingKey: "k"}, outbox.Message{Destination: "hook", OrderingKey: "k"})
	relay(t, box)
	if f := ended(t, box, ids[0], toolcall.MessageUnknown, 1); !f.Blocking {
		t.Errorf("what is unknown lets others pass: %+v", f)
	}
	if err := box.Cancel(t.Context(), ids[0]); !errors.Is(err, outbox.ErrEnded) {
		t.Errorf("cancelling what has ended gives %v", err)
	}
	if f := fate(t, box, ids[1]); f.Attempts != 0 {
		t.Errorf("it went on: %+v", f)
	}
	if err := box.Redrive(t.Context(), ids[0]); err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		ended(t, box, id, toolcall.MessageDelivered, 1)
	}
}

// TestDead_O05_RedriveIsOnce: of many who have a message sent again at once, one does, and it is sent once more.
func TestDead_O05_RedriveIsOnce(t *testing.T) {
	t.Parallel()
	for _, policy := range []outbox.DeadPolicy{outbox.BlockKey, outbox.SkipKey} {
		pool := dbtest.Pool(t, nil)
		r := answers(rejected, delivered)
		box := newBox(t, pool, nil, outbox.Destination{Name: "hook", Publisher: r, OnDead: policy})
		id := publish(t, pool, box, outbox.Message{Destination: "hook", OrderingKey: "k"})[0]
		stop := relay(t, box)
		ended(t, box, id, toolcall.MessageFailed, 1)
		stop()
		const n = 8
		errs := make(chan error, n)
		for range n {
			go func() { errs <- box.Redrive(t.Context(), id) }()
		}
		redriven := 0
		for range n {
			if err := receive(t, "Redrive returns", errs); err == nil {
				redriven++
			} else if !errors.Is(err, outbox.ErrNotDead) {
				t.Errorf("Redrive gives %v", err)
			}
		}
		if f := fate(t, box, id); redriven != 1 || f.State != toolcall.MessagePending || f.Attempts != 0 || f.Blocking {
			t.Errorf("policy %d: %d had it sent again: %+v", policy, redriven, f)
		}
		relay(t, box)
		ended(t, box, id, toolcall.MessageDelivered, 1)
		all := r.all()
		if len(all) != 2 || all[0].ID != all[1].ID || all[0].Key != all[1].Key || all[1].Attempt != 1 {
			t.Errorf("policy %d: it was sent as %+v", policy, all)
		}
		if err := box.Redrive(t.Context(), id); !errors.Is(err, outbox.ErrNotDead) {
			t.Errorf("redriving what was delivered gives %v", err)
		}
	}
}

// TestDead_O05_RedriveBesideSkip: an operator's two answers to one dead message do not undo each other.
func TestDead_O05_RedriveBesideSkip(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, nil)
	box := newBox(t, pool, nil, outbox.Destination{Name: "hook", Publisher: answers(rejected)})
	for i := range 20 {
		id := publish(t, pool, box, outbox.Message{Destination: "hook", OrderingKey: string(rune('a' + i))})[0]
		stop := relay(t, box)
		ended(t, box, id, toolcall.MessageFailed, 1)
		stop()
		skipped := make(chan error, 1)
		go func() { skipped <- box.Skip(t.Context(), id) }()
		redriven, skip := box.Redrive(t.Context(), id), receive(t, "Skip returns", skipped)
		if skip != nil && !errors.Is(skip, outbox.ErrNotDead) || redriven != nil {
			t.Fatalf("Skip gives %v, Redrive %v", skip, redriven)
		}
		if f := fate(t, box, id); f.State != toolcall.MessagePending {
			t.Fatalf("it is lost: %+v", f)
		}
		execute(t, pool, `delete from txonce.message_pending`)
	}
}

// TestDead_O05_RedriveTakesTheTimeAway: what has expired is sent all the same, and has all its attempts.
func TestDead_O05_RedriveTakesTheTimeAway(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, nil)
	box := newBox(t, pool, nil, outbox.Destination{Name: "hook", Publisher: answers(delivered)})
	id := publish(t, pool, box, outbox.Message{Destination: "hook", Within: time.Hour})[0]
	execute(t, pool, `update txonce.message_pending set ends_at = clock_timestamp()`)
	relay(t, box)
	ended(t, box, id, toolcall.MessageExpired, 0)
	if err := box.Redrive(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	ended(t, box, id, toolcall.MessageDelivered, 1)
}

// TestDead_O05_RedriveAll: the oldest first, those of one destination, in the states that are named, up to a limit.
func TestDead_O05_RedriveAll(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, nil)
	var open atomic.Bool
	r := newReceiver(nil)
	r.answer = func(d outbox.Delivery) (outbox.Outcome, error) {
		switch {
		case open.Load():
			return delivered, nil
		case d.Type == "doubt":
			return unanswered, nil
		}
		return rejected, nil
	}
	box := newBox(t, pool, nil, outbox.Destination{Name: "hook", Publisher: r, Retry: outbox.Schedule{}}, outbox.Destination{Name: "other", Publisher: r})
	ids := publish(t, pool, box,
		outbox.Message{Destination: "hook"}, outbox.Message{Destination: "hook", Type: "doubt"}, outbox.Message{Destination: "hook", OrderingKey: "k"},
		outbox.Message{Destination: "other"}, outbox.Message{Destination: "hook", Within: time.Hour})
	execute(t, pool, `update txonce.message_pending set ends_at = clock_timestamp() where ends_at is not null`)
	stop := relay(t, box)
	for _, id := range ids {
		ends(t, box, id)
	}
	stop()
	open.Store(true)
	for _, c := range []struct {
		destination string
		limit       int
		states      []toolcall.MessageState
		want        int
	}{
		{"hook", 0, nil, 0},
		{"nowhere", 10, nil, 0},
		{"hook", 10, []toolcall.MessageState{toolcall.MessageDelivered, toolcall.MessageCancelled}, 0},
		{"hook", 1, nil, 1},
		{"hook", 10, []toolcall.MessageState{toolcall.MessageUnknown}, 1},
		{"hook", 10, nil, 1},
		{"hook", 10, nil, 0},
		{"hook", 10, []toolcall.MessageState{toolcall.MessageExpired}, 1},
	} {
		if n, err := box.RedriveAll(t.Context(), c.destination, c.limit, c.states...); err != nil || n != c.want {
			t.Errorf("RedriveAll of %s, %d, %v gives %d, %v; want %d", c.destination, c.limit, c.states, n, err, c.want)
		}
	}
	relay(t, box)
	for i, id := range ids {
		if i == 3 {
			ended(t, box, id, toolcall.MessageFailed, 1)
		} else {
			ended(t, box, id, toolcall.MessageDelivered, 1)
		}
	}
}
