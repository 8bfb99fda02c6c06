package outbox_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/internal/dbtest"
	"github.com/txonce/txonce/outbox"
	"github.com/txonce/txonce/toolcall"
)

// age lets time pass behind the first attempt that got no answer, and makes the message due.
func age(t *testing.T, pool *pgxpool.Pool, id toolcall.ID) {
	t.Helper()
	n := execute(t, pool, `update txonce.message_pending set unanswered_at = unanswered_at - interval '2 hours', due_at = clock_timestamp() where id = $1::text::uuid and unanswered_at is not null`, id.String())
	if n != 1 {
		t.Fatal("no attempt counts as unanswered")
	}
}

// aged publishes a message whose first attempt gets no answer, and lets the lifetime of its key pass.
func aged(t *testing.T, pool *pgxpool.Pool, box *outbox.Outbox) toolcall.ID {
	t.Helper()
	id := publish(t, pool, box, outbox.Message{Destination: "bank"})[0]
	relay(t, box)
	until(t, box, id, func(f outbox.Fate) bool {
		return f.State == toolcall.MessagePending && f.Attempts == 1 && f.Reason != ""
	})
	age(t, pool, id)
	return id
}

// TestLifetime_O06_NobodyToAsk is trap 10 without a Probe: nothing is sent again when the receiver may have forgotten the key.
func TestLifetime_O06_NobodyToAsk(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, nil)
	r := answers(unanswered, delivered)
	box := newBox(t, pool, nil, outbox.Destination{Name: "bank", Publisher: r, KeyLifetime: time.Hour, Retry: outbox.Schedule{1 << 50, 1 << 50}})
	id := aged(t, pool, box)
	if f := ended(t, box, id, toolcall.MessageUnknown, 1); len(r.all()) != 1 || f.EndedAt.IsZero() {
		t.Errorf("%d attempts; %+v", len(r.all()), f)
	}
}

// TestLifetime_O06_WithinItIsSentAgain, with the same key.
func TestLifetime_O06_WithinItIsSentAgain(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, nil)
	r := answers(unanswered, delivered)
	box := newBox(t, pool, nil, outbox.Destination{Name: "bank", Publisher: r, KeyLifetime: 24 * time.Hour, Retry: outbox.Schedule{1 << 50, 1 << 50}})
	id := aged(t, pool, box)
	ended(t, box, id, toolcall.MessageDelivered, 2)
	if all := r.all(); all[0].Key != all[1].Key || all[0].ID != all[1].ID {
		t.Errorf("the attempts are %+v", all)
	}
}

// TestLifetime_O06_RelayThatDiedCountsAsUnanswered: its attempt may have had its effect.
func TestLifetime_O06_RelayThatDiedCountsAsUnanswered(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, nil)
	r := newReceiver(nil)
	box := newBox(t, pool, nil, outbox.Destination{Name: "bank", Publisher: r, KeyLifetime: time.Hour})
	id := publish(t, pool, box, outbox.Message{Destination: "bank"})[0]
	execute(t, pool, `update txonce.message_pending set attempts = 1, token = gen_random_uuid(), begun_at = clock_timestamp() - interval '2 hours', lease_until = clock_timestamp() - interval '1 hour'`)
	relay(t, box)
	if ended(t, box, id, toolcall.MessageUnknown, 1); len(r.all()) != 0 {
		t.Errorf("it was sent %d times", len(r.all()))
	}
}

// TestLifetime_O06_ProbeIsAsked is trap 10 with a Probe, which can return each class.
func TestLifetime_O06_ProbeIsAsked(t *testing.T) {
	t.Parallel()
	for label, c := range map[string]struct {
		probe       outbox.Outcome
		err         error
		want        toolcall.MessageState
		sent, asked int
	}{
		"it was done":             {delivered, nil, toolcall.MessageDelivered, 1, 1},
		"it was not":              {busy, nil, toolcall.MessageDelivered, 2, 1},
		"it was not, and is not":  {rejected, nil, toolcall.MessageFailed, 1, 1},
		"nobody knows":            {unanswered, nil, toolcall.MessageUnknown, 1, 5},
		"nobody answers":          {delivered, errOops, toolcall.MessageUnknown, 1, 5},
		"there is nobody to know": {gone, nil, toolcall.MessageFailed, 1, 1},
	} {
		t.Run(label, func(t *testing.T) {
			t.Parallel()
			pool := dbtest.Pool(t, nil)
			var asked atomic.Int64
			r := answers(unanswered, delivered)
			var first atomic.Pointer[outbox.Delivery]
			box := newBox(t, pool, nil, outbox.Destination{
				Name: "bank", Publisher: r, KeyLifetime: time.Hour, Retry: outbox.Schedule{1 << 50, 1},
				Probe: func(_ context.Context, d outbox.Delivery) (outbox.Outcome, error) {
					asked.Add(1)
					first.CompareAndSwap(nil, &d)
					return c.probe, c.err
				},
			})
			id := aged(t, pool, box)
			f := ends(t, box, id)
			if f.State != c.want || len(r.all()) != c.sent || int(asked.Load()) != c.asked {
				t.Errorf("%s: it was sent %d times and asked about %d times, want %d and %d; %+v", label, len(r.all()), asked.Load(), c.sent, c.asked, f)
			}
			if d := first.Load(); d.ID != id || d.Key != f.Key || d.Attempt != 2 {
				t.Errorf("asked about %+v", d)
			}
		})
	}
}

// TestLifetime_O06_LastAttemptUnanswered: who can be asked is asked; who cannot leaves the message unknown.
func TestLifetime_O06_LastAttemptUnanswered(t *testing.T) {
	t.Parallel()
	for label, c := range map[string]struct {
		probe func(context.Context, outbox.Delivery) (outbox.Outcome, error)
		want  toolcall.MessageState
	}{
		"nobody to ask": {nil, toolcall.MessageUnknown},
		"it was done":   {func(context.Context, outbox.Delivery) (outbox.Outcome, error) { return delivered, nil }, toolcall.MessageDelivered},
		"it was not":    {func(context.Context, outbox.Delivery) (outbox.Outcome, error) { return busy, nil }, toolcall.MessageFailed},
		"nobody knows": {func(context.Context, outbox.Delivery) (outbox.Outcome, error) {
			return outbox.Outcome{}, errors.New("?")
		}, toolcall.MessageUnknown},
		"it panics": {func(context.Context, outbox.Delivery) (outbox.Outcome, error) { panic("?") }, toolcall.MessageUnknown},
	} {
		t.Run(label, func(t *testing.T) {
			t.Parallel()
			pool := dbtest.Pool(t, nil)
			r := answers(unanswered)
			box := newBox(t, pool, nil, outbox.Destination{Name: "bank", Publisher: r, Retry: outbox.Schedule{1, 1}, Probe: c.probe})
			relay(t, box)
			id := publish(t, pool, box, outbox.Message{Destination: "bank"})[0]
			if f := ends(t, box, id); f.State != c.want || len(r.all()) != 3 {
				t.Errorf("it was sent %d times; %+v", len(r.all()), f)
			}
		})
	}
}

// TestLifetime_I5_RefusedBehindDoubt: an earlier attempt may have had its effect, whatever the receiver says to the next one.
func TestLifetime_I5_RefusedBehindDoubt(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, nil)
	box := newBox(t, pool, nil, outbox.Destination{Name: "bank", Publisher: answers(unanswered, rejected), Retry: outbox.Schedule{1, 1}})
	relay(t, box)
	ended(t, box, publish(t, pool, box, outbox.Message{Destination: "bank"})[0], toolcall.MessageUnknown, 2)
}
