package txidem

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
)

// TestRun_R10_EscapeIsRecordedHoweverSmallAnswersMustBe: MaxAnswer bounds the tool's answers, not the library's own failure.
func TestRun_R10_EscapeIsRecordedHoweverSmallAnswersMustBe(t *testing.T) {
	t.Parallel()
	f := setup(t, &Policy{MaxAnswer: 16}, nil)
	commits := func(ctx context.Context, tx pgx.Tx) (string, error) {
		if err := write(ctx, tx, "a"); err != nil {
			return "", err
		}
		_, err := tx.Exec(ctx, "commit")
		return "", err
	}
	for i := range 2 {
		_, err := Run(t.Context(), f.store, request("a"), commits)
		if failure, ok := failureIn(err); !ok || failure.Code != CodeHandlerEndedTx {
			t.Errorf("call %d: %v, want the recorded failure", i, err)
		}
	}
	f.effectsAre(map[string]int{"a": 1})
}

func TestRunTx_R01_R07_SerializableWithSmallAnswers(t *testing.T) {
	t.Parallel()
	f := setup(t, &Policy{MaxAnswer: 16}, nil)
	for range 2 {
		if _, err := f.callTx(t.Context(), pgx.Serializable, request("a"), writes("a")); err != nil {
			t.Error(err)
		}
	}
	f.effectsAre(map[string]int{"a": 1})
}
