package migrations

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/golang-migrate/migrate/v4/database"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// state is what the database holds of ours.
type state struct {
	schema     bool // the schema exists
	schemaOurs bool // and Up created it
	table      bool // the version table exists
	version    uint // 0: nothing applied
}

// state returns the version also when the error is ErrDirty.
func (s *session) state(ctx context.Context) (state, error) {
	var st state
	var ours bool
	row := s.conn.QueryRow(ctx, queryObjects, pgx.QueryExecModeExec, s.cfg.Schema, schemaComment, versionConstraint)
	if err := row.Scan(&st.schema, &st.schemaOurs, &st.table, &ours); err != nil {
		return state{}, fmt.Errorf("migrations: look for schema %q: %w", s.cfg.Schema, s.explain(err))
	}
	if !st.table {
		return st, nil
	}
	if !ours {
		return state{}, fmt.Errorf("migrations: the table %s is not txonce's: set Config.Schema to a schema that holds nothing else",
			versionTable(s.cfg.Schema))
	}
	version, err := s.readVersion(ctx)
	st.version = uint(max(version, 0))
	return st, err
}

// readVersion returns -1 when nothing is applied, as golang-migrate wants it.
func (s *session) readVersion(ctx context.Context) (int, error) {
	var version int
	var dirty bool
	err := s.conn.QueryRow(ctx, queryVersion(s.cfg.Schema), pgx.QueryExecModeExec).Scan(&version, &dirty)
	switch {
	case errors.Is(err, pgx.ErrNoRows), isDropped(err):
		return database.NilVersion, nil
	case err != nil:
		return database.NilVersion, fmt.Errorf("migrations: read %s: %w", versionTable(s.cfg.Schema), s.explain(err))
	case dirty:
		return version, errDirty(s.cfg.Schema, version)
	}
	return version, nil
}

// isDropped tells that a Down elsewhere took the table away since we saw it, or,
// with River's, its column.
func isDropped(err error) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && slices.Contains([]string{"42P01", "3F000", "42703"}, pgErr.Code) // undefined_table, invalid_schema_name, undefined_column
}
