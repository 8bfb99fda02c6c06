package txidem

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/txonce/txonce/toolcall"
)

func TestRunLeased_R14_OneEffectOneAnswer(t *testing.T) {
	t.Parallel()
	f := setup(t, &Policy{Lease: time.Second}, nil)
	runs := 0
	var keys []string
	pay := func(ctx context.Context) (string, error) {
		runs++
		call, _ := toolcall.FromContext(ctx)
		keys = append(keys, call.DownstreamKey("pay"))
		return "paid", nil
	}
	first, err := RunLeased(t.Context(), f.store, request("a"), pay, nil)
	if err != nil || first.Replayed || first.Value != "paid" || first.FinishedAt.IsZero() {
		t.Fatalf("first: %+v, %v", first, err)
	}
	again, err := RunLeased(t.Context(), f.store, request("a"), pay, nil)
	if err != nil || !again.Replayed || string(again.Raw) != string(first.Raw) || !again.FinishedAt.Equal(first.FinishedAt) || runs != 1 {
		t.Fatalf("again: %+v, %v", again, err)
	}
	if _, err := Run(t.Context(), f.store, request("a"), writes("a")); !errors.Is(err, ErrOtherWay) {
		t.Fatal(err)
	}
	f.exec(`update txonce.call set expires_at = clock_timestamp()`)
	if over, err := RunLeased(t.Context(), f.store, request("a"), pay, nil); err != nil || over.Replayed || runs != 2 || keys[0] == keys[1] {
		t.Fatalf("over an expired record: %+v, %v, keys %q", over, err, keys)
	}
	broken := errors.New("broken")
	if _, err := RunLeased(t.Context(), f.store, request("b"), func(ctx context.Context) (string, error) {
		return "", broken
	}, nil); !errors.Is(err, broken) || !errors.Is(err, ErrBlocked) {
		t.Fatal(err)
	}
	if _, err := RunLeased(t.Context(), f.store, request("b"), pay, nil); !errors.Is(err, ErrBlocked) {
		t.Fatal(err)
	}
	keys = nil
	if _, err := RunLeased(t.Context(), f.store, request("c"), func(ctx context.Context) (string, error) {
		_, _ = pay(ctx)
		return "", broken
	}, nil); !errors.Is(err, broken) || !errors.Is(err, ErrBlocked) {
		t.Fatal(err)
	}
	found, err := RunLeased(t.Context(), f.store, request("c"), pay, func(ctx context.Context) (string, bool, error) {
		call, _ := toolcall.FromContext(ctx)
		return "found " + call.DownstreamKey("pay"), true, nil
	})
	if err != nil || found.Value != "found "+keys[0] {
		t.Fatalf("asked: %+v, %v; keys %q", found, err, keys)
	}
	// A handler that runs for longer than its lease keeps it.
	slow, err := RunLeased(t.Context(), f.store, request("d"), func(ctx context.Context) (string, error) {
		var left bool
		eventually(t, "the lease has been renewed twice", func() bool {
			if _, err := RunLeased(ctx, f.store, request("d"), pay, nil); !errors.Is(err, ErrNested) {
				t.Error(err)
			}
			if err := f.pool.QueryRow(t.Context(), `select lease_until > started_at + interval '1500 ms' from txonce.call where key = 'x:d'`).Scan(&left); err != nil {
				t.Error(err)
			}
			return left
		})
		return "slow", ctx.Err()
	}, nil)
	if err != nil || slow.Value != "slow" {
		t.Fatal(slow, err)
	}
	f.idle()
}
