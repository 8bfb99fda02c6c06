package txidem

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// TestRunLeased_R01_R14_DuplicateTouchesNoRecordOfARunningCall checks that a leased duplicate of a call that runs in a
// transaction over an expired record does not remove that record, and does not wait for the transaction that has.
func TestRunLeased_R01_R14_DuplicateTouchesNoRecordOfARunningCall(t *testing.T) {
	t.Parallel()
	for _, level := range isolationLevels {
		t.Run(name(level), func(t *testing.T) {
			t.Parallel()
			f := setup(t, &Policy{CommitTimeout: 5 * time.Second}, nil)
			if _, err := f.callTx(t.Context(), level, request("a"), writes("a")); err != nil {
				t.Fatal(err)
			}
			f.exec(`update txonce.call set expires_at = clock_timestamp()`)
			tx, err := f.pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: level})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = tx.Rollback(t.Context()) }()
			if _, err := RunTx(t.Context(), tx, f.store, request("a"), writes("a")); err != nil {
				t.Fatal(err)
			}
			if _, err := RunLeased(t.Context(), f.store, request("a"), func(context.Context) (string, error) { return "paid", nil }, nil); !errors.Is(err, ErrInProgress) {
				t.Errorf("a duplicate got %v; want ErrInProgress", err)
			}
			if err := tx.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			if n := f.records(); n != 1 {
				t.Errorf("%d records; want the expired one", n)
			}
		})
	}
}
