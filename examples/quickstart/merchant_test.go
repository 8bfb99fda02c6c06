package main

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/txonce/txonce/outbox"
	"github.com/txonce/txonce/outbox/webhook"
	"github.com/txonce/txonce/toolcall"
)

// deliver makes attempts at a notice until the merchant takes it, and returns how many it took.
func deliver(t *testing.T, hooks *webhook.Publisher, d outbox.Delivery) int {
	t.Helper()
	for n := 1; ; n++ {
		ctx, cancel := context.WithTimeout(t.Context(), attemptTime)
		out, err := hooks.Deliver(ctx, d)
		cancel()
		if err != nil || n > 20 {
			t.Fatalf("attempt %d: %+v, %v", n, out, err)
		}
		if out.Class == outbox.Delivered {
			return n
		}
	}
}

// TestMerchant_O01_TakesEachMessageOnce, however often it comes, and says what is wrong with those that come otherwise.
func TestMerchant_O01_TakesEachMessageOnce(t *testing.T) {
	t.Parallel()
	m, err := openMerchant(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.close)
	message := func(id byte, key, body string) outbox.Delivery {
		return outbox.Delivery{ID: toolcall.ID{15: id}, Key: key, Body: []byte(body)}
	}
	attempts := 0
	for range 5 {
		attempts += deliver(t, m.hooks, message(1, "a", `{"order_id":"order-1"}`))
		attempts += deliver(t, m.hooks, message(2, "b", `{"order_id":"order-2"}`))
	}
	refunds := map[string]int{"order-1": 1, "order-2": 1}
	if diff := cmp.Diff(notices{webhooks: 2, attempts: attempts, accepted: 2}, m.noticesOf(refunds), cmp.AllowUnexported(notices{})); diff != "" {
		t.Error(diff)
	}
	attempts += deliver(t, m.hooks, message(1, "another", `{"order_id":"order-1"}`))
	attempts += deliver(t, m.hooks, message(3, "c", `{"order_id":"order-2"}`))
	stranger, err := webhook.New(&webhook.Config{URL: m.host.url, AllowHTTP: true, AllowPrivate: true})
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.CloseIdleConnections()
	attempts++
	if out, err := stranger.Deliver(t.Context(), message(4, "d", `{"order_id":"order-1"}`)); err != nil || out.Class != outbox.Rejected {
		t.Errorf("without a signature: %+v, %v", out, err)
	}
	refunds["order-3"] = 1
	want := notices{webhooks: 3, attempts: attempts, accepted: 3, duplicates: 1, lost: 1, forged: 1, confused: 1}
	if diff := cmp.Diff(want, m.noticesOf(refunds), cmp.AllowUnexported(notices{})); diff != "" {
		t.Error(diff)
	}
}

// TestTroubleFor: the seed decides, each trouble is met, and the last attempt meets none.
func TestTroubleFor(t *testing.T) {
	t.Parallel()
	met := make(map[trouble]bool)
	for nth := 1; nth <= 6; nth++ {
		for _, order := range []string{"order-1001", "order-1005", "order-1009", "order-1013", "order-1017", "order-1021", "order-1025", "order-1029"} {
			got := troubleFor(7, order, nth)
			if met[got] = true; got != troubleFor(7, order, nth) || nth >= patientAttempt && got != noTrouble {
				t.Errorf("%s, attempt %d: %v", order, nth, got)
			}
		}
	}
	if len(met) != int(hangs)+1 {
		t.Errorf("only %v are met", met)
	}
}
