package txidem

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/txonce/txonce/toolcall"
)

// TestRunTx_R14_R20_AFailureKeepsTheTimeouts: what a failed handler did is rolled back, and with it what the claim set. The
// failure's record holds the call until the caller's commit, so a client that vanishes before that must be noticed as soon
// as after a success.
func TestRunTx_R14_R20_AFailureKeepsTheTimeouts(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	const settings = `select array[current_setting('idle_in_transaction_session_timeout'), current_setting('client_connection_check_interval')]`
	after := func(key string, answer error) (have pgtype.FlatArray[string]) {
		tx, err := f.pool.BeginTx(t.Context(), pgx.TxOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback(context.Background()) }()
		var failure *toolcall.Failure
		if _, err := RunTx(t.Context(), tx, f.store, request(key), func(context.Context, pgx.Tx) (string, error) {
			return "", answer
		}); err != nil && !errors.As(err, &failure) {
			t.Fatal(err)
		}
		if err := tx.QueryRow(t.Context(), settings).Scan(&have); err != nil {
			t.Fatal(err)
		}
		return have
	}
	done, failed := after("done", nil), after("failed", Fail("no", "no"))
	if len(done) != 2 || done[0] == "0" || len(failed) != 2 || done[0] != failed[0] || done[1] != failed[1] {
		t.Errorf("the settings are %q after a success and %q after a failure, want the same", done, failed)
	}
}
