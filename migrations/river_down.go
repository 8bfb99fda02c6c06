package migrations

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river/rivermigrate"
)

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
