package txidem

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"github.com/txonce/txonce/internal/faultconn"
	"github.com/txonce/txonce/toolcall"
)

// asking is what the caller of RunLeased gives it to ask the provider with.
type asking int

const (
	noAsk      asking = iota
	asks              // it finds what the provider was told under the downstream key
	asksInVain        // the provider does not answer
)

// leasedBehaviours are what handlers of RunLeased do.
var leasedBehaviours = []behaviour{
	{"answers", answered, 1, func(r *handlerRun, _ int) error { return r.pay() }},
	{"answers and queues", answered, 1, func(r *handlerRun, _ int) error {
		return errors.Join(r.pay(), r.queue(sqlWriteRun))
	}},
	{"is cancelled when it is done", answered, 1, func(r *handlerRun, _ int) error { defer r.cancel(); return r.pay() }},
	{"fails", failed, 1, func(r *handlerRun, _ int) error { return Fail("no", strconv.Itoa(r.run)) }},
	{"fails and queues", failed, 1, func(r *handlerRun, _ int) error {
		return errors.Join(r.pay(), r.queue(sqlWriteRun), Fail("no", strconv.Itoa(r.run)))
	}},
	{"has done nothing", released, 1, func(*handlerRun, int) error { return NotDone(errHandler) }},
	{"errs", open, 1, func(r *handlerRun, _ int) error { return errors.Join(r.pay(), errHandler) }},
	{"errs early", open, 1, func(*handlerRun, int) error { return errHandler }},
	{"panics", open, 1, func(r *handlerRun, _ int) error { panic(errors.Join(r.pay(), errHandler)) }},
	{"is cancelled", open, 1, func(r *handlerRun, _ int) error { r.cancel(); return r.ctx.Err() }},
	{"queues an error of SQL", open, 1, func(r *handlerRun, _ int) error {
		return errors.Join(r.pay(), r.queue(sqlWriteRun), r.queue(`select 1/0, $1::text, $2::int`))
	}},
	{"is cut in front of the record", answered, 1, paysAnd(atFinish(faultconn.Nothing, faultconn.Cut))},
	{"is cut in front of COMMIT", answered, 1, paysAnd(atFinish(faultconn.AllBut(2), faultconn.Cut))},
	{"is cut behind COMMIT", answered, 1, paysAnd(atFinish(faultconn.AllBut(1), faultconn.Cut))},
	{"loses the answer of COMMIT", answered, 1, paysAnd(atFinish(nil, faultconn.CutAtAnswer))},
	{"loses the answer of COMMIT for good", unknownAnswered, 1, func(r *handlerRun, n int) error {
		err := paysAnd(atFinish(nil, faultconn.CutAtAnswer))(r, n)
		r.net.gone.Store(true)
		return err
	}},
}

// paysAnd is a handler whose last round trip, with an effect in it, meets a fault.
func paysAnd(f faultconn.Fault) func(*handlerRun, int) error {
	return func(r *handlerRun, n int) error {
		err := errors.Join(r.pay(), r.queue(sqlWriteRun))
		r.fault(n, f)
		return err
	}
}

// makeLeased makes a call. What it tells the provider is committed at once, outside any transaction.
func (w *world) makeLeased(p plan) (m made) {
	ctx, cancel := context.WithCancel(w.f.t.Context())
	defer cancel()
	m.kept = true
	var ask func(context.Context) (string, bool, error)
	if p.asks != noAsk {
		ask = func(ctx context.Context) (string, bool, error) {
			m.key = downstream(ctx)
			if p.asks == asksInVain {
				return "", false, errHandler
			}
			return w.toldUnder(m.key)
		}
	}
	m.Result, m.err = RunLeased(ctx, w.f.store, p.req, func(ctx context.Context) (string, error) {
		w.run++
		r := &handlerRun{ctx: ctx, cancel: cancel, net: w.net, run: w.run}
		m.runs = append(m.runs, r.run)
		m.key = downstream(ctx)
		r.pay = func() error {
			if slices.Contains(m.paid, r.run) {
				return nil
			}
			m.paid = append(m.paid, r.run)
			_, err := w.f.pool.Exec(w.f.t.Context(), `insert into provider (intent, downstream, run) values ($1, $2, $3)`, p.intent.name, m.key, r.run)
			return err
		}
		r.queue = func(sql string) error {
			m.queued = true
			call, _ := toolcall.FromContext(ctx)
			return call.AtFinish(func(b *pgx.Batch) { b.Queue(sql, p.intent.name, r.run) })
		}
		return strconv.Itoa(r.run), p.do(r, len(m.runs))
	}, ask)
	return m
}

// toldUnder is what the provider answers: the first run that told it something under the key.
func (w *world) toldUnder(key string) (answer string, found bool, err error) {
	var run int
	err = w.f.pool.QueryRow(w.f.t.Context(), `select run from provider where downstream = $1 order by run limit 1`, key).Scan(&run)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", false, nil
	}
	return strconv.Itoa(run), err == nil, err
}

// provider is what the provider was told: the runs, by intent and downstream key.
func (w *world) provider() map[string][]int {
	rows, err := w.f.pool.Query(w.f.t.Context(), `select intent || ' ' || downstream, run from provider where intent like $1 order by run`, w.name+" %")
	if err != nil {
		w.f.t.Fatal(err)
	}
	found := make(map[string][]int)
	var key string
	var run int
	if _, err := pgx.ForEachRow(rows, []any{&key, &run}, func() error {
		found[key] = append(found[key], run)
		return nil
	}); err != nil {
		w.f.t.Fatal(err)
	}
	return found
}

// judgeTakeOver is for a leased call whose last attempt was cut off.
func judgeTakeOver(t *rapid.T, p plan, m made) {
	i := p.intent
	l := i.lives[len(i.lives)-1]
	switch {
	case p.asks == noAsk && p.lost == Block:
		if !errors.Is(m.err, ErrBlocked) || Retryable(m.err) || len(m.runs) != 0 || m.Raw != nil {
			t.Fatalf("%s: got %+v, %v, %d runs; want ErrBlocked", p.name(), m.Result, m.err, len(m.runs))
		}
		return
	case p.asks == asksInVain:
		if !errors.Is(m.err, ErrOutcomeUnknown) || !Retryable(m.err) || len(m.runs) != 0 || m.Raw != nil {
			t.Fatalf("%s: got %+v, %v, %d runs; want ErrOutcomeUnknown", p.name(), m.Result, m.err, len(m.runs))
		}
		l.know(t, i, m.key)
		i.overdue, i.holder = false, nil // it was taken over all the same
		return
	case p.asks == asks && len(l.runs) > 0:
		first := slices.Min(l.runs)
		if m.err != nil || len(m.runs) != 0 || m.Value != strconv.Itoa(first) || m.Replayed {
			t.Fatalf("%s: got %+v, %v, %d runs; want what the provider says of run %d", p.name(), m.Result, m.err, len(m.runs), first)
		}
		l.know(t, i, m.key)
		p.keep(m, stateSucceeded, string(m.Raw), m.FinishedAt)
		return
	}
	i.overdue = false // to take over is to keep it for longer
	judgeLeased(t, p, m, l, true, true)
}

// leaveOpen is what the model learns from an attempt of which nobody knows what it did. Its time counts from the claim.
func (p plan) leaveOpen(m made) {
	overdue := p.intent.overdue
	p.keep(m, stateRunning, "", time.Time{})
	p.intent.overdue = overdue
}

// know checks the downstream key: the same for each attempt of an intent, and another one for each intent.
func (l *life) know(t *rapid.T, i *intent, key string) {
	for _, other := range i.lives {
		if (other == l) != (other.key == key) && other.key != "" {
			t.Fatalf("R14: the downstream key %q is not its intent's: %+v", key, i.lives)
		}
	}
	l.key = key
}

// judgeLeased is for an attempt that ran. taken says that it took over from one that was cut off, holds that nobody has taken
// its own lease.
func judgeLeased(t *rapid.T, p plan, m made, l *life, taken, holds bool) {
	i := p.intent
	if len(m.runs) != 1 || m.Replayed {
		t.Fatalf("%s: %d runs, replayed %v, error %v; want one run", p.name(), len(m.runs), m.Replayed, m.err)
	}
	run := m.runs[0]
	l.know(t, i, m.key)
	l.runs = append(l.runs, m.paid...)
	var effects []int
	if m.queued {
		effects = []int{run}
	}
	switch _, told := failureIn(m.err); {
	case p.end == released && taken: // it speaks for itself alone
		judgeOpen(t, p, m, holds)
		if !errors.Is(m.err, errHandler) {
			t.Fatalf("%s: got %v; want its error in it", p.name(), m.err)
		}
		if holds {
			p.leaveOpen(m)
		}
	case p.end == released:
		if !errors.Is(m.err, errHandler) || told || errors.Is(m.err, ErrBlocked) || errors.Is(m.err, ErrOutcomeUnknown) {
			t.Fatalf("%s: got %v; want its error", p.name(), m.err)
		}
		if holds {
			i.gone()
		}
	case !holds || p.end == open || p.end == unknownAnswered:
		judgeOpen(t, p, m, holds)
		if holds && p.end == unknownAnswered {
			p.keep(m, stateSucceeded, strconv.Quote(strconv.Itoa(run)), time.Time{}, effects...)
		} else if holds {
			p.leaveOpen(m)
		}
	case p.end == failed:
		if !told || m.Raw == nil {
			t.Fatalf("%s: got %v; want the failure of run %d", p.name(), m.err, run)
		}
		p.keep(m, stateFailed, string(m.Raw), m.FinishedAt)
	default:
		if m.err != nil || m.Value != strconv.Itoa(run) {
			t.Fatalf("%s: got %q, %v; want the answer of run %d", p.name(), m.Value, m.err, run)
		}
		p.keep(m, stateSucceeded, string(m.Raw), m.FinishedAt, effects...)
	}
}

// judgeOpen is for an attempt of which nobody knows whether it had its effect, or whose word does not count any more.
func judgeOpen(t *rapid.T, p plan, m made, holds bool) {
	want := ErrOutcomeUnknown
	if p.asks == noAsk && p.lost == Block {
		want = ErrBlocked
	}
	if _, failed := failureIn(m.err); !errors.Is(m.err, want) || failed || m.Raw != nil || Retryable(m.err) != (want == ErrOutcomeUnknown) {
		t.Fatalf("%s: got %q, %v; want %v", p.name(), m.Raw, m.err, want)
	}
	if !holds && p.end != open && p.end != released && p.end != unknownAnswered && !errors.Is(m.err, ErrLeaseLost) {
		t.Fatalf("%s: got %v; want ErrLeaseLost", p.name(), m.err)
	}
}
