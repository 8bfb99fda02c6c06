package txidem

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
)

// ways are the other ways to run a call. What they run must not run where these tests use them.
func (f *fixture) ways() map[string]func(Request) error {
	return map[string]func(Request) error{
		"Run": func(req Request) error {
			_, err := Run(f.t.Context(), f.store, req, writes("other way"))
			return err
		},
		"RunTx": func(req Request) error {
			_, err := f.callTx(f.t.Context(), pgx.ReadCommitted, req, writes("other way"))
			return err
		},
		"RunTx, serializable": func(req Request) error {
			_, err := f.callTx(f.t.Context(), pgx.Serializable, req, writes("other way"))
			return err
		},
		"RunBatch": func(req Request) error {
			_, err := RunBatch(f.t.Context(), f.store, req, func(_ context.Context, b *Batch) (string, error) {
				b.Queue(`insert into effect (intent) values ('other way')`)
				return "", nil
			})
			return err
		},
	}
}

// TestRunLeased_R14_K07_OtherWaysAreRefused tries to run leased calls in other ways, whatever state they are in. Other arguments
// are found out first.
func TestRunLeased_R14_K07_OtherWaysAreRefused(t *testing.T) {
	t.Parallel()
	f := setup(t, &Policy{Lease: long}, nil)
	held, _ := f.holdLeased(t.Context(), request("running"), nil)
	f.abandon(request("cut off"))
	if _, err := RunLeased(t.Context(), f.store, request("done"), doAnswers("done"), nil); err != nil {
		t.Fatal(err)
	}
	_, err := RunLeased(t.Context(), f.store, request("failed"), func(context.Context) (string, error) { return "", Fail("no", "no") }, nil)
	if _, ok := failureIn(err); !ok {
		t.Fatal(err)
	}
	for _, state := range []string{"running", "cut off", "done", "failed"} {
		before := f.callRow(state)
		for way, run := range f.ways() {
			if err := run(request(state)); !errors.Is(err, ErrOtherWay) || Retryable(err) {
				t.Errorf("%s by %s: got %v, want ErrOtherWay", state, way, err)
			}
			if err := run(withOtherArgs(request(state))); !errors.Is(err, ErrKeyReused) {
				t.Errorf("%s by %s with other arguments: got %v, want ErrKeyReused", state, way, err)
			}
		}
		if after := f.callRow(state); after != before {
			t.Errorf("%s: changed\n%s\ninto\n%s", state, before, after)
		}
	}
	if end := held.end(doAnswers("done")); end.err != nil {
		t.Error(end.err)
	}
	if n := f.effects("other way"); n != 0 {
		t.Errorf("%d effects", n)
	}
	f.idle()
}

// TestRunLeased_R14_K07_NotOverAnotherWay is the other way round.
func TestRunLeased_R14_K07_NotOverAnotherWay(t *testing.T) {
	t.Parallel()
	f := setup(t, &Policy{Lease: long, Wait: long}, nil)
	for way, run := range f.ways() {
		if err := run(request(way)); err != nil {
			t.Fatal(way, err)
		}
		if _, err := RunLeased(t.Context(), f.store, request(way), neverDo(t), neverAsk(t)); !errors.Is(err, ErrOtherWay) || Retryable(err) {
			t.Errorf("after %s: got %v, want ErrOtherWay", way, err)
		}
		f.wantReused(request(way))
	}
	running := f.hold(request("running"), "running")
	if _, err := RunLeased(t.Context(), f.store, request("running"), neverDo(t), neverAsk(t)); !errors.Is(err, ErrInProgress) {
		t.Errorf("beside Run: got %v, want ErrInProgress", err)
	}
	if err := running.end(errors.New("rolled back")); err == nil {
		t.Error("the handler's error is gone")
	}
	if got, err := RunLeased(t.Context(), f.store, request("running"), doAnswers("leased"), neverAsk(t)); err != nil || got.Replayed {
		t.Errorf("after Run was rolled back: %+v, %v", got, err)
	}
	f.idle()
}

// TestRunLeased_R14_R12_EitherWayAfterTheRetention: what has expired is a new intent, and binds nobody.
func TestRunLeased_R14_R12_EitherWayAfterTheRetention(t *testing.T) {
	t.Parallel()
	f := setup(t, &Policy{Lease: long}, nil)
	ways := f.ways()
	for way := range ways {
		if _, err := RunLeased(t.Context(), f.store, request(way), doAnswers("done"), nil); err != nil {
			t.Fatal(way, err)
		}
		f.abandon(request("cut off, " + way))
	}
	f.age("x:%")
	for way, run := range ways {
		for _, key := range []string{way, "cut off, " + way} {
			if err := run(request(key)); err != nil {
				t.Errorf("%s: %v", key, err)
			}
		}
	}
	if n := f.effects("other way"); n != 2*len(ways) {
		t.Errorf("%d effects, want %d", n, 2*len(ways))
	}
	f.age("x:%")
	for way := range ways {
		if got, err := RunLeased(t.Context(), f.store, request(way), doAnswers("leased"), neverAsk(t)); err != nil || got.Replayed {
			t.Errorf("over what %s left: %+v, %v", way, got, err)
		}
	}
	f.idle()
}
