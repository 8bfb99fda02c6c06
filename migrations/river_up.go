package migrations

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
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
