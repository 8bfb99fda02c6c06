package txidem

import (
	"context"
	"errors"
	"testing"
)

// TestRunLeased_R14_RetryableAgreesWithTheError checks that what a caller is told to do does not depend on what cut the
// attempt off: an unknown outcome is found out by a repeated call, and a blocked call is not.
func TestRunLeased_R14_RetryableAgreesWithTheError(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	found := func(context.Context) (string, bool, error) { return "found", true, nil }
	for label, ask := range map[string]func(context.Context) (string, bool, error){"asks": found, "blocks": nil} {
		_, err := RunLeased(t.Context(), f.store, request(label), func(context.Context) (string, error) { panic("broken") }, ask)
		unknown := ask != nil
		if !errors.Is(err, ErrHandlerPanicked) || errors.Is(err, ErrOutcomeUnknown) != unknown || errors.Is(err, ErrBlocked) == unknown || Retryable(err) != unknown {
			t.Errorf("%s: got %v, retryable %v", label, err, Retryable(err))
		}
	}
}
