package outboxtest

import (
	"context"
	"testing"
	"time"

	"github.com/txonce/txonce/outbox"
)

// Run tests a publisher. newHarness is called once for each test and may use its t; tests are parallel to each other.
func Run(t *testing.T, newHarness func(t *testing.T) Harness) {
	t.Helper()
	for _, c := range []struct {
		name string
		test func(*testing.T, *Harness)
	}{
		{"O01_EveryAttemptIsTheSame", everyAttemptIsTheSame},
		{"O01_BodiesByteForByte", bodiesByteForByte},
		{"O01_HeadersArrive", headersArrive},
		{"O01_KeysArriveAsTheyAre", keysArrive},
		{"O02_OneByOneIsInOrder", oneByOneIsInOrder},
		{"O04_RefusedIsRetry", refused},
		{"O04_ThrottledNamesATime", throttled},
		{"O05_RejectedForGood", rejected},
		{"O03_TakenButNotSaidIsUnanswered", cut},
		{"O03_DeadFarSideTakesNothing", dead},
		{"O07_ContextsEndIsHeeded", contextEnds},
		{"O07_EndedContext", contextHasEnded},
		{"O07_ManyAtATime", manyAtATime},
		{"O07_DeliveryIsReadOnly", deliveryIsReadOnly},
		{"O07_NothingPanics", nothingPanics},
		{"O07_CheckAsksNobody", checkAsksNobody},
		{"O07_CheckRefusesWhatIsBad", checkRefuses},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			if err := h.check(); err != nil {
				t.Fatalf("outboxtest: %v", err)
			}
			watch(t, h.Close, func() { c.test(t, &h) })
		})
	}
}

func everyAttemptIsTheSame(t *testing.T, h *Harness) {
	d := h.delivery()
	d.Body = []byte("{\"cents\": 1050,\r\n\"order\":\"A-1\"} ")
	for d.Attempt = 1; d.Attempt <= 3; d.Attempt++ {
		want(t, "an attempt", h.attempt(t, t.Context(), d), outbox.Delivered)
		got := h.arrived(t, d.Attempt)
		if len(got) != d.Attempt {
			t.Fatalf("behind %d attempts the far side has %d messages", d.Attempt, len(got))
		}
		same(t, d, got[d.Attempt-1])
	}
}

func bodiesByteForByte(t *testing.T, h *Harness) {
	for i, body := range bodies() {
		d := h.delivery()
		d.Body = body
		want(t, "a body", h.attempt(t, t.Context(), d), outbox.Delivered)
		same(t, d, h.arrived(t, i+1)[i])
	}
}

func headersArrive(t *testing.T, h *Harness) {
	h.can(t, Headers)
	d := h.delivery()
	d.Headers = map[string]string{"X-Trace": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "x-lower": `a "b"; c=1, d`, "X-Empty": ""}
	want(t, "headers", h.attempt(t, t.Context(), d), outbox.Delivered)
	same(t, d, h.arrived(t, 1)[0])
}

// keysArrive: a key is any printable ASCII.
func keysArrive(t *testing.T, h *Harness) {
	for i, key := range keys() {
		d := h.delivery()
		d.Key = key
		want(t, "key "+key, h.attempt(t, t.Context(), d), outbox.Delivered)
		same(t, d, h.arrived(t, i+1)[i])
	}
}

func oneByOneIsInOrder(t *testing.T, h *Harness) {
	h.can(t, Order)
	var sent []outbox.Delivery
	for range 20 {
		d := h.delivery()
		d.OrderingKey = "order-A-1"
		want(t, "one of 20", h.attempt(t, t.Context(), d), outbox.Delivered)
		sent = append(sent, d)
	}
	got := h.arrived(t, len(sent))
	if len(got) != len(sent) {
		t.Fatalf("%d were delivered, and the far side has %d", len(sent), len(got))
	}
	for i := range got {
		same(t, sent[i], got[i])
	}
}

func refused(t *testing.T, h *Harness) {
	h.needs(t, Refuse)
	want(t, "refused", h.attempt(t, t.Context(), h.delivery()), outbox.Retry)
	h.nothingTaken(t)
	h.takesAgain(t)
}

func throttled(t *testing.T, h *Harness) {
	h.needs(t, Throttle)
	out := h.attempt(t, t.Context(), h.delivery())
	want(t, "throttled", out, outbox.Retry)
	if out.RetryAfter <= 0 {
		t.Errorf("throttled: RetryAfter is %v, and the far side has named a time", out.RetryAfter)
	}
	h.nothingTaken(t)
	h.takesAgain(t)
}

func rejected(t *testing.T, h *Harness) {
	h.needs(t, Reject)
	want(t, "rejected", h.attempt(t, t.Context(), h.delivery()), outbox.Rejected, outbox.Gone)
	h.nothingTaken(t)
}

// cut: it was done, and that it was got lost. Whoever calls this undone has it done twice.
func cut(t *testing.T, h *Harness) {
	h.needs(t, Cut)
	d := h.delivery()
	want(t, "cut", h.attempt(t, t.Context(), d), outbox.Unanswered)
	for _, got := range h.arrived(t, 1) { // a publisher may have sent it again by itself
		same(t, d, got)
	}
	h.takesAgain(t)
}

func dead(t *testing.T, h *Harness) {
	h.needs(t, Dead)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second) // some go on trying to connect until they may not
	defer cancel()
	want(t, "nobody there", h.attempt(t, ctx, h.delivery()), outbox.Retry, outbox.Unanswered)
	h.nothingTaken(t)
	h.takesAgain(t)
}
