package outboxtest

import (
	"context"
	"runtime/pprof"
	"strings"
	"testing"

	"github.com/txonce/txonce/outbox"
)

var nobody = outbox.Func(func(context.Context, outbox.Delivery) (outbox.Outcome, error) { return outbox.Outcome{}, nil })

// TestMarked_O07_SeesGoroutinesOfGoroutines, those of this test and no others.
func TestMarked_O07_SeesGoroutinesOfGoroutines(t *testing.T) {
	t.Parallel()
	begun, end := make(chan struct{}), make(chan struct{})
	go func() { <-end }() // another's
	pprof.Do(t.Context(), pprof.Labels(mark, t.Name()), func(context.Context) {
		go func() {
			go func() {
				close(begun)
				<-end
			}()
		}()
	})
	<-begun
	if left := marked(t.Name()); strings.Count(left, "# labels:") != 1 || !strings.Contains(left, "outboxtest.TestMarked_O07") {
		t.Errorf("marked are %q", left)
	}
	if left := marked("another"); left != "" {
		t.Errorf("another test is held for %q", left)
	}
	close(end)
	if left := leftOver(t.Name()); left != "" {
		t.Errorf("left is %q", left)
	}
}

// TestHarness_O07_LeavesNothingOutUnsaid: what is not tested has a reason.
func TestHarness_O07_LeavesNothingOutUnsaid(t *testing.T) {
	t.Parallel()
	good := func() Harness {
		return Harness{Publisher: nobody, Received: func() []Received { return nil }, Behave: func(Ability) {}, Cannot: map[Ability]string{Order: "it is a radio"}}
	}
	for name, c := range map[string]struct {
		change func(*Harness)
		want   string
	}{
		"good":        {func(*Harness) {}, ""},
		"publisher":   {func(h *Harness) { h.Publisher = nil }, "Publisher"},
		"received":    {func(h *Harness) { h.Received = nil }, "Received"},
		"no reason":   {func(h *Harness) { h.Cannot[Hang] = "" }, "reason"},
		"cannot take": {func(h *Harness) { h.Cannot[Take] = "it is broken" }, "take"},
		"unknown":     {func(h *Harness) { h.Cannot["fly"] = "no wings" }, "fly"},
		"no Behave":   {func(h *Harness) { h.Behave = nil }, "Behave"},
		"none needed": {func(h *Harness) {
			h.Behave = nil
			for _, a := range []Ability{Refuse, Reject, Throttle, Hang, Cut, Dead} {
				h.Cannot[a] = "it is a file"
			}
		}, ""},
	} {
		h := good()
		c.change(&h)
		if err := h.check(); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
