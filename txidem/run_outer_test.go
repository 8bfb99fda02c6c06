package txidem

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/toolcall"
)

// TestRun_R10_CallThatIsOverIsNotAroundALaterOne: a context that outlives its call carries it still.
func TestRun_R10_CallThatIsOverIsNotAroundALaterOne(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	var kept context.Context
	if _, err := Run(t.Context(), f.store, request("a"), func(ctx context.Context, _ pgx.Tx) (string, error) {
		kept = context.WithoutCancel(ctx)
		return "a", nil
	}); err != nil {
		t.Fatal(err)
	}
	_, err := Run(kept, f.store, request("b"), func(ctx context.Context, tx pgx.Tx) (string, error) {
		if call, _ := toolcall.FromContext(ctx); call.Outer != nil {
			t.Error("a call that is over is around it")
		}
		a, err := RunTx(ctx, tx, f.store, request("a"), writes("a"))
		if err == nil && !a.Replayed {
			t.Error("a ran again")
		}
		return "b", err
	})
	if err != nil {
		t.Error(err)
	}
}
