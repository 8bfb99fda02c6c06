package failover

import (
	"slices"
	"testing"

	"github.com/txonce/txonce/integration/internal/servers"
)

// TestFailover_O09_R02_AsynchronousLosesWholes: the standby has not heard of the last calls when the primary is killed, though their
// callers have. They are gone, with all that they were, and are made again.
func TestFailover_O09_R02_AsynchronousLosesWholes(t *testing.T) {
	servers.Everywhere(t, asynchronous)
}

func asynchronous(t *testing.T, place servers.Place) {
	p := newPair(t, place)
	w := newWorld(p)
	l := w.begin()
	l.answered(40)
	p.cut()
	before := len(l.heard.all())
	l.answered(callers + 40) // of which some were under way at the cut
	doomed := l.heard.all()[before:]
	eventually(t, "the shop gets a message that will be lost", func() bool {
		return slices.ContainsFunc(doomed, func(in intent) bool { return in.tool == toolMessage && len(w.shop.of(in.key)) > 0 })
	})
	if err := p.primary.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.promote()
	b := w.readBooks()
	b.wholes(t)
	if lost := slices.DeleteFunc(doomed, func(in intent) bool { return b.records[in] > 0 }); !ofEach(lost, 0, 1) {
		t.Fatalf("the test proves nothing: of each tool a call should be lost that was acknowledged, not %v", lost)
	}
	l.answered(40)
	l.end()

	w.readBooks().wholes(t)
	lost := w.repeat()
	w.settled()
	if again := w.repeat(); len(again) > 0 {
		t.Errorf("calls are lost on a server that did not fail: %v", again)
	}
	w.once()
	w.sentAgain(lost)
	servers.Measured("asynchronous replication, PostgreSQL %s: %d calls were answered, %d of them lost, each with its effect", p.standby.Version(), len(l.heard.all()), len(lost))
}

// sentAgain looks for a message that the shop got from a call that was lost, and from the one that took its place: another message,
// with the key by which the shop knows it.
func (w *world) sentAgain(lost []intent) {
	w.t.Helper()
	again := 0
	for _, in := range lost {
		ids := make(map[string]bool)
		for _, d := range w.shop.of(in.key) {
			ids[d.ID.String()] = true
		}
		if in.tool == toolMessage && len(ids) > 1 {
			again++
		}
	}
	if again == 0 {
		w.t.Error("the test proves nothing: no message of a lost call had reached the shop")
	}
}
