package migrations

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/source"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Up brings our schema and River's to the latest versions this build knows and
// creates them if they are missing. It returns nil when there is nothing to do,
// also when a schema is newer than this build. It waits for other processes that
// migrate the same schema until ctx ends. cfg may be nil.
//
// The errors to tell apart are [ErrServerTooOld], [ErrDirty] and [ErrPooled].
func Up(ctx context.Context, pool *pgxpool.Pool, cfg *Config) error {
	return up(ctx, pool, cfg, Files)
}

// Down undoes every migration and with it deletes all records of txonce. River's
// tables go if Up made them. A schema goes too if Up created it and nothing else
// is in it. It returns nil when there is nothing to undo, and an error when a
// schema is newer than this build. cfg may be nil; the errors are those of [Up].
func Down(ctx context.Context, pool *pgxpool.Pool, cfg *Config) error {
	return down(ctx, pool, cfg, Files)
}

// Version returns the version our schema is at, 0 if nothing is applied, and
// the latest version this build knows; River's tables do not count. It takes no lock and changes nothing.
// With [ErrDirty], current is the version that is marked dirty. cfg may be nil.
func Version(ctx context.Context, pool *pgxpool.Pool, cfg *Config) (current, latest uint, err error) {
	return versions(ctx, pool, cfg, Files)
}

func up(ctx context.Context, pool *pgxpool.Pool, cfg *Config, fsys fs.FS) error {
	s, err := open(ctx, pool, cfg, fsys)
	if err != nil {
		return err
	}
	defer s.conn.Release()
	// Looked at before the lock: most starts find nothing to do and should not
	// queue, least of all behind a newer build that is migrating (D07).
	st, err := s.state(ctx)
	if err != nil {
		return err
	}
	river, err := s.riverState(ctx)
	if err != nil || s.nothingToDo(ctx, st) && s.riverDone(ctx, river) {
		return err
	}
	return s.locked(ctx, func() error {
		if err := s.up(ctx); err != nil {
			return err
		}
		return s.upRiver(ctx)
	})
}

func (s *session) up(ctx context.Context) error {
	st, err := s.state(ctx) // again: it may have changed while we waited
	if err != nil || s.nothingToDo(ctx, st) {
		return err
	}
	if err := s.prepare(ctx, st); err != nil {
		return err
	}
	for st.version < s.files.latest {
		if err := s.step(ctx, st.version, source.Up); err != nil {
			return err
		}
		if st, err = s.state(ctx); err != nil {
			return err
		}
	}
	return nil
}

// nothingToDo is true for a newer schema, too: golang-migrate would fail because
// it has no file of that version, but the build before an upgrade, or after one
// was rolled back, must start (D07).
func (s *session) nothingToDo(ctx context.Context, st state) bool {
	if st.version > s.files.latest {
		s.cfg.Logger.InfoContext(ctx, "migrations: the schema is newer than this build, which leaves it alone",
			"schema", s.cfg.Schema, "version", st.version, "latest", s.files.latest)
	}
	return st.version >= s.files.latest
}

// prepare creates what holds the version. It asks first and does not say "if not
// exists", which needs the privilege even when the thing exists.
func (s *session) prepare(ctx context.Context, st state) error {
	script := ""
	if !st.schema {
		script += createSchema(s.cfg.Schema)
	}
	if !st.table {
		script += createVersionTable(s.cfg.Schema)
	}
	if script == "" {
		return nil
	}
	if err := s.exec(ctx, script); err != nil {
		return fmt.Errorf("migrations: create schema %q: %w", s.cfg.Schema, err)
	}
	return nil
}

func down(ctx context.Context, pool *pgxpool.Pool, cfg *Config, fsys fs.FS) error {
	s, err := open(ctx, pool, cfg, fsys)
	if err != nil {
		return err
	}
	defer s.conn.Release()
	return s.locked(ctx, func() error { return s.down(ctx) })
}

func (s *session) down(ctx context.Context) error {
	st, err := s.state(ctx)
	if err != nil {
		return err
	}
	if st.version > s.files.latest {
		return fmt.Errorf("migrations: schema %q is at version %d and this build knows %d: use the build that migrated it to undo it",
			s.cfg.Schema, st.version, s.files.latest)
	}
	if err := s.downRiver(ctx); err != nil { // first, for it was last on the way up
		return err
	}
	for st.version > 0 {
		if err := s.step(ctx, st.version, source.Down); err != nil {
			return err
		}
		if st, err = s.state(ctx); err != nil {
			return err
		}
	}
	if st.table {
		if err := s.exec(ctx, dropVersionTable(s.cfg.Schema)); err != nil {
			return fmt.Errorf("migrations: drop the version table: %w", err)
		}
	}
	if !st.schemaOurs {
		return nil
	}
	return s.dropSchema(ctx, s.cfg.Schema)
}

func (s *session) dropSchema(ctx context.Context, schema string) error {
	err := s.exec(ctx, dropSchema(schema))
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok && pgErr.Code == "2BP01" { // dependent_objects_still_exist
		s.cfg.Logger.InfoContext(ctx, "migrations: the schema holds objects of others and stays", "schema", schema)
		return nil
	}
	if err != nil {
		return fmt.Errorf("migrations: drop schema %q: %w", schema, err)
	}
	return nil
}

func versions(ctx context.Context, pool *pgxpool.Pool, cfg *Config, fsys fs.FS) (current, latest uint, err error) {
	s, err := open(ctx, pool, cfg, fsys)
	if err != nil {
		return 0, 0, err
	}
	defer s.conn.Release()
	st, err := s.state(ctx)
	return st.version, s.files.latest, err
}

// step applies or undoes one file. One at a time, because golang-migrate reads
// ahead in goroutines that never end once an earlier file has failed.
func (s *session) step(ctx context.Context, from uint, direction source.Direction) error {
	m, err := migrate.NewWithInstance("iofs", s.files, "txonce", &driver{ctx: ctx, s: s})
	if err != nil {
		return fmt.Errorf("migrations: %w", err)
	}
	n := 1
	if direction == source.Down {
		n = -1
	}
	file := s.files.name(from, direction)
	start := time.Now()
	if err := m.Steps(n); err != nil {
		return fmt.Errorf("migrations: file %s: %w", file, err)
	}
	s.cfg.Logger.InfoContext(ctx, "migrations: done", "file", file, "schema", s.cfg.Schema, "took", time.Since(start))
	return nil
}
