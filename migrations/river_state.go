package migrations

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// riverState is what the database holds of River's.
type riverState struct {
	schema     bool  // the schema exists
	schemaOurs bool  // and Up created it
	mark       bool  // Up made the tables in it
	jobs       bool  // the table of River's jobs exists
	table      bool  // the table of River's versions exists
	versions   []int // that were applied, in no order
	addOns     bool  // migrations of other lines than River's main one were applied
}

// riverVersions returns the versions this build knows, in ascending order.
func riverVersions() ([]int, error) {
	m, err := rivermigrate.New(riverpgxv5.New(nil), nil)
	if err != nil {
		return nil, fmt.Errorf("migrations: read River's migrations: %w", err)
	}
	var known []int
	for _, migration := range m.AllVersions() {
		known = append(known, migration.Version)
	}
	return known, nil
}

// riverState reads River's version table itself: rivermigrate needs a pool for
// it, and several queries. With NoRiver it looks at nothing.
func (s *session) riverState(ctx context.Context) (riverState, error) {
	var st riverState
	if s.cfg.NoRiver {
		return st, nil
	}
	var lines bool
	row := s.conn.QueryRow(ctx, queryRiverObjects, pgx.QueryExecModeExec, s.cfg.RiverSchema, schemaComment)
	if err := row.Scan(&st.schema, &st.schemaOurs, &st.mark, &st.jobs, &st.table, &lines); err != nil {
		return riverState{}, fmt.Errorf("migrations: look for schema %q: %w", s.cfg.RiverSchema, s.explain(err))
	}
	if !st.table {
		return st, nil
	}
	var err error
	st.versions, st.addOns, err = s.readRiver(ctx, lines)
	return st, err
}

func (s *session) readRiver(ctx context.Context, lines bool) (versions []int, addOns bool, err error) {
	row := s.conn.QueryRow(ctx, queryRiverVersions(s.cfg.RiverSchema, lines), pgx.QueryExecModeExec)
	if err := row.Scan(&versions, &addOns); err != nil && !isDropped(err) {
		return nil, false, fmt.Errorf("migrations: read River's version in schema %q: %w", s.cfg.RiverSchema, s.explain(err))
	}
	return versions, addOns, nil
}

// riverDone reports whether Up has nothing to do for River. A newer version is
// left alone, as one of ours is. Looked for is each version and not the last one
// only, as River does.
func (s *session) riverDone(ctx context.Context, st riverState) bool {
	if s.cfg.NoRiver {
		return true
	}
	if s.riverNewer(st) {
		s.cfg.Logger.InfoContext(ctx, "migrations: River's tables are newer than this build, which leaves them alone",
			"schema", s.cfg.RiverSchema, "version", slices.Max(st.versions), "latest", slices.Max(s.river))
		return true
	}
	return !slices.ContainsFunc(s.river, func(version int) bool { return !slices.Contains(st.versions, version) })
}

func (s *session) riverNewer(st riverState) bool {
	return len(st.versions) > 0 && slices.Max(st.versions) > slices.Max(s.river)
}
