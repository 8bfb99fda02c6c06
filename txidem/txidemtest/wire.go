package txidemtest

import (
	"context"
	"io"
	"net"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/txonce/txonce/internal/pgturns"
)

// wire is a connection that is broken where the stage says.
type wire struct {
	net.Conn
	stage   *stage
	scanner pgturns.Scanner

	ready             bool // it is made, and what its user does is part of a call
	claimed, recorded bool // the stage's: it has an open claim, and the record is written

	gone    atomic.Bool           // it was cut
	pending atomic.Pointer[order] // what happens when the answer comes
}

// afterNetConnect puts a wire around a new connection, inside of its TLS.
func (s *stage) afterNetConnect(next func(context.Context, *pgconn.Config, net.Conn) (net.Conn, error)) func(context.Context, *pgconn.Config, net.Conn) (net.Conn, error) {
	return func(ctx context.Context, cfg *pgconn.Config, conn net.Conn) (net.Conn, error) {
		if next != nil {
			var err error
			if conn, err = next(ctx, cfg, conn); err != nil {
				return conn, err
			}
		}
		return &wire{Conn: conn, stage: s}, nil
	}
}

// Write passes a turn on, or what the point leaves of it. A write to a connection that was cut seems to succeed, as one
// does that ends in the system's buffer.
func (w *wire) Write(b []byte) (int, error) {
	t := w.scanner.Turn(b)
	if !w.ready || !t.Executes() {
		return w.Conn.Write(b)
	}
	o := w.stage.turn(w, seenTurn{Turn: t})
	if o == nil {
		return w.Conn.Write(b)
	}
	switch o.Place {
	case before:
		return w.writeAt(o, b, 0)
	case partly:
		return w.writeAt(o, b, t.CommitAt)
	case inside:
		return w.writeAt(o, b, len(b))
	}
	w.pending.Store(o) // in front of the write: the answer may be quick
	return w.Conn.Write(b)
}

// writeAt makes the fault happen behind the first at bytes.
func (w *wire) writeAt(o *order, b []byte, at int) (int, error) {
	if o.Fault == refused {
		o.strike()
		if _, err := w.Conn.Write(refusal(b, o.Code)); err != nil {
			return 0, err
		}
		return len(b), nil
	}
	if n, err := w.Conn.Write(b[:at]); err != nil {
		return n, err
	}
	if o.strike() {
		w.cut()
		return len(b), nil
	}
	n, err := w.Conn.Write(b[at:])
	return at + n, err
}

// Read passes on what Postgres says.
func (w *wire) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	if n > 0 {
		if o := w.pending.Swap(nil); o != nil && o.strike() {
			w.cut()
		}
	}
	if w.gone.Load() {
		return 0, io.EOF
	}
	return n, err
}

func (w *wire) cut() {
	w.gone.Store(true)
	_ = w.Conn.Close()
}

// refusal returns what Postgres gets in place of a turn, so that it answers it with an error as if it came from there. It
// executes a statement that was prepared when the connection was made.
func refusal(turn []byte, code string) []byte {
	var refusal []byte
	if len(turn) > 0 && turn[0] == 'Q' {
		return must((&pgproto3.Query{String: refusalSQL(code)}).Encode(nil))
	}
	refusal = must((&pgproto3.Bind{PreparedStatement: refusalName(code)}).Encode(refusal))
	refusal = must((&pgproto3.Execute{}).Encode(refusal))
	return must((&pgproto3.Sync{}).Encode(refusal))
}

// must returns the encoding of a small message, which does not fail.
func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}

func refusalName(code string) string { return "txidemtest_refusal_" + code }

func refusalSQL(code string) string {
	return "do $$ begin raise exception 'refused by txidemtest' using errcode = '" + code + "'; end $$"
}

// getReady makes a new connection ready: it prepares what refusal executes. What was done to set it up before is no part of a
// call.
func getReady(ctx context.Context, conn *pgx.Conn) error {
	for _, code := range []string{codeSerialization, codeDiskFull} {
		if _, err := conn.PgConn().Prepare(ctx, refusalName(code), refusalSQL(code), nil); err != nil {
			return err
		}
	}
	if w, ok := conn.PgConn().Conn().(*wire); ok {
		w.ready = true
	}
	return nil
}
