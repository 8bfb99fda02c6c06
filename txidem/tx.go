package txidem

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// handlerTx is the transaction that a handler gets: the real one, which it cannot end and cannot keep. Savepoints
// (Begin) work.
type handlerTx struct {
	pgx.Tx
	over atomic.Bool // the handler has returned
	idle idleTime
}

// use is asked in front of each statement; its result is called behind it.
func (tx *handlerTx) use() (done func(), err error) {
	if tx.over.Load() {
		return nil, ErrTxOver
	}
	tx.idle.end()
	return tx.idle.start, nil
}

// idleTime is the longest time between two statements. Postgres says why it cut a connection only to those who happen
// to be reading; this tells the others.
type idleTime struct{ since, longest atomic.Int64 }

func (i *idleTime) start() { i.since.Store(time.Now().UnixNano()) }

func (i *idleTime) end() {
	if since := i.since.Load(); since > 0 {
		i.longest.Store(max(i.longest.Load(), time.Now().UnixNano()-since))
	}
}

func (tx *handlerTx) Commit(context.Context) error   { return ErrTxManaged }
func (tx *handlerTx) Rollback(context.Context) error { return ErrTxManaged }

func (tx *handlerTx) Begin(ctx context.Context) (pgx.Tx, error) {
	done, err := tx.use()
	if err != nil {
		return nil, err
	}
	defer done()
	return tx.Tx.Begin(ctx)
}

func (tx *handlerTx) CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, rows pgx.CopyFromSource) (int64, error) {
	done, err := tx.use()
	if err != nil {
		return 0, err
	}
	defer done()
	return tx.Tx.CopyFrom(ctx, table, columns, rows)
}

func (tx *handlerTx) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	done, err := tx.use()
	if err != nil {
		return pgx.FailedBatchResults(b, err)
	}
	defer done()
	return tx.Tx.SendBatch(ctx, b)
}

func (tx *handlerTx) Prepare(ctx context.Context, name, sql string) (*pgconn.StatementDescription, error) {
	done, err := tx.use()
	if err != nil {
		return nil, err
	}
	defer done()
	return tx.Tx.Prepare(ctx, name, sql)
}

func (tx *handlerTx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	done, err := tx.use()
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	defer done()
	return tx.Tx.Exec(ctx, sql, args...)
}

func (tx *handlerTx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	done, err := tx.use()
	if err != nil {
		return overRow{}, err
	}
	defer done()
	return tx.Tx.Query(ctx, sql, args...)
}

func (tx *handlerTx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	done, err := tx.use()
	if err != nil {
		return overRow{}
	}
	defer done()
	return tx.Tx.QueryRow(ctx, sql, args...)
}

// overRow is what reading returns after the handler has.
type overRow struct{ pgx.Rows }

func (overRow) Scan(...any) error { return ErrTxOver }
func (overRow) Err() error        { return ErrTxOver }
func (overRow) Close()            {}
func (overRow) Next() bool        { return false }
