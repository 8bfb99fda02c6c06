package migrations

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// upRiver runs River's migrations. Each is in a transaction of its own together
// with its version, so what broke off is gone on with.
func (s *session) upRiver(ctx context.Context) error {
	st, err := s.riverState(ctx)
	if err != nil || s.riverDone(ctx, st) {
		return err
	}
	if st.jobs && !st.table {
		return fmt.Errorf("migrations: schema %q has River's tables but no table river_migration, so that their version is unknown: "+
			"set Config.NoRiver and migrate them with the tool that made them, or set Config.RiverSchema to another schema", s.cfg.RiverSchema)
	}
	if err := s.prepareRiver(ctx, st); err != nil {
		return err
	}
	start := time.Now()
	if err := s.runRiver(ctx, func(m *rivermigrate.Migrator[pgx.Tx]) error { return s.climb(ctx, m) }); err != nil {
		return err
	}
	s.cfg.Logger.InfoContext(ctx, "migrations: River's tables are up to date",
		"schema", s.cfg.RiverSchema, "version", slices.Max(s.river), "took", time.Since(start))
	return nil
}

// climb applies one migration after the other, with a look at the lock in between.
func (s *session) climb(ctx context.Context, m *rivermigrate.Migrator[pgx.Tx]) error {
	for more := true; more; {
		st, err := s.riverState(ctx)
		if err != nil {
			return err
		}
		if more, err = s.stepRiver(ctx, m, len(st.versions)); err != nil {
			return err
		}
	}
	return nil
}

// stepRiver reports whether there was a migration to apply. It is content when
// somebody else was faster: an application that runs River's migrations in this
// schema does not take our lock, and the last commit of a killed process may come
// when its lock is free already.
func (s *session) stepRiver(ctx context.Context, m *rivermigrate.Migrator[pgx.Tx], applied int) (more bool, err error) {
	res, err := m.Migrate(ctx, rivermigrate.DirectionUp, &rivermigrate.MigrateOpts{MaxSteps: 1})
	if err == nil {
		return len(res.Versions) > 0, s.checkLock(ctx)
	}
	if st, lookErr := s.riverState(ctx); lookErr == nil && len(st.versions) > applied {
		return true, nil
	}
	return false, s.explainRiver(err)
}

// prepareRiver makes the schema, and the mark in front of River's first table.
func (s *session) prepareRiver(ctx context.Context, st riverState) error {
	script := outliveIdleness
	if !st.schema {
		script += createSchema(s.cfg.RiverSchema)
	}
	if !st.table && !st.mark {
		script += createMark(s.cfg.RiverSchema)
	}
	if err := s.exec(ctx, script); err != nil {
		return fmt.Errorf("migrations: prepare schema %q for River: %w", s.cfg.RiverSchema, err)
	}
	return nil
}

// downRiver takes River's tables away if Up made them.
func (s *session) downRiver(ctx context.Context) error {
	st, err := s.riverState(ctx)
	if err != nil || s.cfg.NoRiver {
		return err
	}
	if st.table && !st.mark {
		s.cfg.Logger.InfoContext(ctx, "migrations: River's tables were there before txonce and stay", "schema", s.cfg.RiverSchema)
		return nil
	}
	if err := s.refuseRiver(st); err != nil {
		return err
	}
	if st.table {
		if err := s.dropRiver(ctx); err != nil {
			return err
		}
	}
	if st.mark {
		if err := s.exec(ctx, dropMark(s.cfg.RiverSchema)); err != nil {
			return fmt.Errorf("migrations: drop the mark in schema %q: %w", s.cfg.RiverSchema, err)
		}
	}
	if !st.schemaOurs {
		return nil
	}
	return s.dropSchema(ctx, s.cfg.RiverSchema)
}

// refuseRiver keeps Down from what River's migrations could undo in part only.
func (s *session) refuseRiver(st riverState) error {
	if s.riverNewer(st) {
		return fmt.Errorf("migrations: River's tables in schema %q are at version %d and this build knows %d: use the build that migrated them to undo it",
			s.cfg.RiverSchema, slices.Max(st.versions), slices.Max(s.river))
	}
	if st.addOns {
		return fmt.Errorf("migrations: schema %q has migrations of River's add-ons (select line from %[1]q.river_migration): "+
			"undo them first with the tool that made them, or set Config.NoRiver to leave River's tables alone", s.cfg.RiverSchema)
	}
	return nil
}

func (s *session) dropRiver(ctx context.Context) error {
	if err := s.exec(ctx, outliveIdleness); err != nil {
		return fmt.Errorf("migrations: undo River's migrations in schema %q: %w", s.cfg.RiverSchema, err)
	}
	err := s.runRiver(ctx, func(m *rivermigrate.Migrator[pgx.Tx]) error {
		if _, err := m.Migrate(ctx, rivermigrate.DirectionDown, &rivermigrate.MigrateOpts{TargetVersion: -1}); err != nil {
			return s.explainRiver(err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return s.checkLock(ctx)
}

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
