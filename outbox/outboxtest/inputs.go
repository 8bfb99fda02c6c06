package outboxtest

import (
	"bytes"
	"crypto/rand"
	mathrand "math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txonce/txonce/outbox"
	"github.com/txonce/txonce/toolcall"
)

// delivery makes a message that was not delivered before.
func (h *Harness) delivery() outbox.Delivery {
	var id toolcall.ID
	_, _ = rand.Read(id[:]) // never fails
	id[6], id[8] = id[6]&0x0f|0x70, id[8]&0x3f|0x80
	return outbox.Delivery{
		ID: id, Key: "key-" + id.String(), Destination: "far-side", Address: h.Address, Type: "refund.created", Body: []byte(`{"cents":1050}`),
		PublishedAt: time.Now(), Scope: "tenant-7", Tool: "refund", Attempt: 1,
	}
}

// bodies are those that something on the way might change.
func bodies() [][]byte {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	large := make([]byte, 256<<10)
	mathrand.NewChaCha8([32]byte{1}).Read(large)
	return [][]byte{nil, {}, {0}, []byte("\n"), []byte("\xef\xbb\xbf{}\r\n"), []byte("{\"a\" : 1.0e2 }"), {0xff, 0xfe, 0xc3}, all, large, bytes.Repeat([]byte("0\r\n\r\n"), 1000)}
}

func keys() []string {
	var all strings.Builder
	for c := '!'; c <= '~'; c++ {
		all.WriteRune(c)
	}
	return []string{"k", `"`, `\`, `a"b\"c\\`, `"quoted"`, "a,b;c=1", all.String(), strings.Repeat("k", 255)}
}

// same fails the test if what arrived is not what was sent.
func same(t *testing.T, sent outbox.Delivery, got Received) {
	t.Helper()
	if got.ID != sent.ID.String() || got.Key != sent.Key {
		t.Errorf("id %s and key %q arrived; sent were %v and %q", got.ID, got.Key, sent.ID, sent.Key)
	}
	if !bytes.Equal(got.Body, sent.Body) {
		t.Errorf("a body of %d bytes arrived as %d bytes: %.60q, and not %.60q", len(sent.Body), len(got.Body), got.Body, sent.Body)
	}
	arrived := make(map[string]string, len(got.Headers))
	for name, value := range got.Headers {
		arrived[strings.ToLower(name)] = value
	}
	for name, value := range sent.Headers {
		if have, ok := arrived[strings.ToLower(name)]; !ok || have != value {
			t.Errorf("the header %s arrived as %q (%v), and not as %q", name, have, ok, value)
		}
	}
}

// can skips the test of something that the publisher does not carry.
func (h *Harness) can(t *testing.T, ability Ability) {
	t.Helper()
	if reason, missing := h.Cannot[ability]; missing {
		t.Skipf("no %s: %s", ability, reason)
	}
}

func (h *Harness) nothingTaken(t *testing.T) {
	t.Helper()
	if got := h.Received(); len(got) > 0 {
		t.Errorf("the far side has taken %d messages, and should have none", len(got))
	}
}

// takesAgain: what happened before does not keep the next message from being delivered.
func (h *Harness) takesAgain(t *testing.T) {
	t.Helper()
	h.Behave(Take)
	before := len(h.Received())
	d := h.delivery()
	want(t, "behind that", h.attempt(t, t.Context(), d), outbox.Delivered)
	got := h.arrived(t, before+1)
	same(t, d, got[len(got)-1])
}

// deliveryIsReadOnly: the relay may hand the same one out again.
func deliveryIsReadOnly(t *testing.T, h *Harness) {
	d := h.delivery()
	d.Body, d.Headers = make([]byte, 4, 64), map[string]string{}
	if _, missing := h.Cannot[Headers]; !missing {
		d.Headers["x-a"] = "1"
	}
	spare := d.Body[4:64]
	before := d
	before.Body, before.Headers = bytes.Clone(d.Body), map[string]string{}
	for name, value := range d.Headers {
		before.Headers[name] = value
	}
	want(t, "it", h.attempt(t, t.Context(), d), outbox.Delivered)
	if diff := cmp.Diff(before, d); diff != "" {
		t.Errorf("Deliver has changed the Delivery:\n%s", diff)
	}
	if !bytes.Equal(spare, make([]byte, len(spare))) {
		t.Error("Deliver has written behind the body's end")
	}
}

// nothingPanics: a publisher that panics is held for one whose answer is lost.
func nothingPanics(t *testing.T, h *Harness) {
	long := strings.Repeat("\x00\xff", 5000)
	for _, d := range []outbox.Delivery{
		{},
		{Address: h.Address},
		{Address: "://\x00%zz"},
		{Address: h.Address, Key: long, Type: long, OrderingKey: long, Headers: map[string]string{"": "", long: long, "a:b\r\nc": "d\r\ne"}},
	} {
		h.attempt(t, t.Context(), d) // panics are reported there
	}
}
