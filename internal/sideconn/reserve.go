package sideconn

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Reserve opens connections beside a pool, so that a busy pool cannot starve what keeps calls and jobs safe, such as finding
// out whether a COMMIT arrived. It opens few and keeps none: they are needed when something broke, or for as long as leases
// are to be renewed.
type Reserve struct {
	pool  *pgxpool.Pool
	slots chan struct{}

	// Patience is how long to try for a connection before trying anew. Defaults to as long as the context lasts. It is set
	// before first use.
	Patience func() time.Duration
}

const (
	firstPause   = 5 * time.Millisecond // between two tries for a connection
	longestPause = 250 * time.Millisecond
	closeTimeout = 5 * time.Second // bounds leaving a connection to die
)

// New makes a reserve of at most slots connections at a time, configured like the pool's.
func New(pool *pgxpool.Pool, slots int) *Reserve {
	return &Reserve{pool: pool, slots: make(chan struct{}, slots)}
}

// Busy is how many of its connections are in use.
func (r *Reserve) Busy() int { return len(r.slots) }

// With calls fn with a connection, which it closes afterwards. It waits for a free one, and tries to connect again and again,
// until ctx ends, unless the server refuses the login.
func (r *Reserve) With(ctx context.Context, fn func(*pgx.Conn) error) error {
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	case <-ctx.Done():
		return fmt.Errorf("txonce: no reserved connection became free: %w", ctx.Err())
	}
	conn, err := r.insist(ctx)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		_ = conn.Close(ctx)
	}()
	return fn(conn)
}

// insist connects, again and again until ctx ends: what broke the call's connection may be a server that restarts.
func (r *Reserve) insist(ctx context.Context) (*pgx.Conn, error) {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		conn, err := r.try(ctx)
		if err == nil || refused(err) {
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
func (r *Reserve) try(ctx context.Context) (*pgx.Conn, error) {
	if r.Patience != nil {
		limited, cancel := context.WithTimeout(ctx, r.Patience())
		defer cancel()
		ctx = limited
	}
	return r.connect(ctx)
}

// connect does what the pool does for a new connection.
func (r *Reserve) connect(ctx context.Context) (*pgx.Conn, error) {
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

// refused reports whether the server will say the same to each try: the role, its password or the database is wrong.
func refused(err error) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && (pgErr.Code == "28000" || pgErr.Code == "28P01" || pgErr.Code == "3D000")
}
