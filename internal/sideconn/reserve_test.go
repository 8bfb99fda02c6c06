package sideconn

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/internal/dbtest"
)

// within is a context that ends what hangs.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// TestReserve_R08_WorksBesideABusyPool: with the pool's hooks, up to as many connections as it has slots, and none is kept.
func TestReserve_R08_WorksBesideABusyPool(t *testing.T) {
	t.Parallel()
	var connected atomic.Int32
	pool := dbtest.Pool(t, func(cfg *pgxpool.Config) {
		cfg.MaxConns = 1
		cfg.AfterConnect = func(context.Context, *pgx.Conn) error { connected.Add(1); return nil }
	})
	busy, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Release()
	r := New(pool, 2)
	var kept [2]*pgx.Conn
	err = r.With(within(t), func(first *pgx.Conn) error {
		return r.With(within(t), func(second *pgx.Conn) error {
			kept = [2]*pgx.Conn{first, second}
			if n := r.Busy(); n != 2 || connected.Load() != 3 {
				t.Errorf("%d are busy, %d were connected; want 2 and 3", n, connected.Load())
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			err := r.With(ctx, func(*pgx.Conn) error { t.Error("there is a third one"); return nil })
			if !errors.Is(err, context.Canceled) || !strings.HasPrefix(err.Error(), "txonce: ") {
				t.Errorf("no free one: %v", err)
			}
			return errors.Join(first.Ping(t.Context()), second.Ping(t.Context()))
		})
	})
	if err != nil || r.Busy() != 0 || !kept[0].IsClosed() || !kept[1].IsClosed() {
		t.Errorf("%v, %d are busy, closed %v %v", err, r.Busy(), kept[0].IsClosed(), kept[1].IsClosed())
	}
	broken := errors.New("broken")
	if err := r.With(within(t), func(*pgx.Conn) error { return broken }); !errors.Is(err, broken) || r.Busy() != 0 {
		t.Errorf("of a function that fails: %v, %d are busy", err, r.Busy())
	}
}

// TestReserve_R08_TriesAgainUntilThereIsAServer: what broke a connection may be a server that restarts.
func TestReserve_R08_TriesAgainUntilThereIsAServer(t *testing.T) {
	t.Parallel()
	var dials atomic.Int32
	pool := dbtest.Pool(t, func(cfg *pgxpool.Config) {
		dial := cfg.ConnConfig.DialFunc
		cfg.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
			switch dials.Add(1) {
			case 1:
				return nil, errors.New("nobody is there")
			case 2: // and one that never answers
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return dial(ctx, network, addr)
		}
	})
	r := New(pool, 1)
	r.Patience = func() time.Duration {
		if dials.Load() == 1 {
			return time.Millisecond
		}
		return time.Minute
	}
	if err := r.With(within(t), func(conn *pgx.Conn) error { return conn.Ping(t.Context()) }); err != nil || dials.Load() < 3 {
		t.Errorf("%v after %d dials", err, dials.Load())
	}
}

// TestReserve_R08_RefusedLoginIsSaidAtOnce: it will not get better.
func TestReserve_R08_RefusedLoginIsSaidAtOnce(t *testing.T) {
	t.Parallel()
	var tries atomic.Int32
	pool := dbtest.Pool(t, func(cfg *pgxpool.Config) {
		cfg.ConnConfig.Database = "nowhere"
		cfg.BeforeConnect = func(context.Context, *pgx.ConnConfig) error { tries.Add(1); return nil }
	})
	var pgErr *pgconn.PgError
	err := New(pool, 1).With(within(t), func(*pgx.Conn) error { return nil })
	if !errors.As(err, &pgErr) || pgErr.Code != "3D000" || tries.Load() != 1 {
		t.Errorf("got %v after %d tries, want 3D000 after one", err, tries.Load())
	}
}
