package txidem

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/txonce/txonce/toolcall"
)

// lease is the right of one attempt to run a call. Its token fences it: whoever has another one changes nothing.
type lease struct {
	id      toolcall.ID
	token   pgtype.UUID
	epoch   string
	length  time.Duration
	renewal time.Duration
	sent    time.Time // when it was asked for last: it lasts for its length from then on at least
	cancel  context.CancelCauseFunc
	taken   bool       // from an attempt that was cut off: what that one did is open, whatever this one did
	queued  *pgx.Batch // what the handler left for the end of the call, with its answer

	next time.Time // when to renew it; guarded by leases.mu, like sent
	over *time.Timer
}

// errLeaseGone says that the row is another attempt's by now, or gone.
var errLeaseGone = fmt.Errorf("%w: another attempt has the call, or its record was removed", ErrLeaseLost)

func (s *Store) newLease(id *identity, token pgtype.UUID, sent time.Time) *lease {
	return &lease{id: id.ID, token: token, length: id.policy.Lease, renewal: id.policy.renewal(), sent: sent}
}

// claimLease commits a claim in one round trip: the lock, the read of the record, and the insert of the claim if there is
// none. It returns the lease, or the record that is in its place, or neither where somebody else is at it. expired is
// replaced.
func (s *Store) claimLease(ctx context.Context, id *identity, expired *record) (*lease, *record, error) {
	token := newToken()
	var last error
	// Nothing has happened before, so what fails for reasons of the connection is tried again (R11).
	for more := s.tries(); more > 0; more = min(more, s.tries()) - 1 {
		sent, again := time.Now(), last != nil
		l, rec, err := s.sendLease(ctx, id, token, expired)
		var lost *OutcomeUnknownError
		switch isLost := errors.As(err, &lost); {
		case isLost || err == nil && l == nil && again && (rec == nil || rec.attempt == token): // or the first one came late, and is in the way
			if isLost {
				last = lost.Err
			}
			if l, rec, err = s.foundLease(ctx, id, token); err != nil {
				s.free(ctx, id, s.newLease(id, token, sent)) // it may be there, and nothing was done
				return nil, nil, fmt.Errorf("%w: %w", ErrUnavailable, last)
			}
			if l != nil || rec != nil {
				return l, rec, nil
			}
		case err == nil || !isStale(err):
			return l, rec, err
		default:
			last = err
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, nil, s.explain(ctx, last)
}

func (s *Store) sendLease(ctx context.Context, id *identity, token pgtype.UUID, expired *record) (*lease, *record, error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return nil, nil, s.explain(ctx, err)
	}
	c := newClaim(conn)
	c.token = token
	defer c.giveBack(ctx)
	if err := checkServer(c.db.PgConn().ParameterStatus("server_version")); err != nil {
		return nil, nil, err
	}
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), id.policy.CommitTimeout)
	defer cancel()
	l, v := s.newLease(id, token, c.sent), &verdict{}
	claim := newRecord(id, token, stateRunning, nil)
	b := &pgx.Batch{}
	b.BeginTx(pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite})
	s.queueLock(b, id, c)
	b.Queue(s.sql.read, uuidOf(id), id.policy.InlineAnswer).Query(func(rows pgx.Rows) (err error) {
		c.record, err = readRecord(rows)
		return err
	})
	if expired != nil {
		b.Queue(s.sql.leaseForget, uuidOf(id), expired.attempt, s.lockKey(id))
	}
	b.Queue(s.sql.lease, uuidOf(id), claim.scope, claim.tool, claim.key, claim.fingerprint, claim.canon, claim.fields, token,
		id.policy.Lease.Seconds(), id.keep.Seconds(), id.policy.OnExpired == Refuse, s.lockKey(id)).Query(l.readEpoch)
	v.queueCommit(b)
	results := conn.SendBatch(limited, b)
	c.tx = results.Tx()
	err = results.Close()
	switch {
	case c.status() == txLost, v.committed() && c.synchronous && limited.Err() != nil:
		return nil, nil, &OutcomeUnknownError{ID: id.ID, Tool: id.tool, Err: first(err, limited.Err())}
	case !v.committed() && isStale(err):
		_ = c.db.Close(limited) // never give this one out again
		return nil, nil, err
	case !v.committed():
		return nil, nil, s.explain(ctx, err)
	case l.epoch != "":
		return l, nil, nil
	case c.record != nil && c.synchronous && c.record.state != stateRunning:
		if err := confirm(limited, c.db); err != nil { // over a second connection of the pool, calls would starve each other
			return nil, nil, &OutcomeUnknownError{ID: id.ID, Tool: id.tool, Err: err}
		}
	}
	return nil, c.record, nil
}

// readEpoch reads the row that a claim wrote, if it wrote one.
func (l *lease) readEpoch(rows pgx.Rows) error {
	l.epoch = "" // of an earlier try, whose outcome was lost
	if !rows.Next() {
		return rows.Err()
	}
	var started int64
	err := rows.Scan(&started)
	l.epoch = strconv.FormatInt(started, 10)
	return err
}

// foundLease says what became of a claim whose answer was lost, once it is not being made any more: it is the token's, and
// renewed, or the call has another record, or none.
func (s *Store) foundLease(ctx context.Context, id *identity, token pgtype.UUID) (l *lease, rec *record, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), id.policy.CommitTimeout)
	defer cancel()
	err = s.reserve.With(ctx, func(conn *pgx.Conn) error {
		if rec, err = s.settled(ctx, conn, id); err != nil || rec == nil {
			return err
		}
		if rec.attempt == token {
			mine := s.newLease(id, token, time.Now())
			mine.epoch = rec.epoch
			held, err := s.renew(ctx, conn, []*lease{mine}, true)
			if err != nil {
				return err
			}
			if held[token.String()] {
				l, rec = mine, nil
			}
		}
		return confirm(ctx, conn)
	})
	return l, rec, err
}

// takeLease takes over a lease that has run out. It returns nil if a rival was faster.
func (s *Store) takeLease(ctx context.Context, id *identity, rec *record) (*lease, error) {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), id.policy.CommitTimeout)
	defer cancel()
	l := s.newLease(id, newToken(), time.Now())
	claim := newRecord(id, l.token, stateRunning, nil)
	v, _, err := s.leaseTurn(limited, id, func(b *pgx.Batch) {
		b.Queue(s.sql.takeOver, uuidOf(id), l.token, rec.attempt, claim.fingerprint, claim.canon, claim.fields,
			id.policy.Lease.Seconds(), id.keep.Seconds(), id.policy.OnExpired == Refuse).Query(l.readEpoch)
	})
	switch {
	case err != nil:
		return nil, s.explain(ctx, err)
	case v.committed() && l.epoch != "":
		return l, nil
	case v.found != nil && v.found.attempt == l.token: // the answer of an earlier try was lost
		l.epoch = v.found.epoch
		return l, nil
	}
	return nil, nil
}

// finishLease records the answer, with what the handler queued. Its token fences it, so it may be sent again when its
// answer is lost: it waits for the row, and finds it as it left it or as the first one did.
func (s *Store) finishLease(ctx context.Context, id *identity, l *lease, state string, stored []byte) (*record, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), id.policy.CommitTimeout)
	defer cancel()
	defer id.event.commit(time.Now())
	rec := newRecord(id, l.token, state, stored)
	queued, keep := l.queued, id.keepSeconds()
	if state == stateFailed {
		queued, keep = nil, id.keep.Seconds()
	}
	if queued == nil {
		queued = &pgx.Batch{}
	}
	v, resent, err := s.lastLeaseTurn(ctx, id, func(b *pgx.Batch) {
		requeue(queued, b)
		b.Queue(s.sql.leaseDone, uuidOf(id), l.token, state, stored, keep).QueryRow(func(row pgx.Row) error {
			var finished int64
			err := row.Scan(&finished)
			rec.finishedAt = time.UnixMicro(finished)
			return err
		})
	})
	id.event.Resolved = resent && err == nil
	switch {
	case err == nil && v.committed():
		return rec, nil
	case v.found != nil && v.found.attempt == l.token && v.found.state == state:
		id.event.Resolved = true
		return v.found, nil
	case hasCode(err, codeLeaseLost):
		return nil, errLeaseGone
	}
	return nil, err
}

// lastLeaseTurn is leaseTurn, again where Postgres asks for a repeat (R11): the effect has happened, and its answer is known.
func (s *Store) lastLeaseTurn(ctx context.Context, id *identity, queue func(*pgx.Batch)) (r leaseResult, resent bool, err error) {
	for range id.policy.Attempts {
		var again bool
		r, again, err = s.leaseTurn(ctx, id, queue)
		resent = resent || again
		if !hasCode(err, codeSerialization, codeDeadlock) || ctx.Err() != nil {
			break
		}
	}
	return r, resent, err
}

// leaseResult is what became of a turn of a leased call.
type leaseResult struct {
	verdict
	found *record // read where the turn was sent twice and the second one changed nothing
}

// leaseTurn sends a short transaction, over a connection of the pool, or over a reserved one where the pool is busy or the
// answer was lost: then it is sent for the second time.
func (s *Store) leaseTurn(ctx context.Context, id *identity, queue func(*pgx.Batch)) (r leaseResult, resent bool, err error) {
	soon, cancel := context.WithTimeout(ctx, id.policy.CommitTimeout/2)
	defer cancel()
	conn, err := s.pool.Acquire(soon)
	if err == nil {
		r.verdict, err = s.sendTurn(soon, id, conn.Conn(), queue)
		conn.Release() // drops it where a transaction is open
		var lost *OutcomeUnknownError
		if !errors.As(err, &lost) {
			s.logCallback(ctx, id, &r.verdict)
			return r, false, err
		}
		resent = true
	}
	err = s.reserve.With(ctx, func(conn *pgx.Conn) (err error) {
		if r.verdict, err = s.sendTurn(ctx, id, conn, queue); err != nil && conn.PgConn().TxStatus() != txNone {
			if _, rollbackErr := conn.Exec(ctx, "rollback"); rollbackErr != nil {
				return err
			}
		}
		rows, readErr := conn.Query(ctx, s.sql.read, uuidOf(id), maxAnswer)
		if readErr == nil {
			r.found, readErr = readRecord(rows)
			rows.Close()
		}
		if readErr == nil && r.found != nil && r.found.state != stateRunning {
			readErr = confirm(ctx, conn)
		}
		if readErr != nil { // what no standby has confirmed proves nothing
			r.found = nil
		}
		return first(err, readErr)
	})
	s.logCallback(ctx, id, &r.verdict)
	return r, resent, err
}

// sendTurn sends one transaction. The error is an OutcomeUnknownError where its outcome is not known.
func (s *Store) sendTurn(ctx context.Context, id *identity, conn *pgx.Conn, queue func(*pgx.Batch)) (verdict, error) {
	v, queued, b := verdict{}, &pgx.Batch{}, &pgx.Batch{}
	queue(queued)
	v.watch(queued)
	b.Queue("begin isolation level read committed read write")
	b.Queue(sqlBoundIdle, strconv.FormatInt(id.policy.IdleInTx.Milliseconds(), 10))
	b.QueuedQueries = append(b.QueuedQueries, queued.QueuedQueries...)
	v.queueCommit(b)
	err := conn.SendBatch(ctx, b).Close()
	switch {
	case v.committed() && ctx.Err() == nil:
		return v, nil
	case v.committed(), conn.IsClosed(), isStale(err): // the wait for a standby may have been broken off
		return v, &OutcomeUnknownError{ID: id.ID, Tool: id.tool, Err: first(err, ctx.Err())}
	}
	return v, rowCount(first(err, v.queued))
}

// free removes the claim of an attempt that did nothing.
func (s *Store) free(ctx context.Context, id *identity, l *lease) {
	s.letGo(ctx, id, l, s.sql.leaseFree)
}

// leaveOpen lets the lease run out now, so that the next call need not wait for it.
func (s *Store) leaveOpen(ctx context.Context, id *identity, l *lease) {
	s.letGo(ctx, id, l, s.sql.leaseEnd)
}

// letGo gives the lease up. Where that fails, it runs out by itself.
func (s *Store) letGo(ctx context.Context, id *identity, l *lease, sql string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	s.leases.drop(l)
	soon, stop := context.WithTimeout(ctx, undoTimeout/2)
	defer stop()
	_, err := s.pool.Exec(soon, sql, uuidOf(id), l.token)
	if err != nil { // a busy pool, or a broken connection; the token fences it, so it may be sent again
		err = s.reserve.With(ctx, func(conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, sql, uuidOf(id), l.token)
			return err
		})
	}
	if err != nil {
		s.log.WarnContext(ctx, "txidem: a lease could not be given up; it runs out by itself", "tool", id.tool, "call", id.ID, "lease", l.length, "error", err)
	}
}
