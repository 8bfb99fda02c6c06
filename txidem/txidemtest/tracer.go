package txidemtest

import (
	"context"
	"runtime"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// planted is what a handler is made to panic with.
type planted struct{ point point }

func (p planted) String() string { return "planted by txidemtest: " + p.point.name }

// tracer makes handlers panic. pgx calls it on the goroutine that runs the statement, when nothing is under way: a panic
// there leaves pgx as one in the handler's own next line does.
type tracer struct{ stage *stage }

type statementNumber struct{}

func (t *tracer) begin(ctx context.Context, conn *pgx.Conn, sql ...string) context.Context {
	w, ok := conn.PgConn().Conn().(*wire)
	if !ok || !t.stage.inHandler(w) || !inCall() {
		return ctx
	}
	for _, s := range sql {
		if isControl(s) || strings.Contains(s, "txonce.attempt") { // it is the library's
			return ctx
		}
	}
	number := t.stage.statement()
	t.panic(number, before)
	return context.WithValue(ctx, statementNumber{}, number)
}

func (t *tracer) end(ctx context.Context) {
	if number, ok := ctx.Value(statementNumber{}).(int); ok && inCall() {
		t.stage.statementEnded(number)
		t.panic(number, after)
	}
}

func (t *tracer) panic(number int, at place) {
	if o := t.stage.panics(number, at); o != nil && !o.hit() {
		o.strike()
		panic(planted{o.point})
	}
}

// TraceQueryStart is of pgx.QueryTracer.
func (t *tracer) TraceQueryStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	return t.begin(ctx, conn, data.SQL)
}

// TraceQueryEnd is of pgx.QueryTracer.
func (t *tracer) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryEndData) { t.end(ctx) }

// TraceBatchStart is of pgx.BatchTracer.
func (t *tracer) TraceBatchStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	var sql []string
	for _, q := range data.Batch.QueuedQueries {
		sql = append(sql, q.SQL)
	}
	return t.begin(ctx, conn, sql...)
}

// TraceBatchQuery is of pgx.BatchTracer.
func (t *tracer) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

// TraceBatchEnd is of pgx.BatchTracer. pgx calls it in the middle of closing a batch, which is no place for a panic.
func (t *tracer) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// TraceCopyFromStart is of pgx.CopyFromTracer.
func (t *tracer) TraceCopyFromStart(ctx context.Context, conn *pgx.Conn, _ pgx.TraceCopyFromStartData) context.Context {
	return t.begin(ctx, conn)
}

// TraceCopyFromEnd is of pgx.CopyFromTracer.
func (t *tracer) TraceCopyFromEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceCopyFromEndData) {
	t.end(ctx)
}

// What stands on the stack between a statement of a handler and the handler.
var between = [...]string{
	"github.com/txonce/txonce/txidem/txidemtest.(*tracer).", "github.com/txonce/txonce/txidem.(*handlerTx).",
	"github.com/txonce/txonce/txidem.(*savepoint).", "github.com/jackc/pgx/v5", "runtime.",
}

const core = "github.com/txonce/txonce/txidem."

// inCall reports whether a handler runs the statement, on the goroutine in which txidem called it, where a panic is caught.
func inCall() bool {
	callers := make([]uintptr, 128)
	frames := runtime.CallersFrames(callers[:runtime.Callers(2, callers)])
	user := false
	for {
		frame, more := frames.Next()
		switch is := func(prefix string) bool { return strings.HasPrefix(frame.Function, prefix) }; {
		case slices.ContainsFunc(between[:], is):
		case is(core):
			return user
		default:
			user = true
		}
		if !more {
			return false
		}
	}
}
