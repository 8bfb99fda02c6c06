package txidem

import (
	"context"
	"errors"
	"strconv"

	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"github.com/txonce/txonce/internal/faultconn"
)

// callerEnd is what the caller of RunTx does with its transaction, where that is still open.
type callerEnd int

const (
	commits      callerEnd = iota
	rollsBack              // nothing is left
	losesCommit            // its COMMIT does not arrive
	losesAnswer            // the answer of its COMMIT is lost
	callerOfNone           // does not count: the call was to be the end of it
)

// callerEnds are drawn from; most callers commit.
var callerEnds = []callerEnd{commits, commits, commits, commits, rollsBack, losesCommit, losesAnswer}

// around names the effects that the callers of RunTx write for themselves.
const around = " (around)"

// txBehaviours are what handlers of RunTx do. Nothing is repeated there, and a cut in front of the caller's COMMIT leaves nothing.
var txBehaviours = []behaviour{
	{"answers", answered, 1, func(*handlerRun, int) error { return nil }},
	{"fails", failed, 1, func(r *handlerRun, _ int) error { return Fail("no", strconv.Itoa(r.run)) }},
	{"errs", released, 1, func(*handlerRun, int) error { return errHandler }},
	{"panics", released, 1, func(*handlerRun, int) error { panic(errHandler) }},
	{"swallows an error of SQL", released, 1, func(r *handlerRun, _ int) error { _ = r.exec(`select 1/0`); return nil }},
	{"fails after an error of SQL", failed, 1, func(r *handlerRun, _ int) error {
		_ = r.exec(`select 1/0`)
		return Fail("no", strconv.Itoa(r.run))
	}},
	{"is asked to repeat", released, 1, func(r *handlerRun, _ int) error {
		return r.exec(`do $$ begin raise sqlstate '40001'; end $$`)
	}},
	{"ends its transaction", escaped, 1, func(r *handlerRun, _ int) error { return r.exec(`commit`) }},
	{"ends its transaction and errs", escaped, 1, func(r *handlerRun, _ int) error { return errors.Join(r.exec(`commit`), errHandler) }},
	{"ends its transaction and begins one", escaped, 1, func(r *handlerRun, _ int) error { return r.exec(`commit and chain`) }},
	{"ends its transaction and fails", escaped, 1, func(r *handlerRun, _ int) error {
		return errors.Join(r.exec(`commit`), Fail("no", strconv.Itoa(r.run)))
	}},
	{"ends its transaction by ROLLBACK", escapedEmpty, 1, func(r *handlerRun, _ int) error { return r.exec(`rollback`) }},
	{"ends its transaction and is cut", escaped, 1, func(r *handlerRun, _ int) error {
		err := r.exec(`commit`)
		wireOf(r.tx).Cut()
		return err
	}},
	{"releases the savepoint", ruined, 1, func(r *handlerRun, _ int) error { return r.exec(`release savepoint txonce`) }},
	{"is cancelled", released, 1, func(r *handlerRun, _ int) error { r.cancel(); return r.exec(`select 1`) }},
	{"is cancelled when it is done", released, 1, func(r *handlerRun, _ int) error { r.cancel(); return nil }},
	{"loses its connection", ruined, 1, func(r *handlerRun, _ int) error { wireOf(r.tx).Cut(); return r.exec(`select 1`) }},
	{"loses its connection unawares", ruined, 1, func(r *handlerRun, _ int) error { wireOf(r.tx).Cut(); return nil }},
	{"is cut in front of the record", ruined, 1, func(r *handlerRun, n int) error {
		r.fault(n, atFinish(faultconn.Nothing, faultconn.Cut))
		return nil
	}},
	{"loses the answer of the record", ruined, 1, func(r *handlerRun, n int) error {
		r.fault(n, atFinish(nil, faultconn.CutAtAnswer))
		return nil
	}},
	{"fails and is cut in front of the record", ruined, 1, func(r *handlerRun, n int) error {
		r.fault(n, atFinish(faultconn.Nothing, faultconn.Cut))
		return Fail("no", strconv.Itoa(r.run))
	}},
	{"fails and loses the answer of the record", ruined, 1, func(r *handlerRun, n int) error {
		r.fault(n, atFinish(nil, faultconn.CutAtAnswer))
		return Fail("no", strconv.Itoa(r.run))
	}},
}

// makeTx makes a call in a transaction of its own, which writes something in front of it and behind it.
func (w *world) makeTx(p plan, between func()) (m made) {
	t := w.f.t
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	tx, err := w.f.pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: w.level})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	write := func() error {
		w.run++
		m.around = append(m.around, w.run)
		return writeRun(t.Context(), tx, p.intent.name+around, w.run)
	}
	if err := write(); err != nil {
		t.Fatal(err)
	}
	if p.early != nil {
		p.early()
	}
	m.Result, m.err = RunTx(ctx, tx, w.f.store, p.req, w.handler(p, &m, cancel, between))
	if errors.Is(m.err, ErrHandlerEndedTx) {
		return m
	}
	if m.usable = write() == nil; m.usable {
		m.kept = w.endTx(tx, p, &m)
	}
	return m
}

// endTx ends the caller's transaction, and reports whether it is committed.
func (w *world) endTx(tx pgx.Tx, p plan, m *made) bool {
	ctx := w.f.t.Context()
	switch p.ends {
	case losesCommit:
		wireOf(tx).Arm(atFinish(faultconn.Nothing, faultconn.Cut))
	case losesAnswer:
		wireOf(tx).Arm(atFinish(nil, faultconn.CutAtAnswer))
	case commits:
		return tx.Commit(ctx) == nil
	default:
		_ = tx.Rollback(ctx)
		return false
	}
	if err := tx.Commit(ctx); err == nil {
		w.f.t.Errorf("the commit of a caller seems to have an answer")
	}
	status, err := w.f.store.Resolve(ctx, p.req)
	m.resolved = string(status.State)
	if err != nil {
		m.resolved = err.Error()
	}
	return p.ends == losesAnswer
}

// judgeAround compares what the caller wrote around a call of RunTx, when the call has been judged.
func (w *world) judgeAround(t *rapid.T, p plan, m made) {
	i := p.intent
	if errors.Is(m.err, ErrHandlerEndedTx) && !m.Replayed {
		if p.end == escaped {
			i.around = append(i.around, m.around[0])
		}
		return
	}
	ran := len(m.runs) > 0
	if m.usable == (ran && p.end == ruined) {
		t.Fatalf("%s: after %v the caller's transaction is usable: %v", p.name(), m.err, m.usable)
	}
	if m.kept {
		i.around = append(i.around, m.around...)
	} else if m.usable && p.ends == commits && !p.beside {
		t.Fatalf("%s: after %v the caller could not commit", p.name(), m.err)
	}
	foreign := i.expired() && p.args != i.argsOf // Status and Resolve see an expired record of other arguments, which no call minds
	if m.resolved != "" && !foreign && m.resolved != string(i.state()) {
		t.Fatalf("%s: the commit was cut, and Resolve says %q; want %s", p.name(), m.resolved, i.state())
	}
}

// late makes a call by RunTx in a transaction that was there before another call of the identity was made: above READ
// COMMITTED it does not see that one.
func (w *world) late(t *rapid.T) {
	i := w.any(t)
	other := w.planFor(t, i, WayRun, WayBatch)
	p := w.planFor(t, i, WayTx)
	if p.end == escaped || p.end == escapedEmpty { // what it commits has happened, whoever made the call
		t.Skip()
	}
	p.args, p.req.Args = other.args, other.req.Args
	was := i.free()
	var m made
	p.early = func() { m = w.make(other, nil) }
	late := w.make(p, nil)
	w.judge(t, other, m)
	if w.level == pgx.ReadCommitted || !was || i.free() {
		w.judge(t, p, late)
		return
	}
	stale := errors.Is(late.err, ErrStaleSnapshot) || hasCode(late.err, codeSerialization)
	if _, told := failureIn(late.err); late.err == nil || told || late.Raw != nil || (p.end == answered || p.end == failed) && !stale {
		t.Fatalf("%s in an old snapshot got %+v, %v; want ErrStaleSnapshot or 40001", p.name(), late.Result, late.err)
	}
	if late.kept { // what the caller wrote is the caller's
		i.around = append(i.around, late.around...)
	}
}
