package migrations

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/golang-migrate/migrate/v4/source"
	"github.com/golang-migrate/migrate/v4/source/iofs"
)

// Files holds the migrations in golang-migrate's format, in the folder "sql". It
// is meant for reading, say to name a template database after their content;
// they are run by [Up], since their names are unqualified.
//
//go:embed sql/*.sql
var Files embed.FS

const filesDir = "sql"

// files is a set of migrations: golang-migrate's view of it, and what it does
// not tell.
type files struct {
	source.Driver
	latest uint
	names  map[fileKey]string
}

type fileKey struct {
	version   uint
	direction source.Direction
}

func openFiles(fsys fs.FS) (*files, error) {
	drv, err := iofs.New(fsys, filesDir)
	if err != nil {
		return nil, fmt.Errorf("migrations: read the migration files: %w", err)
	}
	entries, err := fs.ReadDir(fsys, filesDir)
	if err != nil {
		return nil, fmt.Errorf("migrations: read the migration files: %w", err)
	}
	f := &files{Driver: drv, names: map[fileKey]string{}}
	for _, e := range entries {
		m, err := source.Parse(e.Name())
		if err != nil {
			continue // not a migration, as golang-migrate sees it too
		}
		f.latest = max(f.latest, m.Version)
		f.names[fileKey{m.Version, m.Direction}] = e.Name()
	}
	if f.latest == 0 {
		return nil, errors.New("migrations: there are no migration files")
	}
	return f, nil
}

// name returns the name of the file that leads away from a version, 0 being
// below the first.
func (f *files) name(from uint, direction source.Direction) string {
	version := from
	if direction == source.Up {
		var err error
		version, err = f.First()
		if from > 0 {
			version, err = f.Next(from)
		}
		if err != nil {
			return fmt.Sprintf("after version %d", from)
		}
	}
	return f.names[fileKey{version, direction}]
}
