package migrations

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Before anything is changed.
var (
	// ErrServerTooOld is returned when the server is older than PostgreSQL 14.
	ErrServerTooOld = errors.New("migrations: PostgreSQL 14 or newer is needed")

	// ErrDirty is returned when the version table says that a file was left half
	// applied. This package never leaves that behind; another tool that ran
	// these files may.
	ErrDirty = errors.New("migrations: the version table is marked dirty")
)

// While running.
var (
	// ErrPooled is returned when the statements of one run reached different
	// server connections, as happens behind pgbouncer in transaction mode.
	ErrPooled = errors.New("migrations: the connection goes through a pooler that switches server connections (pgbouncer in transaction mode?)")
)

// codeMoved is the SQLSTATE our own guard raises, see prologue.
const codeMoved = "TXM01"

func errUnreachable(pool *pgxpool.Pool, err error) error {
	c := pool.Config().ConnConfig
	return fmt.Errorf("migrations: no connection to PostgreSQL at host %q, port %d, database %q: check that the server is up, "+
		"that the URL is right and that the pool has a free connection: %w", c.Host, c.Port, c.Database, err)
}

func errDirty(schema string, version int) error {
	return fmt.Errorf("%w at version %d: another tool must have run these files. Compare the tables of schema %q with the file of that version, "+
		"complete or undo it by hand, then: update %s set dirty = false (and lower version if you undid it)",
		ErrDirty, version, schema, versionTable(schema))
}

func errPooled(pid uint32) error {
	return fmt.Errorf("%w: use a pool that connects to the server directly; "+
		"if the lock stayed behind, select pg_terminate_backend(%d) frees it", ErrPooled, pid)
}

// explain adds the remedy to an error of the server.
func (s *session) explain(err error) error {
	return s.remedied(err, fmt.Sprintf("schema %q holds something of that name that is not txonce's; set Config.Schema to a schema of its own", s.cfg.Schema))
}

// explainRiver does that for an error of River's migrations.
func (s *session) explainRiver(err error) error {
	if errors.Is(err, ErrPooled) {
		return errPooled(s.pid)
	}
	if _, ok := errors.AsType[*pgconn.PgError](err); !ok {
		err = fmt.Errorf("the connection failed; each of River's migrations is done as a whole or not at all, so simply run it again: %w", err)
	}
	err = s.remedied(err, fmt.Sprintf("schema %q holds something of that name that is not River's; set Config.RiverSchema to a schema of its own", s.cfg.RiverSchema))
	return fmt.Errorf("migrations: River's migrations in schema %q: %w", s.cfg.RiverSchema, err)
}

// remedied adds what to do next; taken is that for a name that is taken.
func (s *session) remedied(err error, taken string) error {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return err
	}
	remedy := ""
	switch pgErr.Code {
	case codeMoved:
		return errPooled(s.pid)
	case "42501": // insufficient_privilege
		remedy = "run Up once with a role that may create tables there, and give the application's role the grants in the package documentation"
	case "42P07", "42710": // duplicate_table, duplicate_object
		remedy = taken
	case "25006": // read_only_sql_transaction
		remedy = "this server only reads; use the address of the primary"
	case "55P03": // lock_not_available
		remedy = "a table is in use; try again, or raise the role's lock_timeout"
	case "53300": // too_many_connections
		remedy = "River's migrations take one connection beside that of the pool; try again, or raise the limit"
	default:
		return err
	}
	return fmt.Errorf("%w; %s", err, remedy)
}

// lineOf returns the line of script the server complains about, 0 if unknown.
func lineOf(script string, err error) int {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	runes := []rune(script) // Position counts characters, from 1
	if !ok || pgErr.Position <= 0 || int(pgErr.Position) > len(runes) {
		return 0
	}
	return 1 + strings.Count(string(runes[:pgErr.Position-1]), "\n")
}
