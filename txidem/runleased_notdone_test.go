package txidem

import (
	"context"
	"errors"
	"testing"

	"github.com/txonce/txonce/toolcall"
)

// TestRunLeased_R14_NotDoneSpeaksForItsOwnAttempt: an attempt had its effect and was cut off, the next one did nothing. The
// intent is not over: freeing its claim would give the third attempt another downstream key, and the effect once more.
func TestRunLeased_R14_NotDoneSpeaksForItsOwnAttempt(t *testing.T) {
	t.Parallel()
	cut, notYet := errors.New("cut off"), errors.New("the request never left")
	askNothing := func(context.Context) (string, bool, error) { return "", false, nil }
	for name, c := range map[string]struct {
		policy OnLeaseLost
		ask    func(context.Context) (string, bool, error)
	}{
		"reruns": {RerunLost, nil},
		"asks":   {Block, askNothing}, // the effect may be on its way still
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setup(t, &Policy{OnLeaseLost: c.policy}, nil)
			var keys []string
			attempt := func(err error) error {
				_, err = RunLeased(t.Context(), f.store, request("a"), func(ctx context.Context) (string, error) {
					call, _ := toolcall.FromContext(ctx)
					keys = append(keys, call.DownstreamKey("pay"))
					return "paid", err
				}, c.ask)
				return err
			}
			if err := attempt(cut); !errors.Is(err, ErrOutcomeUnknown) || !errors.Is(err, cut) {
				t.Fatalf("cut off: %v", err)
			}
			if err := attempt(NotDone(notYet)); !errors.Is(err, ErrOutcomeUnknown) || !errors.Is(err, notYet) {
				t.Errorf("not done: %v; want it to say that it is open what happened before", err)
			}
			if err := attempt(nil); err != nil {
				t.Fatal(err)
			}
			if len(keys) != 3 || keys[0] != keys[1] || keys[1] != keys[2] {
				t.Errorf("the downstream keys are %q, want one of three attempts", keys)
			}
		})
	}
}

// TestRunLeased_R14_NothingToCallIsRefusedBeforeTheClaim: behind the claim, it would block the call.
func TestRunLeased_R14_NothingToCallIsRefusedBeforeTheClaim(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	if _, err := RunLeased[string](t.Context(), f.store, request("a"), nil, nil); err == nil || f.records() != 0 {
		t.Errorf("got %v, %d records", err, f.records())
	}
}
