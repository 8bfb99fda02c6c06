package txidemtest

import (
	"context"
	"errors"
	"fmt"

	"github.com/txonce/txonce/txidem"
)

// breakAt breaks a first call at the point, looks at what is left of it, and repeats it.
func (k *kit) breakAt(ctx context.Context, p point) (string, error) {
	if p.Fault == killed {
		return k.killAt(ctx, p)
	}
	intent, o := k.next(), newOrder(p)
	k.stage.begin(o)
	s := k.call(ctx, intent, o)
	k.stage.clear()
	k.missed = !o.hit()
	if problem := s.broken(); problem != "" {
		return problem, nil
	}
	if problem, err := k.settle(ctx); problem != "" || err != nil {
		return problem, err
	}
	n, err := k.count(ctx, intent)
	if err != nil {
		return "", err
	}
	if problem := k.fits(s, n, p, intent); problem != "" {
		return problem + k.stage.hints(), nil
	}
	return k.over(ctx, intent, []said{s})
}

// fits says what is wrong with the effects of a call that was not repeated yet, given what its caller heard.
func (k *kit) fits(s said, n int, p point, intent int) string {
	counts := fmt.Sprintf("before the call is repeated, the query counts %d effects of intent %d", n, intent)
	want := k.tool.Want
	switch {
	case s.hung:
		return s.err.Error() + ": it must end when its context does"
	case s.final() && n < want:
		return fmt.Sprintf("%s, want %d, and the caller heard %v: %s", counts, want, s, causeMemory)
	case s.final() && n > want, n != 0 && n != want:
		return fmt.Sprintf("%s, want %d, and the caller heard %v: %s", counts, want, s, causeOutside)
	case k.tool.Elsewhere, s.final(), n == 0, p.commit, p.Fault == cancelled, errors.Is(s.err, txidem.ErrOutcomeUnknown), errors.Is(s.err, txidem.ErrInProgress):
		return ""
	}
	return fmt.Sprintf("%s, want none, for the call failed (%v): %s", counts, s, causeEarly)
}
