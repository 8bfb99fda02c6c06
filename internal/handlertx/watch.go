package handlertx

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/internal/sqltext"
	"github.com/txonce/txonce/toolcall"
)

// none is the state of a connection without a transaction, in the protocol.
const none = 'I'

// Watch is what a handler's tx and its savepoints have in common.
type Watch struct {
	call *toolcall.Call // nil where there is none
	conn *pgx.Conn

	using sync.RWMutex // held for reading by each statement that is being sent
	over  bool         // the handler has returned

	ended atomic.Bool // a statement ended the transaction
	since time.Time   // end of the last statement
	idle  time.Duration
	times sync.Mutex
}

// use is asked in front of each statement; its result is called behind it. It never waits: where the handler has returned, what
// comes is too late.
func (w *Watch) use() (done func(), err error) {
	if !w.using.TryRLock() {
		return nil, ErrOver
	}
	if w.over {
		w.using.RUnlock()
		return nil, ErrOver
	}
	w.rest()
	return w.used, nil
}

func (w *Watch) used() {
	defer w.using.RUnlock()
	w.times.Lock()
	w.since = time.Now()
	w.times.Unlock()
	if !w.conn.IsClosed() && w.conn.PgConn().TxStatus() == none {
		w.ended.Store(true)
	}
}

// rest measures the time since the last statement. Postgres says why it cut a connection only to those who happen to be
// reading; the longest rest tells the others.
func (w *Watch) rest() {
	w.times.Lock()
	defer w.times.Unlock()
	w.idle = max(w.idle, time.Since(w.since))
}

// End makes the tx useless. It waits for a statement that a goroutine of the handler's is sending.
func (w *Watch) End() {
	w.using.Lock()
	w.over = true
	w.using.Unlock()
	w.rest()
}

// sends looks at a statement whose tag will not be seen. One that commits counts as done, whatever becomes of it: an error
// that comes behind it would hide it, for an aborted transaction cannot be asked whose it is.
func (w *Watch) sends(sql string) {
	for _, one := range sqltext.Statements(sql) {
		verb, object := sqltext.Leading(one)
		if verb == "commit" && object != "prepared" || verb == "end" || verb == "prepare" && object == "transaction" {
			w.ended.Store(true)
		}
	}
}

// Ended reports whether a statement was seen that ended the transaction. Some are not: where "commit; begin" is one text, or a
// rollback is sent by Query and a BEGIN follows, another transaction is open by now. What is written at the end must ask for
// something that only the first one can show, such as a setting that is local to it.
func (w *Watch) Ended() bool { return w.ended.Load() }

// Idle is the longest time that passed without a statement.
func (w *Watch) Idle() time.Duration {
	w.times.Lock()
	defer w.times.Unlock()
	return w.idle
}
