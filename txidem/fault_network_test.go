//go:build linux

package txidem

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/internal/devpg"
)

// A client that lives, asks for more than the network holds, and does not read it: the server is stuck in the middle of a
// statement, so it is not idle, and the connection is not closed. Over TCP its data stay unacknowledged.
func TestRun_R20_ClientThatStopsReading(t *testing.T) {
	t.Parallel()
	srv := ownServer(t, devpg.StartOwn, &devpg.Config{ListenTCP: true})
	f, _, _ := wiredAt(t, srv, &Policy{IdleInTx: time.Second}, 4)
	other := f.other(&Policy{Wait: 40 * time.Second})
	goOn := make(chan struct{})
	v := f.vanish(request("k"), func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `select repeat('x', 1000000) from generate_series(1, 200)`)
		if err != nil {
			return err
		}
		defer rows.Close()
		<-goOn
		for rows.Next() {
		}
		return rows.Err()
	})
	eventually(t, "the server waits for the client", func() bool {
		var n int
		err := other.pool.QueryRow(t.Context(), `select count(*) from pg_stat_activity where wait_event = 'ClientWrite'`).Scan(&n)
		return err == nil && n == 1
	})
	takesOver(other, request("k"))
	close(goOn)
	if err := v.end(); !errors.Is(err, ErrIdleTooLong) || errors.Is(err, ErrOutcomeUnknown) {
		t.Errorf("the client's own call ended with %v, want ErrIdleTooLong", err)
	}
	f.clean()
}
