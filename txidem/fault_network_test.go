//go:build linux

package txidem

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

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

// nearby is a connection that the client takes for a Unix socket, as one to a pooler or a proxy on its own machine is.
type nearby struct{ net.Conn }

func (nearby) RemoteAddr() net.Addr { return &net.UnixAddr{Name: "/proxy", Net: "unix"} }

// What bounds a silent network is set where the server's own connection is TCP, whatever the client's is.
func TestRun_R17_R20_TheServerSaysWhetherItIsTCP(t *testing.T) {
	t.Parallel()
	for label, c := range map[string]struct {
		tcp  bool
		want string
	}{"TCP": {true, "30000"}, "socket": {false, "0"}} {
		t.Run(label, func(t *testing.T) {
			t.Parallel()
			srv := ownServer(t, devpg.StartOwn, &devpg.Config{ListenTCP: c.tcp})
			f, _, _ := wiredAt(t, srv, nil, 4, func(cfg *pgxpool.Config) {
				dial := cfg.ConnConfig.DialFunc
				cfg.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
					conn, err := dial(ctx, network, address)
					return nearby{conn}, err
				}
			})
			for _, key := range []string{"first", "second"} { // the store has learned of its platform
				if got, err := Run(t.Context(), f.store, request(key), func(ctx context.Context, tx pgx.Tx) (timeout string, err error) {
					err = tx.QueryRow(ctx, `select current_setting('tcp_user_timeout')`).Scan(&timeout)
					return timeout, err
				}); err != nil || got.Value != c.want {
					t.Errorf("the %s call has a timeout of %q, %v; want %q", key, got.Value, err, c.want)
				}
			}
		})
	}
}
