package failover

import (
	"bytes"
	"context"
	"testing"

	"github.com/txonce/txonce/integration/internal/servers"
	"github.com/txonce/txonce/jobs"
	"github.com/txonce/txonce/toolcall"
)

// TestFailover_R02_R08_O09_J09_SynchronousLosesNothing: the primary is killed, or freezes and is shut out.
func TestFailover_R02_R08_O09_J09_SynchronousLosesNothing(t *testing.T) {
	t.Parallel()
	for name, fall := range map[string]func(*servers.Server, context.Context) error{
		"killed": (*servers.Server).Kill, "frozen": (*servers.Server).Freeze,
	} {
		t.Run(name, func(t *testing.T) {
			servers.Everywhere(t, func(t *testing.T, place servers.Place) { synchronous(t, place, fall) })
		})
	}
}

func synchronous(t *testing.T, place servers.Place, fall func(*servers.Server, context.Context) error) {
	p := newPair(t, place)
	p.synchronous()
	w := newWorld(p)
	l := w.begin()
	onStandby := p.pool(p.standby.URL(), nil)
	blind, err := jobs.New(onStandby, nil, w.build)
	if err != nil {
		t.Fatal(err)
	}
	everywhere := l.watch("whoever takes writes", w.store, w.runner)
	standby := l.watch("the standby", newStore(t, onStandby), blind)
	l.answered(60)

	if err := fall(p.primary, t.Context()); err != nil {
		t.Fatal(err)
	}
	failed, unsure, deaf := l.heard.failures(), standby.unsure.Load(), everywhere.unsure.Load()
	eventually(t, "callers hear that nobody takes writes, and the standby that it cannot know", func() bool {
		return l.heard.failures() > failed && standby.unsure.Load() > unsure+5 && everywhere.unsure.Load() > deaf
	})
	if n := standby.knew.Load(); n != 0 {
		t.Errorf("the standby told %d times what it cannot know", n)
	}
	p.promote()
	w.finds()
	if err := p.primary.Stop(); err != nil { // what was frozen does not come back
		t.Fatal(err)
	}
	l.answered(60)
	eventually(t, "the promoted server knows", func() bool { return standby.knew.Load() > 0 })
	l.end()

	w.settled()
	lost := w.repeat()
	if len(lost) > 0 {
		t.Errorf("%d calls were acknowledged and are lost: %v", len(lost), lost)
	}
	w.once()
	for _, in := range l.heard.all() {
		if answers := l.heard.answersOf(in); len(answers) != 1 {
			t.Errorf("%v was answered in %d ways: %q", in, len(answers), answers)
		}
	}
	servers.Measured("synchronous replication, PostgreSQL %s: %d calls were answered, %d of them lost; %d times a caller heard an error",
		p.standby.Version(), len(l.heard.all()), len(lost), l.heard.failures())
}

// finds checks that a client which comes now finds the promoted server, also where the other one takes its connection and says nothing.
func (w *world) finds() {
	w.t.Helper()
	in, answer, _ := w.heard.any()
	store := newStore(w.t, w.pool(w.url, nil))
	eventually(w.t, "a new client finds the promoted server", func() bool {
		status, err := store.Status(w.t.Context(), request(in))
		return err == nil && status.State == toolcall.StateSucceeded && bytes.Equal(status.Answer, answer)
	})
}
