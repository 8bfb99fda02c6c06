package txidem

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/internal/handlertx"
	"github.com/txonce/txonce/internal/randid"
)

// claim is what turn 1 found out. A claim that was won holds a connection with an open transaction, and through it the
// call's advisory lock: both end together, however the client ends.
type claim struct {
	conn  *pgxpool.Conn // nil in a caller's transaction
	db    *pgx.Conn
	tx    pgx.Tx
	token pgtype.UUID // names this attempt, in the transaction's settings and in the record

	won         bool
	record      *record // nil if there is none
	synchronous bool    // commits wait for a standby, so a record that can be seen may not be durable yet

	sent time.Time     // when turn 1 was sent: Postgres has been idle since then at the earliest
	idle time.Duration // the longest time that the handler went without SQL

	stale bool // turn 1 failed for reasons of the connection
	ended bool // the handler ended the transaction by itself
}

// claim begins a transaction, tries to take the call's lock and reads the call's record: one round trip. Nothing has
// happened before it, so what fails for reasons of the connection is tried again on others (R11).
func (s *Store) claim(ctx context.Context, id *identity) (*claim, error) {
	c, err := s.claimOnce(ctx, id)
	if err != nil && c.stale {
		for more := s.tries() - 1; err != nil && c.stale && more > 0 && ctx.Err() == nil; more = min(more, s.tries()) - 1 {
			c, err = s.claimOnce(ctx, id)
		}
	}
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	return c, nil
}

// tries is how often a turn may be sent that did nothing where its connection failed: twice, and once more for each connection
// that lies idle. What cut one may have cut them all (a restart, a time-out), and the pool gives them out before it makes a
// new one. It is asked again behind each try: where others have had the idle ones meanwhile, new connections that fail as well
// (a standby, a server that is going down) are not made one after the other.
func (s *Store) tries() int { return 2 + int(s.pool.Stat().IdleConns()) }

func (s *Store) claimOnce(ctx context.Context, id *identity) (*claim, error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return &claim{}, err
	}
	c := newClaim(conn)
	if err := checkServer(conn.Conn().PgConn().ParameterStatus("server_version")); err != nil {
		conn.Release()
		return &claim{}, err
	}
	results := conn.SendBatch(ctx, s.claimBatch(id, c))
	c.tx = results.Tx()
	if err := results.Close(); err != nil {
		c.stale = isStale(err) || c.db.IsClosed()
		if c.stale {
			_ = c.db.Close(ctx) // never give this one out again
		}
		c.giveBack(ctx)
		return c, err
	}
	if c.decided(id.policy) && c.synchronous {
		return c, c.confirm(ctx, id)
	}
	if !c.won || c.decided(id.policy) {
		c.giveBack(ctx)
	}
	return c, nil
}

func newClaim(conn *pgxpool.Conn) *claim {
	return &claim{conn: conn, db: conn.Conn(), token: newToken(), sent: time.Now()}
}

// claimBatch is turn 1. Above READ COMMITTED the record is read in a transaction of its own in front: a SERIALIZABLE
// transaction that reads an absent key and inserts it makes unrelated calls fail each other (31-45 % on an empty table, see docs/decisions.md),
// and a snapshot taken before the lock was ours proves nothing anyway. There the primary key decides.
func (s *Store) claimBatch(id *identity, c *claim) *pgx.Batch {
	b := &pgx.Batch{}
	read := func() {
		b.Queue(s.sql.read, uuidOf(id), id.policy.InlineAnswer).Query(func(rows pgx.Rows) (err error) {
			c.record, err = readRecord(rows)
			return err
		})
	}
	lock := func() { s.queueLock(b, id, c) }
	if readsFreshSnapshots(id.policy.Isolation) {
		b.BeginTx(pgx.TxOptions{IsoLevel: id.policy.Isolation, AccessMode: pgx.ReadWrite})
		lock()
		read()
		return b
	}
	b.BeginTx(pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite})
	read()
	b.Queue("commit")
	b.Queue("begin isolation level " + string(id.policy.Isolation) + " read write")
	lock()
	return b
}

// decided reports whether the record that was read answers the call.
func (c *claim) decided(policy Policy) bool {
	return c.record != nil && (!c.record.expired || policy.OnExpired == Refuse)
}

// queueLock queues sqlClaim in the form that fits the server.
func (s *Store) queueLock(b *pgx.Batch, id *identity, c *claim) { s.queueClaim(b, s.sql.claims, id, c) }

// queueClaim queues one of the forms. head is where to put what that form asks first.
func (s *Store) queueClaim(b *pgx.Batch, forms claims, id *identity, c *claim, head ...any) {
	known := platform(s.platform.Load())
	ms, probe := handlertx.SettingArgs(id.policy.IdleInTx)
	b.Queue(forms[known], s.lockKey(id), c.token.String(), ms, probe).QueryRow(func(row pgx.Row) error {
		var linux bool
		if err := row.Scan(append(head, &c.won, nil, nil, nil, &c.synchronous, &linux)...); err != nil {
			return err
		}
		if known == platformUnknown {
			learned := platformOther
			if linux {
				learned = platformLinux
			}
			s.platform.Store(int32(learned))
		}
		return nil
	})
}

// confirm ends the claim's transaction by a commit in place of a rollback, so that the record that was read is as durable
// as an acknowledged commit before anyone is told of it (see Store.resolve).
func (c *claim) confirm(ctx context.Context, id *identity) error {
	defer c.giveBack(ctx)
	ctx, cancel := context.WithTimeout(ctx, id.policy.CommitTimeout)
	defer cancel()
	b, v := &pgx.Batch{}, &verdict{}
	b.Queue(sqlConfirm)
	v.queueCommit(b)
	err := c.conn.SendBatch(ctx, b).Close()
	if err == nil && (!v.committed() || ctx.Err() != nil) {
		err = errUnconfirmed
	}
	if err != nil {
		return &OutcomeUnknownError{ID: id.ID, Tool: id.tool, Err: err}
	}
	return nil
}

// undoTimeout bounds what is done for a call that is over: rolling back, or leaving the connection to die.
const undoTimeout = 5 * time.Second

// giveBack rolls back what is open and returns the connection. A connection that cannot be rolled back is not reused.
func (c *claim) giveBack(ctx context.Context) {
	if c.conn == nil {
		return
	}
	if status := c.status(); status != txNone && status != txLost {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
		defer cancel()
		_ = c.tx.Rollback(ctx) // on error pgx closes the connection, and Release drops it
	}
	c.conn.Release()
	c.conn = nil
}

// The states of a connection's transaction: three of the protocol's, and one for no connection at all.
const (
	txNone    = 'I'
	txOpen    = 'T'
	txAborted = 'E'
	txLost    = 0
)

func (c *claim) status() byte {
	if c.db.IsClosed() {
		return txLost
	}
	return c.db.PgConn().TxStatus()
}

func newToken() pgtype.UUID { return randid.Token() }

func uuidOf(id *identity) pgtype.UUID { return pgtype.UUID{Bytes: id.ID, Valid: true} }

// isStale reports whether the connection's state is at fault, not the call: a plan that a migration made wrong (0A000), a
// prepared statement that a pooler lost or has twice (26000, 42P05), a server that was shut down (57P01) or has become a
// standby (25006, or 0A000 for a transaction that is to write). So is a connection that was cut, whatever pgx says then.
func isStale(err error) bool { return hasCode(err, "0A000", "26000", "42P05", "57P01", "25006") }

const oldestServer = 14

// checkServer refuses a server that lacks client_connection_check_interval. It costs nothing: the server says its
// version when the connection is made.
func checkServer(version string) error {
	digits := len(version) - len(strings.TrimLeft(version, "0123456789"))
	major, err := strconv.Atoi(version[:digits])
	if err != nil || major >= oldestServer { // what does not begin with a number is not ours to judge
		return nil
	}
	return fmt.Errorf("%w; this server is %s", ErrServerTooOld, version)
}
