package handlertx

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txonce/txonce/toolcall"
)

var (
	// ErrManaged is returned by Commit and Rollback of the tx, which do nothing else.
	ErrManaged = errors.New("txonce: the handler's tx is ended for it; return nil to commit or an error to roll back")
	// ErrOver is returned by the tx when it is used after [Watch.End]. It has no other effect.
	ErrOver = errors.New("txonce: the handler has returned; its tx cannot be used any more")
)

// New guards tx, which is open on conn and in which Postgres has been idle since the given time at the earliest. It is the
// transaction of the call's, where it is that of one.
func New(call *toolcall.Call, conn *pgx.Conn, tx pgx.Tx, since time.Time) (pgx.Tx, *Watch) {
	w := &Watch{call: call, conn: conn, since: since}
	return &handlerTx{Tx: tx, watch: w}, w
}

// CallOf returns the call that tx commits with, if tx is the one that New made for its handler: what is put on the call's AtFinish
// then has the fate of what is written through tx. Of a savepoint that is not so.
func CallOf(tx pgx.Tx) (*toolcall.Call, bool) {
	if stand, ok := tx.(*StandIn); ok {
		return stand.Call, stand.Call != nil
	}
	guarded, ok := tx.(*handlerTx)
	if !ok || guarded.watch.call == nil {
		return nil, false
	}
	return guarded.watch.call, true
}

// StandIn is the tx of a call that has no database: a test's own, which is ended for the handler as well.
type StandIn struct {
	pgx.Tx
	Call *toolcall.Call
}

// Commit does nothing, and says so.
func (*StandIn) Commit(context.Context) error { return ErrManaged }

// Rollback does nothing, and says so.
func (*StandIn) Rollback(context.Context) error { return ErrManaged }

// handlerTx is the guarded transaction.
type handlerTx struct {
	pgx.Tx
	watch *Watch // not embedded: a handler is not to end it
}

func (tx *handlerTx) Commit(context.Context) error   { return ErrManaged }
func (tx *handlerTx) Rollback(context.Context) error { return ErrManaged }

// savepoint is what Begin of the handler's tx returns. It is the handler's to end, as long as the handler runs.
type savepoint struct{ handlerTx }

func (tx *savepoint) Commit(ctx context.Context) error {
	done, err := tx.watch.use()
	if err != nil {
		return err
	}
	defer done()
	return tx.Tx.Commit(ctx)
}

func (tx *savepoint) Rollback(ctx context.Context) error {
	done, err := tx.watch.use()
	if err != nil {
		return err
	}
	defer done()
	return tx.Tx.Rollback(ctx)
}

func (tx *handlerTx) Begin(ctx context.Context) (pgx.Tx, error) {
	done, err := tx.watch.use()
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
	done, err := tx.watch.use()
	if err != nil {
		return 0, err
	}
	defer done()
	return tx.Tx.CopyFrom(ctx, table, columns, rows)
}

func (tx *handlerTx) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	done, err := tx.watch.use()
	if err != nil {
		return pgx.FailedBatchResults(b, err)
	}
	defer done()
	for _, q := range b.QueuedQueries {
		tx.watch.sends(q.SQL)
	}
	return tx.Tx.SendBatch(ctx, b)
}

func (tx *handlerTx) Prepare(ctx context.Context, name, sql string) (*pgconn.StatementDescription, error) {
	done, err := tx.watch.use()
	if err != nil {
		return nil, err
	}
	defer done()
	return tx.Tx.Prepare(ctx, name, sql)
}

func (tx *handlerTx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	done, err := tx.watch.use()
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	defer done()
	tag, err := tx.Tx.Exec(ctx, sql, args...)
	if EndsTx(tag) {
		tx.watch.ended.Store(true)
	}
	if err != nil { // which hides the tags of what came before it in the same text
		tx.watch.sends(sql)
	}
	return tag, err
}

func (tx *handlerTx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	done, err := tx.watch.use()
	if err != nil {
		return overRow{}, err
	}
	defer done()
	tx.watch.sends(sql)
	return tx.Tx.Query(ctx, sql, args...)
}

func (tx *handlerTx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	done, err := tx.watch.use()
	if err != nil {
		return overRow{}
	}
	defer done()
	tx.watch.sends(sql)
	return tx.Tx.QueryRow(ctx, sql, args...)
}

// EndsTx reports whether a statement with this tag made something durable that a rollback does not undo.
func EndsTx(tag pgconn.CommandTag) bool {
	return tag.String() == "COMMIT" || tag.String() == "PREPARE TRANSACTION"
}

// overRow is what reading returns after the handler has.
type overRow struct{ pgx.Rows }

func (overRow) Scan(...any) error { return ErrOver }
func (overRow) Err() error        { return ErrOver }
func (overRow) Close()            {}
func (overRow) Next() bool        { return false }
