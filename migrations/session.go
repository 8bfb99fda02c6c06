package migrations

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	minServerVersion = 14

	firstPause   = 20 * time.Millisecond
	longestPause = 250 * time.Millisecond

	// closeTimeout bounds what is done after ctx has ended.
	closeTimeout = 5 * time.Second
)

// session is the connection of a run. River's migrations have one of their own
// beside it, see runRiver.
type session struct {
	cfg   Config
	files *files
	river []int // the versions of River's tables that this build knows, ascending
	pool  *pgxpool.Pool
	conn  *pgxpool.Conn
	pid   uint32 // server process that holds the lock
}

// open takes a connection out of the pool. The caller calls conn.Release.
func open(ctx context.Context, pool *pgxpool.Pool, cfg *Config, fsys fs.FS) (*session, error) {
	if pool == nil {
		return nil, errors.New("migrations: pool is nil; pass the result of pgxpool.New")
	}
	c, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	f, err := openFiles(fsys)
	if err != nil {
		return nil, err
	}
	river, err := riverVersions()
	if err != nil {
		return nil, err
	}
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return nil, errUnreachable(pool, err)
	}
	if err := checkServer(conn.Conn().PgConn().ParameterStatus("server_version")); err != nil {
		conn.Release()
		return nil, err
	}
	return &session{cfg: c, files: f, river: river, pool: pool, conn: conn}, nil
}

// checkServer wants "16.4", "15.18 (Debian 15.18-0+deb12u1)", "17beta1" and the like.
func checkServer(version string) error {
	digits := strings.IndexFunc(version+".", func(r rune) bool { return r < '0' || r > '9' })
	major, err := strconv.Atoi(version[:digits])
	if err != nil || major < minServerVersion {
		return fmt.Errorf("%w; the server reports version %q: upgrade it, or point the URL at a newer one", ErrServerTooOld, version)
	}
	return nil
}

// locked runs fn while this session holds the advisory lock of the schema, and
// then closes the connection: nothing of the run gets back into the pool, and
// should the unlock have failed, the lock ends with the connection.
func (s *session) locked(ctx context.Context, fn func() error) error {
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		_ = s.conn.Conn().Close(ctx)
	}()
	if err := s.lock(ctx); err != nil {
		return err
	}
	err := fn()
	if unlockErr := s.unlock(ctx); unlockErr != nil && !errors.Is(err, ErrPooled) {
		err = errors.Join(err, unlockErr)
	}
	return err
}

// lock tries again and again rather than wait inside the server. A waiting
// statement would be ended by the role's statement_timeout, would hold up CREATE
// INDEX CONCURRENTLY elsewhere, and on a cancelled ctx would stay behind in the
// queue until the server notices. Between two tries there is nothing to leave behind.
func (s *session) lock(ctx context.Context) error {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		var got bool
		row := s.conn.QueryRow(ctx, queryTryLock, pgx.QueryExecModeExec, lockClass, lockID(s.cfg.Schema))
		if err := row.Scan(&got, &s.pid); err != nil {
			return fmt.Errorf("migrations: take the lock of schema %q: %w", s.cfg.Schema, s.explain(err))
		}
		if got {
			return nil
		}
		if pause == firstPause {
			s.cfg.Logger.InfoContext(ctx, "migrations: another process is migrating, waiting for it", "schema", s.cfg.Schema)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("migrations: gave up waiting while another process migrates schema %q: give ctx more time, or look for the holder "+
				"(a pooler may have kept the lock of an earlier run) with: select pid from pg_locks where locktype = 'advisory' and classid = %d and objid = %d and granted: %w",
				s.cfg.Schema, uint32(lockClass), uint32(lockID(s.cfg.Schema)), ctx.Err())
		case <-time.After(pause/2 + rand.N(pause)):
		}
	}
}

// unlock gives the lock back, also after ctx has ended, and checks that it was
// still there.
func (s *session) unlock(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	var freed bool
	var pid uint32
	row := s.conn.QueryRow(ctx, queryUnlock, pgx.QueryExecModeExec, lockClass, lockID(s.cfg.Schema))
	if err := row.Scan(&freed, &pid); err != nil {
		return nil // the connection is gone, and the lock with it
	}
	if !freed || pid != s.pid {
		return errPooled(s.pid)
	}
	return nil
}

// exec sends script behind the prologue as one message, hence in one
// transaction: all of it or nothing.
func (s *session) exec(ctx context.Context, script string) error {
	script = prologue(s.cfg.Schema, s.pid) + script
	err := s.conn.Conn().PgConn().Exec(ctx, script).Close()
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*pgconn.PgError](err); !ok {
		return fmt.Errorf("the connection broke; the step was done as a whole or not at all, so simply run it again: %w", err)
	}
	if line := lineOf(script, err); line > 0 {
		return fmt.Errorf("line %d: %w", line, s.explain(err))
	}
	return s.explain(err)
}
