package txidem

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// reserve opens connections beside the pool, so that a busy pool cannot starve what keeps calls safe: finding out
// whether a COMMIT arrived. It opens few and keeps none: they are needed when something broke.
type reserve struct {
	pool  *pgxpool.Pool
	slots chan struct{}

	patience func() time.Duration // how long to try for a connection before trying anew; nil for as long as there is
}

// reserved is how many connections a store may have beside its pool.
const reserved = 2

func newReserve(pool *pgxpool.Pool) *reserve {
	return &reserve{pool: pool, slots: make(chan struct{}, reserved)}
}

// with calls fn with a connection that is configured like the pool's.
func (r *reserve) with(ctx context.Context, fn func(*pgx.Conn) error) error {
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	case <-ctx.Done():
		return fmt.Errorf("txidem: no reserved connection became free: %w", ctx.Err())
	}
	conn, err := r.insist(ctx)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
		defer cancel()
		_ = conn.Close(ctx)
	}()
	return fn(conn)
}

// insist connects, again and again until ctx ends: what broke the call's connection may be a server that restarts.
func (r *reserve) insist(ctx context.Context) (*pgx.Conn, error) {
	for pause := shortestPause; ; pause = min(2*pause, longestPause) {
		conn, err := r.try(ctx)
		if err == nil || hasCode(err, codeBadLogin, codeBadPassword, codeNoDatabase) {
			return conn, err
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil, err
		case <-timer.C:
		}
	}
}

// try connects, and does not let one silent connection take all the time there is.
func (r *reserve) try(ctx context.Context) (*pgx.Conn, error) {
	if r.patience != nil {
		limited, cancel := context.WithTimeout(ctx, r.patience())
		defer cancel()
		ctx = limited
	}
	return r.connect(ctx)
}

// connect does what the pool does for a new connection.
func (r *reserve) connect(ctx context.Context) (*pgx.Conn, error) {
	cfg := r.pool.Config()
	if cfg.BeforeConnect != nil {
		if err := cfg.BeforeConnect(ctx, cfg.ConnConfig); err != nil {
			return nil, err
		}
	}
	conn, err := pgx.ConnectConfig(ctx, cfg.ConnConfig)
	if err != nil {
		return nil, err
	}
	if cfg.AfterConnect != nil {
		if err := cfg.AfterConnect(ctx, conn); err != nil {
			_ = conn.Close(ctx)
			return nil, err
		}
	}
	return conn, nil
}
