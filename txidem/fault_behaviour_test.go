package txidem

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"

	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/internal/faultconn"
)

// behaviour is what a handler of the model test does after it has written its effect, and what becomes of the call when
// nothing is recorded for it.
type behaviour struct {
	name string
	end  ending
	runs int // of the handler, in one call

	// do is what the n-th run does.
	do func(r *handlerRun, n int) error
}

// GoString is what rapid prints.
func (b behaviour) GoString() string { return b.name }

// ending is how a call ends.
type ending int

const (
	answered          ending = iota // with the last run's answer, which is recorded
	failed                          // with the last run's failure, which is recorded
	released                        // with an error, and nothing is left
	escaped                         // with a failure that is recorded, and with the effect
	escapedEmpty                    // with a failure that is recorded, and without the effect
	escapedUnrecorded               // with an error, and with the effect, of which nothing could be recorded
	unknownAnswered                 // with an unknown outcome, and in truth with the answer
	unknownGone                     // with an unknown outcome, and in truth with nothing
	ruined                          // RunTx: as released, and the caller's transaction is of no more use
	refused                         // RunBatch: with an error, whatever is recorded
	open                            // RunLeased: with an error, and it is open whether there was an effect
)

// handlerRun is one run of a handler.
type handlerRun struct {
	ctx    context.Context
	cancel context.CancelFunc // the caller's
	net    *network
	run    int

	tx    pgx.Tx               // of Run and RunTx
	batch *Batch               // of RunBatch
	pay   func() error         // tells the provider, once in a run, in RunLeased
	queue func(q string) error // what RunLeased commits with the answer
}

// network is what the wires of a test do.
type network struct {
	gone atomic.Bool                     // the database, for new connections
	next atomic.Pointer[faultconn.Fault] // for the connection that the pool gives out next
}

// fault arms f if this is the call's first run: for its connection or, where it has none yet, for the one that it gets next.
func (r *handlerRun) fault(n int, f faultconn.Fault) {
	switch {
	case n != 1:
	case r.tx != nil:
		wireOf(r.tx).Arm(f)
	default:
		r.net.next.Store(&f)
	}
}

func (r *handlerRun) exec(sql string) error {
	_, err := r.tx.Exec(r.ctx, sql)
	return err
}

var errHandler = errors.New("the printer is on fire")

// behaviours are what handlers of Run, callers and networks do.
var behaviours = []behaviour{
	{"answers", answered, 1, func(*handlerRun, int) error { return nil }},
	{"fails", failed, 1, func(r *handlerRun, _ int) error { return Fail("no", strconv.Itoa(r.run)) }},
	{"errs", released, 1, func(*handlerRun, int) error { return errHandler }},
	{"panics", released, 1, func(*handlerRun, int) error { panic(errHandler) }},
	{"swallows an error of SQL", released, 1, func(r *handlerRun, _ int) error { _ = r.exec(`select 1/0`); return nil }},
	{"fails after an error of SQL", failed, 1, func(r *handlerRun, _ int) error {
		_ = r.exec(`select 1/0`)
		return Fail("no", strconv.Itoa(r.run))
	}},
	{"is asked to repeat", answered, 2, func(r *handlerRun, n int) error {
		if n == 1 {
			return r.exec(`do $$ begin raise sqlstate '40001'; end $$`)
		}
		return nil
	}},
	{"ends its transaction", escaped, 1, func(r *handlerRun, _ int) error { return r.exec(`commit`) }},
	{"ends its transaction by ROLLBACK", escapedEmpty, 1, func(r *handlerRun, _ int) error { return r.exec(`rollback`) }},
	{"ends its transaction and is cut", escaped, 1, func(r *handlerRun, n int) error {
		err := r.exec(`commit`)
		r.fault(n, atFinish(faultconn.Nothing, faultconn.Cut))
		return err
	}},
	{"ends its transaction, errs and is cut", escaped, 1, func(r *handlerRun, n int) error {
		_ = r.exec(`commit`)
		r.fault(n, atFinish(nil, faultconn.CutAtAnswer))
		return errHandler
	}},
	{"ends its transaction and is cut for good", escapedUnrecorded, 1, func(r *handlerRun, n int) error {
		err := r.exec(`commit`)
		r.fault(n, atFinish(faultconn.Nothing, faultconn.Cut))
		r.net.gone.Store(true)
		return err
	}},
	{"is cancelled", released, 1, func(r *handlerRun, _ int) error { r.cancel(); return r.exec(`select 1`) }},
	{"is cancelled when it is done", answered, 1, func(r *handlerRun, _ int) error { r.cancel(); return nil }},
	{"loses its connection", released, 1, func(r *handlerRun, _ int) error { wireOf(r.tx).Cut(); return r.exec(`select 1`) }},
	{"loses its connection unawares", answered, 2, func(r *handlerRun, n int) error {
		if n == 1 {
			wireOf(r.tx).Cut()
		}
		return nil
	}},
	{"loses its connection and is cancelled", released, 1, func(r *handlerRun, _ int) error {
		wireOf(r.tx).Cut()
		r.cancel()
		return nil
	}},
	{"is cut in front of the record", answered, 2, func(r *handlerRun, n int) error {
		r.fault(n, atFinish(faultconn.Nothing, faultconn.Cut))
		return nil
	}},
	{"is cut in front of COMMIT", answered, 2, func(r *handlerRun, n int) error {
		r.fault(n, atFinish(faultconn.AllBut(2), faultconn.Cut))
		return nil
	}},
	{"is cut behind COMMIT", answered, 1, func(r *handlerRun, n int) error {
		r.fault(n, atFinish(beforeSync, faultconn.Cut))
		return nil
	}},
	{"loses the answer of COMMIT", answered, 1, func(r *handlerRun, n int) error {
		r.fault(n, atFinish(nil, faultconn.CutAtAnswer))
		return nil
	}},
	{"fails and is cut in front of the record", failed, 2, func(r *handlerRun, n int) error {
		r.fault(n, atFinish(faultconn.Nothing, faultconn.Cut))
		return Fail("no", strconv.Itoa(r.run))
	}},
	{"fails and loses the answer of COMMIT", failed, 1, func(r *handlerRun, n int) error {
		r.fault(n, atFinish(nil, faultconn.CutAtAnswer))
		return Fail("no", strconv.Itoa(r.run))
	}},
	{"is cut in front of the record for good", unknownGone, 1, func(r *handlerRun, n int) error {
		r.fault(n, atFinish(faultconn.Nothing, faultconn.Cut))
		r.net.gone.Store(true)
		return nil
	}},
	{"loses the answer of COMMIT for good", unknownAnswered, 1, func(r *handlerRun, n int) error {
		r.fault(n, atFinish(nil, faultconn.CutAtAnswer))
		r.net.gone.Store(true)
		return nil
	}},
}
