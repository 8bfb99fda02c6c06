package txidem

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/internal/sqltext"
	"github.com/txonce/txonce/toolcall"
)

// Batch is what a handler of [RunBatch] writes to: statements that run in the order in which they are queued. It is of no
// use after the handler has returned, and not safe for use by several goroutines.
type Batch struct {
	store  *Store
	queued pgx.Batch
	err    error
	over   bool
	held   bool // the handler had the call's record held
}

// Queue queues one SQL statement. Its result is not read: what it returns is lost, and its error fails the call. Statements
// that begin or end a transaction, and several in one text, are refused with ErrBatchSQL, by RunBatch.
func (b *Batch) Queue(sql string, args ...any) {
	if b.accepts(sql) {
		b.queued.Queue(sql, args...)
	}
}

// MustAffect queues an INSERT, UPDATE or DELETE (from PostgreSQL 17 on also a MERGE) that must change exactly the given number of
// rows: with another number the call fails with ErrRowCount, and nothing that was queued has an effect. The statement has no
// RETURNING, writes in no WITH of its own, and its table has no rules: it becomes part of another one.
func (b *Batch) MustAffect(rows int64, sql string, args ...any) {
	if !b.accepts(sql) {
		return
	}
	one := strings.TrimSpace(sqltext.Statements(sql)[0])
	b.queued.Queue(strings.NewReplacer("{sql}", one, "{want}", strconv.FormatInt(rows, 10)).Replace(b.store.sql.mustAffect), args...)
}

// accepts checks a statement before it is queued. The first one that cannot be is what RunBatch returns.
func (b *Batch) accepts(sql string) bool {
	switch {
	case b.err != nil:
	case b.over:
		b.err = fmt.Errorf("%w: the handler has returned", ErrBatchSQL)
	default:
		b.err = refusal(sql)
	}
	return b.err == nil
}

// finish takes what the handler left for the end of its call. The record stands in front of it, so it must not end the
// transaction either: what is told of a batch is what its last statement, our COMMIT, says.
func (b *Batch) finish(call *toolcall.Call) error {
	call.Finish(&b.queued)
	return refuse(&b.queued)
}

// refuse returns an error if a statement cannot be part of the batch, and sees to it that none is made into one later.
func refuse(b *pgx.Batch) error {
	for _, q := range b.QueuedQueries {
		if err := refusal(q.SQL); err != nil {
			return err
		}
		if len(q.Arguments) == 0 {
			continue
		}
		switch rewriter := q.Arguments[0].(type) {
		case pgx.NamedArgs, pgx.StrictNamedArgs: // replace names by numbers, nothing else
		case pgx.QueryRewriter:
			q.Arguments = append([]any{watchedRewriter{rewriter}}, q.Arguments[1:]...)
		}
	}
	return nil
}

// watchedRewriter refuses what a rewriter of the user's makes of a statement, as if that had been queued.
type watchedRewriter struct{ pgx.QueryRewriter }

func (w watchedRewriter) RewriteQuery(ctx context.Context, conn *pgx.Conn, sql string, args []any) (string, []any, error) {
	sql, args, err := w.QueryRewriter.RewriteQuery(ctx, conn, sql, args)
	if err == nil {
		err = refusal(sql)
	}
	return sql, args, err
}

// refusal says why a statement cannot be part of a batch.
func refusal(sql string) error {
	switch statements := sqltext.Statements(sql); {
	case len(statements) != 1:
		return fmt.Errorf("%w: queue one statement at a time, not %d: %.100q", ErrBatchSQL, len(statements), sql)
	case endsOrBegins(statements[0]):
		return fmt.Errorf("%w: the transaction begins and ends with the call: %.100q", ErrBatchSQL, sql)
	}
	return nil
}

// endsOrBegins reports whether the statement controls the transaction around it, or needs a dialogue.
func endsOrBegins(sql string) bool {
	verb, _ := sqltext.Leading(sql)
	switch verb {
	case "begin", "start", "commit", "end", "rollback", "abort", "savepoint", "release", "prepare", "copy":
		return true
	}
	return false
}

// queueOn queues what the handler queued, with results of its own: a batch is sent once, and a call may need it again.
func (b *Batch) queueOn(to *pgx.Batch) {
	requeue(&b.queued, to)
}

// requeue queues the same statements once more.
func requeue(from, to *pgx.Batch) {
	for _, q := range from.QueuedQueries {
		to.Queue(q.SQL, q.Arguments...).Fn = q.Fn
	}
}

// handler is what sends the batch where the call needs more than one round trip after all: in its last one.
func (b *Batch) handler(answer []byte, err error) handler {
	return func(ctx context.Context, _ pgx.Tx) ([]byte, error) {
		if err != nil {
			return nil, err
		}
		call, _ := toolcall.FromContext(ctx)
		if b.held {
			if err := call.Hold(); err != nil {
				return nil, err
			}
		}
		return answer, call.AtFinish(b.queueOn)
	}
}
