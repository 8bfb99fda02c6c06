package txidem

import (
	"context"
	"errors"
	"testing"
)

// TestRunLeased_R14_AskFindsOutWhatHappened: what asks decides about an attempt that was cut off, with the same key, and
// about nothing else.
func TestRunLeased_R14_AskFindsOutWhatHappened(t *testing.T) {
	t.Parallel()
	f := setup(t, &Policy{Lease: long}, nil)
	p := &provider{}
	finds := func(ctx context.Context) (string, bool, error) {
		p.note(ctx)
		return "found", true, nil
	}
	if got, err := RunLeased(t.Context(), f.store, request("first"), leaves("first", p.pay), neverAsk(t)); err != nil || got.Value != "paid" {
		t.Errorf("a first attempt: %+v, %v", got, err)
	}

	key := f.abandon(request("found"))
	for i := range 2 {
		got, err := RunLeased(t.Context(), f.store, request("found"), neverDo(t), finds)
		if err != nil || got.Value != "found" || got.Replayed != (i > 0) || string(got.Raw) != `"found"` {
			t.Errorf("found: %+v, %v", got, err)
		}
	}
	again, err := RunLeased(t.Context(), f.store, request("found"), neverDo(t), neverAsk(t))
	if err != nil || !again.Replayed || again.Value != "found" {
		t.Errorf("found, repeated: %+v, %v", again, err)
	}
	if keys := p.paid(); len(keys) != 2 || keys[1] != key {
		t.Errorf("it was asked with the keys %q, the attempt had %s", keys[1:], key)
	}

	key = f.abandon(request("not found"))
	var asked string
	if got, err := RunLeased(t.Context(), f.store, request("not found"), leaves("not found", p.pay), func(ctx context.Context) (string, bool, error) {
		asked = downstream(ctx)
		_, err := leaves("asked", doAnswers(""))(ctx)
		return "", false, err
	}); err != nil || got.Value != "paid" || got.Replayed {
		t.Errorf("not found: %+v, %v", got, err)
	}
	if keys := p.paid(); len(keys) != 3 || keys[2] != key || asked != key {
		t.Errorf("it was asked with %s and ran with %q, the attempt had %s", asked, keys[2:], key)
	}
	f.abandon(request("not found, fails"))
	if _, err := RunLeased(t.Context(), f.store, request("not found, fails"), p.fails(Fail("no", "no")), func(ctx context.Context) (string, bool, error) {
		_, err := leaves("asked", doAnswers(""))(ctx)
		return "", false, err
	}); errors.Is(err, ErrOutcomeUnknown) || err == nil {
		t.Errorf("not found, fails: %v", err)
	}
	for intent, want := range map[string]int{"first": 1, "not found": 1, "asked": 0} {
		if n := f.effects(intent); n != want {
			t.Errorf("%d statements of %q were committed, want %d", n, intent, want)
		}
	}
	f.idle()
}

// TestRunLeased_R14_AskThatFailsChangesNothing: whatever it says, and the next call asks again.
func TestRunLeased_R14_AskThatFailsChangesNothing(t *testing.T) {
	t.Parallel()
	f := setup(t, &Policy{Lease: long, MaxAnswer: 100}, nil)
	for label, c := range map[string]struct {
		ask   askFunc
		wants error
	}{
		"error":    {func(context.Context) (string, bool, error) { return "", true, errCutOff }, errCutOff},
		"panic":    {func(context.Context) (string, bool, error) { panic("while asking") }, ErrHandlerPanicked},
		"not done": {func(context.Context) (string, bool, error) { return "", false, NotDone(errCutOff) }, errCutOff},
		"failure":  {func(context.Context) (string, bool, error) { return "", true, Fail("no", "no") }, nil},
		"large":    {func(context.Context) (string, bool, error) { return string(make([]byte, 200)), true, nil }, ErrAnswerTooLarge},
	} {
		key := f.abandon(request(label))
		for range 2 {
			got, err := RunLeased(t.Context(), f.store, request(label), neverDo(t), c.ask)
			if !errors.Is(err, ErrOutcomeUnknown) || c.wants != nil && !errors.Is(err, c.wants) || errors.Is(err, ErrBlocked) || got.Raw != nil {
				t.Errorf("%s: got %+v, %v; want ErrOutcomeUnknown and %v", label, got, err, c.wants)
			}
			if failure, ok := failureIn(err); ok {
				t.Errorf("%s: the caller is told that the call failed, by %v", label, failure)
			}
		}
		if _, err := RunLeased(t.Context(), f.store, request(label), neverDo(t), nil); !errors.Is(err, ErrBlocked) {
			t.Errorf("%s: without a function that asks, got %v, want ErrBlocked", label, err)
		}
		got, err := RunLeased(t.Context(), f.store, request(label), neverDo(t), func(ctx context.Context) (string, bool, error) {
			return downstream(ctx), true, nil
		})
		if err != nil || got.Value != key || got.Replayed {
			t.Errorf("%s: asked again, got %+v, %v; want the key %s", label, got, err, key)
		}
	}
	f.idle()
}

// TestRunLeased_R14_K07_TakeoverComparesTheArguments: other arguments never take a lease over, with the right path, also when
// the field hashes have another salt because the call was taken over before.
func TestRunLeased_R14_K07_TakeoverComparesTheArguments(t *testing.T) {
	t.Parallel()
	f := setup(t, &Policy{Lease: long, OnLeaseLost: RerunLost}, nil)
	f.abandon(request("k"))
	f.wantReused(request("k"))
	held, _ := f.holdLeased(t.Context(), request("k"), nil)
	f.wantReused(request("k"))
	f.lapse("k")
	f.wantReused(request("k"))
	second, _ := f.holdLeased(t.Context(), request("k"), nil)
	f.wantReused(request("k"))
	if end := second.end(doAnswers("done")); end.err != nil {
		t.Error(end.err)
	}
	f.wantReused(request("k"))
	if end := held.end(doAnswers("zombie")); !errors.Is(end.err, ErrLeaseLost) {
		t.Error(end.err)
	}
	f.wantReused(request("k"))
}

// TestRunLeased_R14_TakeoverIsFenced takes over what has changed since it was read.
func TestRunLeased_R14_TakeoverIsFenced(t *testing.T) {
	t.Parallel()
	f := setup(t, &Policy{Lease: long, OnLeaseLost: RerunLost}, nil)
	for label, change := range map[string]string{
		"renewed":                `update txonce.call set lease_until = clock_timestamp() + interval '1 h' where key = $1`,
		"taken over, and lapsed": `update txonce.call set attempt = gen_random_uuid() where key = $1`,
		"done":                   `update txonce.call set state = 'succeeded', finished_at = now() where key = $1`,
	} {
		f.abandon(request(label))
		id, err := f.store.identify(request(label))
		if err != nil {
			t.Fatal(err)
		}
		id.leased = true
		l, seen, err := f.store.claimLease(t.Context(), id, nil)
		if err != nil || l != nil || seen == nil {
			t.Fatalf("%s: the claim gave %v, %v, %v", label, l, seen, err)
		}
		f.exec(change, "x:"+label)
		before := f.callRow(label)
		if l, err := f.store.takeLease(t.Context(), id, seen); l != nil || err != nil || f.callRow(label) != before {
			t.Errorf("%s: it was taken over: %v, %v", label, l, err)
		}
	}
}

// TestRunLeased_R14_R01_OneTakesOver lets many callers find a lease that has run out.
func TestRunLeased_R14_R01_OneTakesOver(t *testing.T) {
	t.Parallel()
	f := setup(t, &Policy{Lease: long, OnLeaseLost: RerunLost}, nil)
	const n = 32
	key := f.abandon(request("k"))
	p := &provider{}
	ends := make(chan error, n)
	for range n {
		go func() {
			_, err := RunLeased(t.Context(), f.store, request("k"), p.pay, nil)
			ends <- err
		}()
	}
	for range n {
		if err := <-ends; err != nil && !errors.Is(err, ErrInProgress) {
			t.Error(err)
		}
	}
	if keys := p.paid(); len(keys) != 1 || keys[0] != key {
		t.Errorf("effects with the keys %q, want one with %s", keys, key)
	}
	f.idle()
}
