package outbox

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/internal/handlertx"
)

// tellAlways calls OnOutcome for messages that have ended, until ctx ends.
func (r *relay) tellAlways(ctx context.Context) {
	var names []string
	for _, name := range r.Outbox.names {
		if r.destinations[name].OnOutcome != nil {
			names = append(names, name)
		}
	}
	for names != nil && ctx.Err() == nil {
		found, err := r.tellOne(ctx, names)
		if err != nil && ctx.Err() == nil {
			r.log.WarnContext(ctx, "outbox: outcomes could not be told of; trying again", "error", err)
			sleep(ctx, time.Second)
		}
		if !found {
			r.awaitOutcome(ctx)
		}
	}
}

// awaitOutcome waits until there may be an outcome to tell of.
func (r *relay) awaitOutcome(ctx context.Context) {
	timer := time.NewTimer(5 * r.cfg.Poll)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-r.told:
	}
}

// tellOne tells of one outcome. When that fails, it is told again later.
func (r *relay) tellOne(ctx context.Context, names []string) (found bool, err error) {
	var fate Fate
	var tellings int
	err = r.tellInTx(ctx, names, &fate, &tellings)
	switch {
	case err == nil:
		return !fate.ID.IsZero(), nil
	case fate.ID.IsZero():
		return false, explain(ctx, err)
	}
	r.log.WarnContext(ctx, "outbox: OnOutcome failed; it is called again, unless it has committed", "destination", fate.Destination, "message", fate.ID, "state", fate.State, "error", err)
	wait := min(time.Second<<min(tellings, 10), 10*time.Minute)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), margin)
	defer cancel()
	_, err = r.exec(ctx, r.sql.tellAgain, uuidOf(fate.ID), wait.Seconds())
	return true, explain(ctx, err)
}

// tellInTx reads an outcome, if there is one, and tells of it in the transaction in which it is noted that it was told (O11).
func (r *relay) tellInTx(ctx context.Context, names []string, fate *Fate, tellings *int) error {
	conn, err := r.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer release(ctx, conn)
	tx, err := conn.BeginTx(ctx, readCommitted)
	if err != nil {
		return err
	}
	var read Fate
	if err := read.scan(tx.QueryRow(ctx, r.sql.toTell, names), nil, tellings, new(string)); err != nil {
		if errors.Is(err, pgx.ErrNoRows) {
			err = nil
		}
		return err
	}
	*fate = read
	return r.call(ctx, conn, tx, read)
}

// errEscaped says that OnOutcome ended its transaction. If that committed, it committed the note that it was told.
var errEscaped = errors.New("outbox: OnOutcome ended its transaction by SQL; return nil to commit or an error to roll back")

// call calls OnOutcome and commits.
func (r *relay) call(ctx context.Context, conn *pgxpool.Conn, tx pgx.Tx, fate Fate) error {
	guarded, watch := handlertx.New(nil, conn.Conn(), tx, time.Now())
	err := apart(func() error {
		defer watch.End()
		return r.destinations[fate.Destination].OnOutcome(ctx, guarded, fate)
	})
	if watch.Ended() || !conn.Conn().IsClosed() && conn.Conn().PgConn().TxStatus() == 'I' {
		return errors.Join(errEscaped, err)
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), margin)
	defer cancel()
	b := &pgx.Batch{}
	b.Queue(sqlStill, fate.ID.String())
	b.Queue("commit")
	if err = conn.SendBatch(ctx, b).Close(); hasCode(err, "22012") {
		err = errors.Join(errEscaped, err)
	}
	return err
}

// apart calls one of the user's functions. A panic and the end of its goroutine become errors.
func apart(call func() error) error {
	done := make(chan error, 1)
	go func() {
		err := errors.New("outbox: OnOutcome ended its goroutine")
		defer func() {
			if v := recover(); v != nil {
				err = fmt.Errorf("outbox: OnOutcome panicked: %v\n%s", v, debug.Stack())
			}
			done <- err
		}()
		err = call()
	}()
	return <-done
}

// release rolls back what is open and gives the connection back.
func release(ctx context.Context, conn *pgxpool.Conn) {
	if !conn.Conn().IsClosed() && conn.Conn().PgConn().TxStatus() != 'I' {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), margin/2)
		defer cancel()
		if _, err := conn.Exec(ctx, "rollback"); err != nil {
			_ = conn.Conn().Close(ctx) // never give this one out again
		}
	}
	conn.Release()
}
