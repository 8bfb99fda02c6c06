package txidem

import (
	"context"
	"errors"
	"testing"
)

// TestRunLeased_R14_WaysOutOfABlock: what ErrBlocked tells a person to do. An effect that happened is recorded by an ask, under
// the key that the attempt had; one that did not happen is freed by Forget, and its next attempt has another key.
func TestRunLeased_R14_WaysOutOfABlock(t *testing.T) {
	t.Parallel()
	f := setup(t, &Policy{Lease: long}, nil)
	p := &provider{}
	for _, key := range []string{"happened", "did not happen"} {
		got, err := RunLeased(t.Context(), f.store, request(key), p.fails(errCutOff), nil)
		if !errors.Is(err, ErrBlocked) || got.ID.IsZero() {
			t.Fatalf("%s: %+v, %v; want ErrBlocked and the id", key, got, err)
		}
		status, err := f.store.Status(t.Context(), request(key))
		if err != nil || status.ID != got.ID {
			t.Errorf("%s: status %+v, %v; want the id %s", key, status, err, got.ID)
		}
	}
	attempts := p.paid()

	var asked string
	for i := range 2 {
		got, err := RunLeased(t.Context(), f.store, request("happened"), neverDo(t), func(ctx context.Context) (string, bool, error) {
			asked = downstream(ctx)
			return "by hand", true, nil
		})
		if err != nil || got.Value != "by hand" || got.Replayed != (i > 0) {
			t.Errorf("an answer by hand: %+v, %v", got, err)
		}
	}
	if asked != attempts[0] {
		t.Errorf("asked with the key %s, the attempt had %s", asked, attempts[0])
	}

	status, err := f.store.Status(t.Context(), request("did not happen"))
	if err != nil {
		t.Fatal(err)
	}
	if gone, err := f.store.Forget(t.Context(), request("").Scope, status.ID); !gone || err != nil {
		t.Errorf("Forget: %v, %v", gone, err)
	}
	if got, err := RunLeased(t.Context(), f.store, request("did not happen"), p.pay, nil); err != nil || got.Replayed {
		t.Errorf("freed: %+v, %v", got, err)
	}
	if keys := p.paid(); len(keys) != 3 || keys[2] == attempts[1] {
		t.Errorf("keys %q: the intent that was forgotten must not be taken for the new one", keys)
	}
	f.idle()
}
