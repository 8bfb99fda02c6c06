package txidem

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
)

// leavesSQL returns a handler that writes its effect and leaves the SQL for the end of the call.
func leavesSQL(intent, sql string) func(context.Context, pgx.Tx) (string, error) {
	return func(ctx context.Context, tx pgx.Tx) (string, error) {
		if err := write(ctx, tx, intent); err != nil {
			return "", err
		}
		return "done", queueAtFinish(ctx, func(b *pgx.Batch) { b.Queue(sql) })
	}
}

// TestRun_I5_R17_ResultsInTheWrongPlaces: in the simple protocol, a text may have no result, or several. What committed is not
// told to have failed.
func TestRun_I5_R17_ResultsInTheWrongPlaces(t *testing.T) {
	t.Parallel()
	f := inMode(t, pgx.QueryExecModeSimpleProtocol)
	for label, sql := range map[string]string{"none": `-- nothing`, "two": `select 1; select 2`} {
		first, err := Run(t.Context(), f.store, request(label), leavesSQL(label, sql))
		if err != nil || first.Replayed {
			t.Errorf("%s: %+v, %v", label, first, err)
		}
		again, err := Run(t.Context(), f.store, request(label), leavesSQL(label, sql))
		if err != nil || !again.Replayed || !again.FinishedAt.Equal(first.FinishedAt) {
			t.Errorf("%s, again: %+v, %v", label, again, err)
		}
		f.effectsAre(map[string]int{label: 1})
	}
}

// TestRunTx_I5_R17_ResultsInTheWrongPlaces: there the answer of no COMMIT tells what happened, so such texts are refused.
func TestRunTx_I5_R17_ResultsInTheWrongPlaces(t *testing.T) {
	t.Parallel()
	f := inMode(t, pgx.QueryExecModeSimpleProtocol)
	for label, sql := range map[string]string{"none": `-- nothing`, "two": `select 1; select 2`} {
		for _, level := range isolationLevels {
			if _, err := f.callTx(t.Context(), level, request(label), leavesSQL(label, sql)); !errors.Is(err, ErrBatchSQL) || errors.Is(err, ErrHandlerEndedTx) {
				t.Errorf("%s %s: %v, want ErrBatchSQL", label, level, err)
			}
		}
		if f.effects(label) != 0 || f.records() != 0 {
			t.Errorf("%s: %d effects, %d records", label, f.effects(label), f.records())
		}
	}
}
