package txidem

import (
	"context"
	"errors"
	"testing"
)

// TestRunLeased_R14_NotDoneSpeaksForItsOwnAttempt checks that an attempt that took over, and then did nothing, does not remove
// the claim of the one that was cut off: that may have paid, and the provider knows it by the downstream key of that claim.
func TestRunLeased_R14_NotDoneSpeaksForItsOwnAttempt(t *testing.T) {
	t.Parallel()
	f := setup(t, &Policy{OnLeaseLost: RerunLost}, nil)
	broken := errors.New("broken")
	var keys []string
	call := func(key string, err error) error {
		_, err = RunLeased(t.Context(), f.store, request(key), func(ctx context.Context) (string, error) {
			keys = append(keys, downstream(ctx))
			return "paid", err
		}, nil)
		return err
	}
	if err := call("a", broken); !errors.Is(err, ErrOutcomeUnknown) { // it has paid, and does not know
		t.Fatal(err)
	}
	if err := call("a", NotDone(broken)); !errors.Is(err, broken) || errors.Is(err, ErrOutcomeUnknown) || !Retryable(err) { // the provider cannot be reached
		t.Fatal(err)
	}
	if err := call("a", nil); err != nil {
		t.Fatal(err)
	}
	if keys[1] != keys[0] || keys[2] != keys[0] {
		t.Errorf("downstream keys %q; want the same for each attempt", keys)
	}
	if err := call("b", NotDone(broken)); !errors.Is(err, broken) || f.records() != 1 {
		t.Errorf("the claim of an attempt that did nothing stays: %v", err)
	}
}
