package migrations

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// checkLock looks whether this session still holds the lock, from one of River's
// migrations to the next.
func (s *session) checkLock(ctx context.Context) error {
	err := s.exec(ctx, "")
	if err == nil || errors.Is(err, ErrPooled) {
		return err
	}
	return fmt.Errorf("migrations: the lock was lost while River's migrations ran; each is done as a whole or not at all, so simply run it again: %w", err)
}

// runRiver lets fn use a migrator on a pool of its own: rivermigrate wants a
// pool, and the caller's may have one connection, which holds the lock. The pool
// is the caller's in all but size, so that a role or a password that its hooks
// set applies.
func (s *session) runRiver(ctx context.Context, fn func(*rivermigrate.Migrator[pgx.Tx]) error) error {
	cfg := s.pool.Config() // a copy
	cfg.MaxConns, cfg.MinConns, cfg.MinIdleConns = 1, 0, 0
	theirs := cfg.AfterConnect
	cfg.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		if theirs != nil {
			if err := theirs(ctx, conn); err != nil {
				return err
			}
		}
		return s.settle(ctx, conn)
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return s.explainRiver(err)
	}
	defer pool.Close()
	m, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{
		Schema: s.cfg.RiverSchema,
		Logger: s.cfg.Logger.With("schema", s.cfg.RiverSchema),
	})
	if err != nil {
		return fmt.Errorf("migrations: %w", err)
	}
	return fn(m)
}

// settle prepares a connection for River's migrations. Two connections with one
// server process are those of a pooler. Behind one that was not found out like
// that the settings are left out, since others would inherit them: the server's
// process is then not the one that was named when the connection was made.
func (s *session) settle(ctx context.Context, conn *pgx.Conn) error {
	var pid uint32
	if err := conn.QueryRow(ctx, `select pg_catalog.pg_backend_pid()`, pgx.QueryExecModeExec).Scan(&pid); err != nil {
		return err
	}
	if pid == s.pid {
		return errPooled(s.pid)
	}
	if pid != conn.PgConn().PID() {
		return nil
	}
	_, err := conn.Exec(ctx, settings)
	return err
}
