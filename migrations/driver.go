package migrations

import (
	"context"
	"errors"
	"io"

	"github.com/golang-migrate/migrate/v4/database"
)

// driver connects golang-migrate to our session. Its own driver for pgx is of no
// use here: it writes the version in transactions before and after the file, so
// that a file that fails leaves the version dirty; it ignores ctx; and it takes
// connections and a lock of its own.
//
// For each file golang-migrate calls SetVersion(target, true), Run(file) unless
// there is none, SetVersion(target, false); target is -1 below the first file.
type driver struct {
	ctx     context.Context // of the run: database.Driver has no room for one
	s       *session
	target  int
	written bool // Run has written target
}

var _ database.Driver = (*driver)(nil)

// SetVersion only remembers the version while it is dirty, for Run to write it
// in the transaction of the file.
func (d *driver) SetVersion(version int, dirty bool) error {
	if dirty {
		d.target, d.written = version, false
		return nil
	}
	if d.written && version == d.target {
		return nil
	}
	return d.s.exec(d.ctx, setVersion(d.s.cfg.Schema, version))
}

// Run applies one file and the version it leads to, in one transaction. It
// always reads to the end: golang-migrate feeds it from a goroutine.
func (d *driver) Run(file io.Reader) error {
	body, err := io.ReadAll(file)
	if err != nil {
		return err
	}
	// The line break ends a comment, the semicolon a last statement without one.
	script := string(body) + "\n;\n" + setVersion(d.s.cfg.Schema, d.target)
	if err := d.s.exec(d.ctx, script); err != nil {
		return err
	}
	d.written = true
	return nil
}

// Version returns -1 when nothing is applied.
func (d *driver) Version() (version int, dirty bool, err error) {
	version, err = d.s.readVersion(d.ctx)
	return version, false, err
}

// Lock has nothing to do: the session holds a lock for the whole run.
func (d *driver) Lock() error { return nil }

// Unlock has nothing to do, see Lock.
func (d *driver) Unlock() error { return nil }

// Close has nothing to do: the session is its owner's.
func (d *driver) Close() error { return nil }

// Open is not offered: a driver belongs to a session.
func (d *driver) Open(string) (database.Driver, error) {
	return nil, errors.New("migrations: a driver cannot be opened by URL; call Up")
}

// Drop is not offered: in golang-migrate it drops every table of the schema,
// the user's too.
func (d *driver) Drop() error {
	return errors.New("migrations: Drop is not supported; call Down")
}
