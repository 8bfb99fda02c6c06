package txidemtest

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"
)

// inARow makes calls without faults, and learns the shape of one.
func (k *kit) inARow(ctx context.Context) (string, error) {
	intent, other := k.next(), k.next()
	if problem, err := k.uncalled(ctx, intent); problem != "" || err != nil {
		return problem, err
	}
	k.stage.begin(nil)
	s := k.call(ctx, intent, nil)
	learned := k.stage.shape()
	switch {
	case s.broken() != "":
		return s.broken(), nil
	case !s.final():
		return fmt.Sprintf("a first call without faults has no answer: %v", s), nil
	case !slices.ContainsFunc(learned.turns, func(t turn) bool { return t.claims }):
		return "the call makes no protected call on its pool: it must use txidem, and the pool that it is given", nil
	}
	k.shape = learned
	if problem, err := k.settle(ctx); problem != "" || err != nil {
		return problem, err
	}
	if problem, err := k.uncalled(ctx, other); problem != "" || err != nil {
		return problem, err
	}
	n, err := k.count(ctx, intent)
	if n != k.tool.Want && err == nil {
		return fmt.Sprintf("after one call without faults the query counts %d effects of intent %d, want %d: Tool.Want or Tool.Effects is wrong, or %s%s",
			n, intent, k.tool.Want, causeOutside, k.stage.hints()), nil
	}
	if problem, err := k.over(ctx, intent, []said{s}); problem != "" || err != nil {
		return problem, err
	}
	return k.over(ctx, other, nil)
}

// uncalled demands that the query counts nothing of an intent that was not called.
func (k *kit) uncalled(ctx context.Context, intent int) (string, error) {
	n, err := k.count(ctx, intent)
	if n == 0 || err != nil {
		return "", err
	}
	k.stuck.Store(true)
	return fmt.Sprintf("the query counts %d effects of intent %d, which was never called: it must count those of the intent $1 only%s", n, intent, leftOut), nil
}

// atOnce calls again while a call is in its last turn.
func (k *kit) atOnce(ctx context.Context) (string, error) {
	intent := k.next()
	o := newOrder(point{Fault: held, Turn: len(k.shape.turns) - 1, Place: before})
	k.stage.begin(o)
	answers := make(chan said, 2)
	go func() { answers <- k.call(ctx, intent, nil) }()
	heard := make([]said, 0, 2)
	select {
	case <-o.reached:
	case s := <-answers: // it took another way
		heard = append(heard, s)
	}
	drain(k.stage.claimed())
	go func() { answers <- k.call(ctx, intent, nil) }()
	select {
	case <-k.stage.claimed():
	case s := <-answers:
		heard = append(heard, s)
	case <-time.After(forRoutines): // it waits for something of the first one's
	}
	close(o.goOn)
	for len(heard) < cap(heard) {
		heard = append(heard, <-answers)
	}
	k.stage.clear()
	return k.over(ctx, intent, heard)
}

func drain(c <-chan struct{}) {
	select {
	case <-c:
	default:
	}
}

// over repeats a call until it has an answer, then twice more, and compares all that was heard with the effects.
func (k *kit) over(ctx context.Context, intent int, heard []said) (string, error) {
	for range 3 {
		s, problem := k.finish(ctx, intent)
		if problem != "" {
			return problem + k.stage.hints(), nil
		}
		heard = append(heard, s)
	}
	if problem := differ(heard); problem != "" {
		return problem, nil
	}
	if problem, err := k.settle(ctx); problem != "" || err != nil {
		return problem, err
	}
	n, err := k.count(ctx, intent)
	switch {
	case err != nil:
		return "", err
	case n > k.tool.Want:
		return fmt.Sprintf("repeated, the query counts %d effects of intent %d, want %d: %s%s", n, intent, k.tool.Want, causeOutside, k.stage.hints()), nil
	case n < k.tool.Want:
		return fmt.Sprintf("repeated, the query counts %d effects of intent %d, want %d, and the caller heard %v: %s",
			n, intent, k.tool.Want, heard[len(heard)-1], causeMemory), nil
	}
	k.counted[intent] = n
	return "", nil
}

// differ says which answers of one call are not the same.
func differ(heard []said) string {
	heard = slices.DeleteFunc(slices.Clone(heard), func(s said) bool { return !s.final() })
	for _, s := range heard {
		if !bytes.Equal(s.text(), heard[0].text()) {
			return fmt.Sprintf("the answer changed from %.200q to %.200q: %s", heard[0].text(), s.text(), causeAnswer)
		}
	}
	return ""
}
