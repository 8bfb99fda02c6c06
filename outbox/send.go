package outbox

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// readCommitted is how everything here is read and written, whatever the default isolation is: what somebody else has is skipped and no
// error, and transactions of users that are serializable do not meet those that look at the backlog (R11).
var readCommitted = pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite}

const (
	sqlBeginWrite = "begin isolation level read committed read write"
	sqlBeginRead  = "begin isolation level read committed read only"
)

// sqlByIndex has Postgres read the backlog by its indexes, in their order. The table is empty at one moment and long at the next: a plan
// made by what the statistics said in between would read all of it for each key (O10).
const sqlByIndex = `select set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true), set_config('enable_sort', 'off', true)`

// send sends statements in one round trip and one transaction.
func (o *Outbox) send(ctx context.Context, begin string, b *pgx.Batch) error {
	all := &pgx.Batch{}
	all.Queue(begin)
	if begin == sqlBeginWrite {
		all.Queue(sqlByIndex)
	}
	all.QueuedQueries = append(all.QueuedQueries, b.QueuedQueries...)
	all.Queue("commit")
	return o.pool.SendBatch(ctx, all).Close()
}

// exec sends one statement that writes.
func (o *Outbox) exec(ctx context.Context, sql string, args ...any) (tag pgconn.CommandTag, err error) {
	b := &pgx.Batch{}
	b.Queue(sql, args...).Exec(func(got pgconn.CommandTag) error {
		tag = got
		return nil
	})
	return tag, o.send(ctx, sqlBeginWrite, b)
}

// read sends one statement that reads.
func (o *Outbox) read(ctx context.Context, fn func(pgx.Rows) error, sql string, args ...any) error {
	b := &pgx.Batch{}
	b.Queue(sql, args...).Query(fn)
	return o.send(ctx, sqlBeginRead, b)
}
