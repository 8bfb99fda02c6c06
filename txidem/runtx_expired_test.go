package txidem

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
)

// TestRunTx_R06_R13_FailureTakesThePlaceOfAnExpiredRecord checks at each level that a failure, and that of a handler which ends
// the transaction by ROLLBACK, is recorded where an expired record was. At SERIALIZABLE the roll-back brings that one back.
func TestRunTx_R06_R13_FailureTakesThePlaceOfAnExpiredRecord(t *testing.T) {
	t.Parallel()
	for _, level := range isolationLevels {
		t.Run(name(level), func(t *testing.T) {
			t.Parallel()
			f := setup(t, nil, nil)
			for key, handler := range map[string]func(context.Context, pgx.Tx) (string, error){
				"fails": func(context.Context, pgx.Tx) (string, error) { return "", Fail("no", "not this one") },
				"ends": func(ctx context.Context, tx pgx.Tx) (string, error) {
					_, err := tx.Exec(ctx, `rollback`)
					return "", err
				},
			} {
				if _, err := f.callTx(t.Context(), level, request(key), writes(key)); err != nil {
					t.Fatal(err)
				}
				f.exec(`update txonce.call set expires_at = clock_timestamp() where key = $1`, "x:"+key)
				first, err := f.callTx(t.Context(), level, request(key), handler)
				if _, failed := failureIn(err); !failed || first.Replayed {
					t.Fatalf("%s: %+v, %v; want a failure", key, first, err)
				}
				again, err := f.callTx(t.Context(), level, request(key), writes(key))
				if _, failed := failureIn(err); !failed || !again.Replayed || errors.Is(err, ErrHandlerEndedTx) {
					t.Errorf("%s again: %+v, %v; want the replay of the failure", key, again, err)
				}
			}
			f.effectsAre(map[string]int{"fails": 1, "ends": 1})
		})
	}
}
