package outbox_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/internal/dbtest"
	"github.com/txonce/txonce/outbox"
	"github.com/txonce/txonce/toolcall"
	"github.com/txonce/txonce/txidem"
)

// heard is what a caller hears of a message, in short.
type heard struct {
	Effect   string
	State    toolcall.MessageState
	Attempts int
	Next     bool
	Ended    bool
}

// hears asks for the messages of a call.
func hears(t *testing.T, box *outbox.Outbox, asks ...toolcall.Ask) [][]heard {
	t.Helper()
	found, err := box.Messages(t.Context(), asks)
	if err != nil {
		t.Fatal(err)
	}
	out := make([][]heard, len(found))
	for i, all := range found {
		for _, m := range all {
			out[i] = append(out[i], heard{m.Effect, m.State, m.Attempts, !m.NextAttemptAt.IsZero(), !m.EndedAt.IsZero()})
		}
	}
	return out
}

// TestMessages_S07_S05_WhatCallersHear: of each of their messages how far it is, in the order in which they were sent, and nothing of
// anybody else's.
func TestMessages_S07_S05_WhatCallersHear(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, nil)
	g := newGate(t)
	box := newBox(t, pool, nil, outbox.Destination{Name: "hook", Publisher: g, Concurrency: 1, Retry: outbox.Schedule{1 << 50}}, outbox.Destination{Name: "sms"})
	store := newStore(t, pool, nil)
	var ids []toolcall.ID
	res, err := txidem.Run(t.Context(), store, request("1"), func(ctx context.Context, tx pgx.Tx) (string, error) {
		for _, m := range []outbox.Message{{Destination: "hook", Effect: "z"}, {Destination: "hook", Effect: "a", Delay: time.Hour}, {Destination: "sms", Effect: "m"}} {
			id, err := box.PublishTx(ctx, tx, m)
			if err != nil {
				return "", err
			}
			ids = append(ids, id)
		}
		return "", nil
	})
	if err != nil {
		t.Fatal(err)
	}
	publish(t, pool, box, outbox.Message{Destination: "sms"}) // nobody's
	mine := toolcall.Ask{Scope: "alice", ID: res.ID}
	expect := func(first heard) {
		t.Helper()
		want := [][]heard{
			{first, {"a", toolcall.MessagePending, 0, true, false}, {"m", toolcall.MessagePending, 0, true, false}}, nil, nil, nil, nil, nil,
		}
		got := hears(t, box, mine, toolcall.Ask{Scope: "bob", ID: res.ID}, toolcall.Ask{Scope: "", ID: res.ID}, toolcall.Ask{Scope: "a\x00", ID: res.ID},
			toolcall.Ask{Scope: "alice"}, toolcall.Ask{Scope: "", ID: toolcall.ID{}})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("callers hear (-want +got):\n%s", diff)
		}
	}
	expect(heard{"z", toolcall.MessagePending, 0, true, false})
	relay(t, box)
	v := g.next(t)
	expect(heard{"z", toolcall.MessageDelivering, 1, true, false})
	v.answers(busy)
	until(t, box, ids[0], func(f outbox.Fate) bool { return f.Status == 503 })
	expect(heard{"z", toolcall.MessagePending, 1, true, false})
	due(t, pool, ids[0])
	g.next(t).answers(delivered)
	ends(t, box, ids[0])
	expect(heard{"z", toolcall.MessageDelivered, 2, false, true})
}

// TestMessages_S07_NoMoreThanFiftyOfACall, however many it has sent; many asks are answered in their order.
func TestMessages_S07_NoMoreThanFiftyOfACall(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, nil)
	box := newBox(t, pool, nil, mail())
	store := newStore(t, pool, nil)
	var asks []toolcall.Ask
	for _, n := range []int{1, 60, 0, 2} {
		res, err := txidem.Run(t.Context(), store, request(fmt.Sprint(n)), sends(box, some("mail", n)...))
		if err != nil {
			t.Fatal(err)
		}
		asks = append(asks, toolcall.Ask{Scope: "alice", ID: res.ID})
	}
	got := hears(t, box, append(asks, asks[0])...)
	for i, want := range []int{1, 50, 0, 2, 1} {
		if len(got[i]) != want {
			t.Errorf("ask %d hears of %d messages, want %d", i, len(got[i]), want)
		}
	}
	if first, last := got[1][0].Effect, got[1][49].Effect; first != "mail/1" || last != "mail/50" {
		t.Errorf("of 60, it hears from %s to %s", first, last)
	}
	if none, err := box.Messages(t.Context(), nil); err != nil || len(none) != 0 {
		t.Errorf("no question gives %v, %v", none, err)
	}
}

func some(destination string, n int) (all []outbox.Message) {
	for range n {
		all = append(all, outbox.Message{Destination: destination})
	}
	return all
}
