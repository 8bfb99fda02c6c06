package outbox_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/txonce/txonce/internal/dbtest"
	"github.com/txonce/txonce/outbox"
	"github.com/txonce/txonce/toolcall"
)

// TestCancel_O05_InEachState: what is under way or has ended is not cancelled; what may have had its effect is unknown.
func TestCancel_O05_InEachState(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, nil)
	g := newGate(t)
	box := newBox(t, pool, nil, outbox.Destination{Name: "hook", Publisher: g, Timeout: 10 * time.Minute, Retry: outbox.Schedule{1 << 50, 1 << 50}}, mail())
	cancel := func(label string, id toolcall.ID, want error) {
		t.Helper()
		if err := box.Cancel(t.Context(), id); !errors.Is(err, want) {
			t.Errorf("%s: Cancel gives %v, want %v", label, err, want)
		}
	}
	cancel("what never was", toolcall.NewID("a", "b", "c"), outbox.ErrNotFound)

	early := publish(t, pool, box, outbox.Message{Destination: "hook", OrderingKey: "k"}, outbox.Message{Destination: "hook", OrderingKey: "k"})
	cancel("pending", early[0], nil)
	cancel("cancelled", early[0], outbox.ErrEnded)
	ended(t, box, early[0], toolcall.MessageCancelled, 0)
	if err := box.Redrive(t.Context(), early[0]); !errors.Is(err, outbox.ErrNotDead) {
		t.Errorf("redriving what was cancelled gives %v", err)
	}
	stop := relay(t, box)
	v := g.next(t)
	if v.ID != early[1] {
		t.Errorf("what came behind the one that was cancelled is %+v", v.Delivery)
	}
	cancel("delivering", early[1], outbox.ErrDelivering)
	v.answers(busy)
	until(t, box, early[1], func(f outbox.Fate) bool { return f.State == toolcall.MessagePending && f.Reason != "" })
	cancel("refused", early[1], nil)
	ended(t, box, early[1], toolcall.MessageCancelled, 1)

	doubtful := publish(t, pool, box, outbox.Message{Destination: "hook"})[0]
	g.next(t).answers(unanswered)
	until(t, box, doubtful, func(f outbox.Fate) bool { return f.State == toolcall.MessagePending && f.Reason != "" })
	cancel("unanswered", doubtful, nil)
	ended(t, box, doubtful, toolcall.MessageUnknown, 1)

	late := publish(t, pool, box, outbox.Message{Destination: "hook"})[0]
	v = g.next(t)
	v.answers(delivered)
	ended(t, box, late, toolcall.MessageDelivered, 1)
	cancel("delivered", late, outbox.ErrEnded)

	// A relay that is gone, and a zombie's answer behind the cancel.
	zombie := publish(t, pool, box, outbox.Message{Destination: "hook"})[0]
	v = g.next(t)
	execute(t, pool, `insert into txonce.destination (name, paused_at) values ('hook', now()) on conflict (name) do update set paused_at = now()`)
	lapse(t, pool, zombie)
	cancel("of a relay that is gone", zombie, nil)
	v.answers(delivered)
	stop()
	ended(t, box, zombie, toolcall.MessageUnknown, 1)
}

// TestCancel_O05_NeedsToKnowTheDestination, for how long its messages are kept.
func TestCancel_O05_NeedsToKnowTheDestination(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, nil)
	id := publish(t, pool, newBox(t, pool, nil, outbox.Destination{Name: "hook"}), outbox.Message{Destination: "hook"})[0]
	if err := newBox(t, pool, nil, mail()).Cancel(t.Context(), id); !errors.Is(err, outbox.ErrUnknownDestination) {
		t.Errorf("Cancel gives %v", err)
	}
}

// TestPause_O05_KeepsAllRelaysAway until Resume; what is under way goes on, and others are not concerned.
func TestPause_O05_KeepsAllRelaysAway(t *testing.T) {
	t.Parallel()
	for _, rate := range []float64{0, 1000} {
		pool := dbtest.Pool(t, nil)
		g := newGate(t)
		dest := []outbox.Destination{{Name: "hook", Publisher: g, Rate: rate}, mail()}
		box, second := newBox(t, pool, nil, dest...), newBox(t, pool, nil, dest...)
		relay(t, box)
		under := publish(t, pool, box, outbox.Message{Destination: "hook"})[0]
		v := g.next(t)
		for _, why := range []string{"first", "mending\x00 \xff" + strings.Repeat("x", 2000)} {
			if err := box.Pause(t.Context(), "hook", why); err != nil {
				t.Fatal(err)
			}
		}
		relay(t, second)
		waiting := publish(t, pool, box, outbox.Message{Destination: "hook"}, outbox.Message{Destination: "hook", OrderingKey: "k"})
		v.answers(delivered)
		ended(t, box, under, toolcall.MessageDelivered, 1)
		for range 10 {
			ended(t, box, publish(t, pool, box, outbox.Message{Destination: "mail"})[0], toolcall.MessageDelivered, 1)
		}
		g.nobody(t)
		if why := get[string](t, pool, `select paused_for from txonce.destination where name = 'hook' and paused_at is not null`); !strings.HasPrefix(why, "mending x") || len(why) > 1000 {
			t.Errorf("it is paused for %.20q", why)
		}
		for range 2 {
			if err := box.Resume(t.Context(), "hook"); err != nil {
				t.Fatal(err)
			}
		}
		for range waiting {
			g.next(t).answers(delivered)
		}
		for _, id := range waiting {
			ended(t, box, id, toolcall.MessageDelivered, 1)
		}
		if err := box.Pause(t.Context(), "a b", ""); !errors.Is(err, outbox.ErrUnknownDestination) {
			t.Errorf("Pause of no name gives %v", err)
		}
	}
}

// TestFate_O05_ErrorsAreNamed: no message, no schema, no database.
func TestFate_O05_ErrorsAreNamed(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, nil)
	id := toolcall.NewID("a", "b", "c")
	box := newBox(t, pool, nil, mail())
	elsewhere := newBox(t, pool, &outbox.Config{Schema: "nowhere"}, mail())
	for label, c := range map[string]struct {
		box  *outbox.Outbox
		want error
	}{"no message": {box, outbox.ErrNotFound}, "no schema": {elsewhere, outbox.ErrNotMigrated}} {
		_, fateErr := c.box.Fate(t.Context(), id)
		for name, err := range map[string]error{
			"Fate": fateErr, "Cancel": c.box.Cancel(t.Context(), id), "Redrive": c.box.Redrive(t.Context(), id), "Skip": c.box.Skip(t.Context(), id),
		} {
			if !errors.Is(err, c.want) || !strings.HasPrefix(err.Error(), "outbox: ") {
				t.Errorf("%s: %s gives %v", label, name, err)
			}
		}
	}
	pool.Close()
	if _, err := box.Fate(t.Context(), id); !errors.Is(err, outbox.ErrUnavailable) {
		t.Errorf("without a database, Fate gives %v", err)
	}
}
