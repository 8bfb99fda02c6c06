package txidem

import (
	"context"
	"strconv"
	"time"

	"pgregory.net/rapid"

	"github.com/txonce/txonce/internal/faultconn"
)

// batchBehaviours are what handlers of RunBatch do.
var batchBehaviours = []behaviour{
	{"answers", answered, 1, func(*handlerRun, int) error { return nil }},
	{"fails", failed, 1, func(r *handlerRun, _ int) error { return Fail("no", strconv.Itoa(r.run)) }},
	{"errs", released, 1, func(*handlerRun, int) error { return errHandler }},
	{"panics", released, 1, func(*handlerRun, int) error { panic(errHandler) }},
	{"queues an error of SQL", released, 1, queued(`select 1/0`)},
	{"queues a duplicate of its own", released, 1, queued(`insert into taken (id) values (1)`)},
	{"queues a hidden COMMIT", released, 1, queued(`do $$ begin commit; end $$`)},
	{"asks to repeat for good", released, 1, queued(`do $$ begin raise sqlstate '40001'; end $$`)},
	{"asks to repeat", answered, 1, queued(`do $$ begin if nextval('turn') % 2 = 1 then raise sqlstate '40001'; end if; end $$`)},
	{"must affect another number of rows", released, 1, func(r *handlerRun, _ int) error {
		r.batch.MustAffect(2, `update taken set id = id`)
		return nil
	}},
	{"must affect a row", answered, 1, func(r *handlerRun, _ int) error {
		r.batch.MustAffect(1, `update taken set id = id`)
		return nil
	}},
}

// batchTroubles are what keeps a call from what it would hear otherwise, or breaks its wire. They mean the same in one round
// trip and in several: there, a fault meets the first of them, which gets one more try.
var batchTroubles = []behaviour{
	{"queues COMMIT", refused, 1, queued(`commit`)},
	{"queues two in one", refused, 1, queued(`select 1; select 2`)},
	{"is cancelled", refused, 1, func(r *handlerRun, _ int) error { r.cancel(); return nil }},
	{"is cut in front of everything", answered, 1, faulty(atFinish(faultconn.Nothing, faultconn.Cut))},
	{"is cut in front of COMMIT", answered, 1, faulty(atFinish(faultconn.AllBut(2), faultconn.Cut))},
	{"is cut behind COMMIT", answered, 1, faulty(atFinish(faultconn.AllBut(1), faultconn.Cut))},
	{"loses the answer", answered, 1, faulty(atFinish(nil, faultconn.CutAtAnswer))},
}

// oneTripBehaviours only mean something in one round trip.
var oneTripBehaviours = []behaviour{
	{"is cut in front of everything for good", unknownGone, 1, func(r *handlerRun, n int) error {
		r.net.gone.Store(true)
		return faulty(atFinish(faultconn.Nothing, faultconn.Cut))(r, n)
	}},
	{"loses the answer for good", unknownAnswered, 1, func(r *handlerRun, n int) error {
		r.net.gone.Store(true)
		return faulty(atFinish(nil, faultconn.CutAtAnswer))(r, n)
	}},
}

// queued is a handler that queues a statement.
func queued(sql string) func(*handlerRun, int) error {
	return func(r *handlerRun, _ int) error { r.batch.Queue(sql); return nil }
}

// faulty is a handler whose round trip meets a fault.
func faulty(f faultconn.Fault) func(*handlerRun, int) error {
	return func(r *handlerRun, n int) error { r.fault(n, f); return nil }
}

// makeBatch makes a call. between is called while the handler queues, in front of everything.
func (w *world) makeBatch(p plan, between func()) (m made) {
	ctx, cancel := context.WithCancel(w.f.t.Context())
	defer cancel()
	m.kept = true
	m.Result, m.err = RunBatch(ctx, w.f.store, p.req, func(ctx context.Context, b *Batch) (string, error) {
		w.run++
		run := w.run
		m.runs = append(m.runs, run)
		b.Queue(sqlWriteRun, p.intent.name, run)
		if between != nil {
			between()
		}
		w.f.store.slow.set(p.req.Tool, !p.oneTrip)
		return strconv.Itoa(run), p.do(&handlerRun{ctx: ctx, cancel: cancel, batch: b, net: w.net, run: run}, len(m.runs))
	})
	return m
}

// set says whether the calls of a tool go the way of Run, for longer than the test runs.
func (t *slowTools) set(tool string, slow bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.until = nil
	if slow {
		t.until = map[string]time.Time{tool: time.Now().Add(time.Hour)}
	}
}

// overtaken makes a call by RunBatch whose handler takes its time: another call of the identity is there first.
func (w *world) overtaken(t *rapid.T) {
	i := w.any(t)
	p, other := w.planFor(t, i, WayBatch), w.planFor(t, i)
	p.args, p.req.Args = other.args, other.req.Args
	var m made
	late := w.make(p, func() { m = w.make(other, nil) })
	w.judge(t, other, m)
	w.judge(t, p, late)
}
