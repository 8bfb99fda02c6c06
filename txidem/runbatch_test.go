package txidem

import (
	"context"
	"errors"
	"testing"

	"github.com/txonce/txonce/toolcall"
)

// queues returns a handler of RunBatch that queues one effect and answers with the intent.
func queues(intent string) func(context.Context, *Batch) (string, error) {
	return func(_ context.Context, b *Batch) (string, error) {
		b.Queue(`insert into effect (intent) values ($1)`, intent)
		return "done " + intent, nil
	}
}

func (f *fixture) effectsAre(want map[string]int) {
	f.t.Helper()
	for intent, n := range want {
		if got := f.effects(intent); got != n {
			f.t.Errorf("%d effects of %s, want %d", got, intent, n)
		}
	}
}

func TestRunBatch_R18_OneEffectOneAnswer(t *testing.T) {
	t.Parallel()
	for _, level := range isolationLevels {
		t.Run(name(level), func(t *testing.T) {
			t.Parallel()
			f := setup(t, &Policy{Isolation: level}, nil)
			first, err := RunBatch(t.Context(), f.store, request("a"), queues("a"))
			if err != nil || first.Replayed || first.Value != "done a" || first.FinishedAt.IsZero() {
				t.Fatalf("first: %+v, %v", first, err)
			}
			for range 2 {
				again, err := RunBatch(t.Context(), f.store, request("a"), queues("a"))
				if err != nil || !again.Replayed || string(again.Raw) != string(first.Raw) || !again.FinishedAt.Equal(first.FinishedAt) {
					t.Fatalf("again: %+v, %v", again, err)
				}
			}
			for i := range 2 {
				r, err := RunBatch(t.Context(), f.store, request("b"), func(_ context.Context, b *Batch) (string, error) {
					b.Queue(`insert into effect (intent) values ('b')`)
					return "", Fail("no", "not this one")
				})
				var failure *toolcall.Failure
				if !errors.As(err, &failure) || r.Replayed != (i > 0) {
					t.Fatalf("failure: %+v, %v", r, err)
				}
			}
			for range 2 {
				if _, err := RunBatch(t.Context(), f.store, request("c"), func(_ context.Context, b *Batch) (string, error) {
					b.Queue(`insert into effect (intent) values ('c')`)
					b.MustAffect(2, `update effect set intent = 'c2' where intent = $1;`, "c")
					return "", nil
				}); !errors.Is(err, ErrRowCount) {
					t.Fatal(err)
				}
			}
			if _, err := RunBatch(t.Context(), f.store, request("c"), func(_ context.Context, b *Batch) (string, error) {
				b.Queue(`insert into effect (intent) values ('c')`)
				b.MustAffect(1, `update effect set intent = 'c2' where intent = $1;`, "c")
				return "", nil
			}); err != nil {
				t.Fatal(err)
			}
			f.exec(`update txonce.call set expires_at = clock_timestamp()`)
			over, err := RunBatch(t.Context(), f.store, request("a"), queues("a"))
			if err != nil || over.Replayed {
				t.Fatalf("over an expired record: %+v, %v", over, err)
			}
			f.effectsAre(map[string]int{"a": 2, "b": 0, "c": 0, "c2": 1})
			f.idle()
		})
	}
}
