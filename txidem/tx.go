package txidem

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txonce/txonce/internal/sqltext"
)

// handlerTx is the transaction that a handler gets: the real one, which Run ends and which is of no use afterwards. What
// Conn and LargeObjects return is the connection itself; nothing here can take that away again.
type handlerTx struct {
	pgx.Tx
	*watch
}

func (tx *handlerTx) Commit(context.Context) error   { return ErrTxManaged }
func (tx *handlerTx) Rollback(context.Context) error { return ErrTxManaged }

// savepoint is what Begin of the handler's tx returns. It is the handler's to end, as long as the call runs.
type savepoint struct{ handlerTx }

func (tx *savepoint) Commit(ctx context.Context) error {
	done, err := tx.use()
	if err != nil {
		return err
	}
	defer done()
	return tx.Tx.Commit(ctx)
}

func (tx *savepoint) Rollback(ctx context.Context) error {
	done, err := tx.use()
	if err != nil {
		return err
	}
	defer done()
	return tx.Tx.Rollback(ctx)
}

func (tx *handlerTx) Begin(ctx context.Context) (pgx.Tx, error) {
	done, err := tx.use()
	if err != nil {
		return nil, err
	}
	defer done()
	inner, err := tx.Tx.Begin(ctx)
	if err != nil {
		return nil, err
	}
	return &savepoint{handlerTx{Tx: inner, watch: tx.watch}}, nil
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
	for _, q := range b.QueuedQueries {
		tx.sends(q.SQL)
	}
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
	tag, err := tx.Tx.Exec(ctx, sql, args...)
	if endsTx(tag) {
		tx.ended.Store(true)
	}
	return tag, err
}

func (tx *handlerTx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	done, err := tx.use()
	if err != nil {
		return overRow{}, err
	}
	defer done()
	tx.sends(sql)
	return tx.Tx.Query(ctx, sql, args...)
}

func (tx *handlerTx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	done, err := tx.use()
	if err != nil {
		return overRow{}
	}
	defer done()
	tx.sends(sql)
	return tx.Tx.QueryRow(ctx, sql, args...)
}

// endsTx reports whether a statement with this tag made something durable that a rollback does not undo.
func endsTx(tag pgconn.CommandTag) bool {
	return tag.String() == "COMMIT" || tag.String() == "PREPARE TRANSACTION"
}

// sends looks at a statement whose tag will not be seen. One that commits counts as done, whatever becomes of it: an error
// that comes behind it would hide it, for an aborted transaction cannot be asked whose it is.
func (w *watch) sends(sql string) {
	for _, one := range sqltext.Statements(sql) {
		verb, object := sqltext.Leading(one)
		if verb == "commit" && object != "prepared" || verb == "end" || verb == "prepare" && object == "transaction" {
			w.ended.Store(true)
		}
	}
}

// overRow is what reading returns after the handler has.
type overRow struct{ pgx.Rows }

func (overRow) Scan(...any) error { return ErrTxOver }
func (overRow) Err() error        { return ErrTxOver }
func (overRow) Close()            {}
func (overRow) Next() bool        { return false }

// watch is what a handler's tx and its savepoints have in common.
type watch struct {
	conn *pgx.Conn

	using sync.RWMutex // held for reading by each statement that is being sent
	over  bool         // the handler has returned

	ended atomic.Bool // a statement ended the transaction
	since time.Time   // end of the last statement
	idle  time.Duration
	times sync.Mutex
}

// newWatch begins to watch a transaction that Postgres has been idle in since the given time at the earliest.
func newWatch(conn *pgx.Conn, since time.Time) *watch { return &watch{conn: conn, since: since} }

// use is asked in front of each statement; its result is called behind it. It never waits: where the call is ending, what
// comes is too late.
func (w *watch) use() (done func(), err error) {
	if !w.using.TryRLock() {
		return nil, ErrTxOver
	}
	if w.over {
		w.using.RUnlock()
		return nil, ErrTxOver
	}
	w.rest()
	return w.used, nil
}

func (w *watch) used() {
	defer w.using.RUnlock()
	w.times.Lock()
	w.since = time.Now()
	w.times.Unlock()
	if !w.conn.IsClosed() && w.conn.PgConn().TxStatus() == txNone {
		w.ended.Store(true)
	}
}

// rest measures the time since the last statement. Postgres says why it cut a connection only to those who happen to be
// reading; the longest rest tells the others.
func (w *watch) rest() {
	w.times.Lock()
	defer w.times.Unlock()
	w.idle = max(w.idle, time.Since(w.since))
}

// end makes the tx useless. It waits for a statement that a goroutine of the handler's is sending.
func (w *watch) end() {
	w.using.Lock()
	w.over = true
	w.using.Unlock()
	w.rest()
}
