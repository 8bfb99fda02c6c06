package txidem

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/toolcall"
)

// callTx makes a call in a transaction of its own, which it commits.
func (f *fixture) callTx(ctx context.Context, level pgx.TxIsoLevel, req Request, handler func(context.Context, pgx.Tx) (string, error)) (result Result[string], err error) {
	f.t.Helper()
	txErr := pgx.BeginTxFunc(ctx, f.pool, pgx.TxOptions{IsoLevel: level}, func(tx pgx.Tx) error {
		result, err = RunTx(ctx, tx, f.store, req, handler)
		var failure *toolcall.Failure
		if errors.As(err, &failure) {
			return nil
		}
		return err
	})
	if err == nil {
		err = txErr
	}
	return result, err
}

// TestRunTx_R01_R05_R06_OneEffectOneAnswer goes through the ways in which a call in a caller's transaction ends, at each level.
func TestRunTx_R01_R05_R06_OneEffectOneAnswer(t *testing.T) {
	t.Parallel()
	for _, level := range isolationLevels {
		t.Run(name(level), func(t *testing.T) {
			t.Parallel()
			f := setup(t, nil, nil)
			first, err := f.callTx(t.Context(), level, request("a"), writes("a"))
			if err != nil || first.Replayed || first.Value != "done a" {
				t.Fatalf("first: %+v, %v", first, err)
			}
			for range 2 {
				again, err := f.callTx(t.Context(), level, request("a"), writes("a"))
				if err != nil || !again.Replayed || string(again.Raw) != string(first.Raw) || !again.FinishedAt.Equal(first.FinishedAt) {
					t.Fatalf("again: %+v, %v", again, err)
				}
			}
			byRun, err := Run(t.Context(), f.store, request("a"), writes("a"))
			if err != nil || !byRun.Replayed {
				t.Fatalf("by Run: %+v, %v", byRun, err)
			}
			refuse := func(ctx context.Context, tx pgx.Tx) (string, error) {
				if err := write(ctx, tx, "b"); err != nil {
					return "", err
				}
				return "", Fail("no", "not this one")
			}
			for i := range 3 {
				r, err := f.callTx(t.Context(), level, request("b"), refuse)
				var failure *toolcall.Failure
				if !errors.As(err, &failure) || failure.Code != "no" || r.Replayed != (i > 0) {
					t.Fatalf("failure %d: %+v, %v", i, r, err)
				}
			}
			broken := errors.New("broken")
			if _, err := f.callTx(t.Context(), level, request("c"), func(ctx context.Context, tx pgx.Tx) (string, error) {
				return "", errors.Join(write(ctx, tx, "c"), broken)
			}); !errors.Is(err, broken) {
				t.Fatal(err)
			}
			if _, err := f.callTx(t.Context(), level, request("c"), writes("c")); err != nil {
				t.Fatal(err)
			}
			f.exec(`update txonce.call set expires_at = clock_timestamp()`)
			over, err := f.callTx(t.Context(), level, request("a"), writes("a"))
			if err != nil || over.Replayed {
				t.Fatalf("over an expired record: %+v, %v", over, err)
			}
			for intent, want := range map[string]int{"a": 2, "b": 0, "c": 1} {
				if n := f.effects(intent); n != want {
					t.Errorf("%d effects of %s, want %d", n, intent, want)
				}
			}
			f.idle()
		})
	}
}
