package txidem

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"github.com/txonce/txonce/toolcall"
)

// plan is a call that is about to be made. All that is random about it has been drawn: inside Run, whose handlers may
// panic, rapid could not make itself heard.
type plan struct {
	*intent
	behaviour
	way  Way
	args int
	req  Request

	oneTrip bool        // RunBatch: it tries one round trip
	ends    callerEnd   // RunTx
	beside  bool        // another call runs meanwhile
	early   func()      // RunTx: called when the caller's transaction has its snapshot
	lost    OnLeaseLost // RunLeased
	asks    asking      // RunLeased
}

// made is what became of a call.
type made struct {
	Result[string]
	err  error
	runs []int // of its handler

	around       []int  // RunTx: the effects of the caller's own
	usable, kept bool   // RunTx: the transaction after the call, and whether its commit stays
	resolved     string // RunTx: what Resolve says of a commit that was cut

	key    string // RunLeased: downstream
	paid   []int  // RunLeased: the runs that told the provider
	queued bool   // RunLeased: an effect was queued for the commit with the answer
}

// request draws a spelling of the intent's arguments.
func (w *world) request(t *rapid.T, i *intent, args int) Request {
	policy := &Policy{OnExpired: Rerun, Lease: 2 * time.Hour, OnLeaseLost: Block}
	if i.refuse {
		policy.OnExpired = Refuse
	}
	return Request{
		Scope: i.scope, Tool: "issue_refund", Key: i.key, Policy: policy,
		Args: json.RawMessage(rapid.SampledFrom(i.args[args]).Draw(t, "args")),
	}
}

// planFor draws a call of i that fits what is recorded, in one of the given ways or, without any, in one of its own.
func (w *world) planFor(t *rapid.T, i *intent, ways ...Way) plan {
	if ways == nil {
		ways = i.ways
	}
	p := plan{intent: i, args: i.argsOf, way: rapid.SampledFrom(ways).Draw(t, "way")}
	if i.free() {
		p.args = w.argsFor(t, i)
	}
	p.req = w.request(t, i, p.args)
	switch all := behaviours; p.way {
	case WayTx:
		all = txBehaviours
		p.ends = rapid.SampledFrom(callerEnds).Draw(t, "caller")
		p.behaviour = rapid.SampledFrom(all).Draw(t, "handler")
	case WayBatch:
		p.oneTrip = rapid.Bool().Draw(t, "one trip")
		all = slices.Concat(batchBehaviours, batchTroubles)
		if p.oneTrip {
			all = slices.Concat(all, oneTripBehaviours)
		}
		p.behaviour = rapid.SampledFrom(all).Draw(t, "handler")
	case WayLeased:
		p.behaviour = rapid.SampledFrom(leasedBehaviours).Draw(t, "handler")
		p.lost = rapid.SampledFrom([]OnLeaseLost{Block, RerunLost}).Draw(t, "lost")
		p.asks = rapid.SampledFrom([]asking{noAsk, noAsk, asks, asksInVain}).Draw(t, "asks")
		p.req.Policy.OnLeaseLost = p.lost
	default:
		p.behaviour = rapid.SampledFrom(all).Draw(t, "handler")
	}
	return p
}

func (w *world) argsFor(t *rapid.T, i *intent) int {
	if i.args[1] == nil {
		return 0
	}
	return rapid.IntRange(0, 1).Draw(t, "which arguments")
}

// make makes a call. between is called in its first run, when the effect is written.
func (w *world) make(p plan, between func()) made {
	locks := w.f.locks()
	var m made
	switch p.way {
	case WayTx:
		m = w.makeTx(p, between)
	case WayBatch:
		m = w.makeBatch(p, between)
	case WayLeased:
		m = w.makeLeased(p)
	default:
		m = w.makeRun(p, between)
	}
	w.net.gone.Store(false)
	w.net.next.Store(nil)
	eventually(w.f.t, "the server has ended the transaction", func() bool { return w.f.locks() == locks })
	return m
}

func (w *world) makeRun(p plan, between func()) (m made) {
	ctx, cancel := context.WithCancel(w.f.t.Context())
	defer cancel()
	m.kept = true
	m.Result, m.err = Run(ctx, w.f.store, p.req, w.handler(p, &m, cancel, between))
	return m
}

// handler is the one of Run and RunTx.
func (w *world) handler(p plan, m *made, cancel context.CancelFunc, between func()) func(context.Context, pgx.Tx) (string, error) {
	return func(ctx context.Context, tx pgx.Tx) (string, error) {
		w.run++
		run := w.run
		m.runs = append(m.runs, run)
		if err := writeRun(ctx, tx, p.intent.name, run); err != nil {
			return "", err
		}
		if between != nil && len(m.runs) == 1 {
			between()
		}
		return strconv.Itoa(run), p.do(&handlerRun{ctx: ctx, cancel: cancel, tx: tx, net: w.net, run: run}, len(m.runs))
	}
}

// judge compares a call with the model, and takes over what it did.
func (w *world) judge(t *rapid.T, p plan, m made) {
	switch i := p.intent; {
	case p.end == refused:
		if _, failed := failureIn(m.err); m.err == nil || failed || m.Raw != nil || m.Replayed {
			t.Fatalf("%s: got %q, %v; want an error", p.name(), m.Raw, m.err)
		}
	case !i.free() && i.leased && p.way == WayLeased && i.cutOff():
		judgeTakeOver(t, p, m)
	case !i.free():
		judgeDecided(t, p, m)
	case p.way == WayLeased:
		i.lives, i.overdue = append(i.lives, &life{}), false
		judgeLeased(t, p, m, i.lives[len(i.lives)-1], false, true)
	case p.beside && p.way == WayTx && hasCode(m.err, codeSerialization):
		// The two conflict, says Postgres. What the caller's transaction is good for then is not promised.
		if m.kept {
			p.intent.around = append(p.intent.around, m.around...)
		}
		return
	default:
		judgeRun(t, p, m)
	}
	if p.way == WayTx {
		w.judgeAround(t, p, m)
	}
}

func (p plan) name() string { return string(p.way) + " that " + p.behaviour.name }

// judgeRun is for a call that runs.
func judgeRun(t *rapid.T, p plan, m made) {
	if more := p.beside && len(m.runs) > p.runs; len(m.runs) != p.runs && !more || m.Replayed {
		t.Fatalf("%s: %d runs, replayed %v, error %v; want %d runs", p.name(), len(m.runs), m.Replayed, m.err, p.runs)
	}
	last := m.runs[len(m.runs)-1]
	switch p.end {
	case answered:
		if m.err != nil || m.Value != strconv.Itoa(last) {
			t.Fatalf("%s: got %q, %v; want the answer of run %d", p.name(), m.Value, m.err, last)
		}
		p.keep(m, stateSucceeded, string(m.Raw), m.FinishedAt, last)
	case failed:
		failure, ok := failureIn(m.err)
		if !ok || failure.Message != strconv.Itoa(last) || Retryable(m.err) {
			t.Fatalf("%s: got %v; want the failure of run %d", p.name(), m.err, last)
		}
		p.keep(m, stateFailed, string(m.Raw), m.FinishedAt)
	case escaped, escapedEmpty:
		if failure, ok := failureIn(m.err); !ok || failure.Code != CodeHandlerEndedTx || !errors.Is(m.err, ErrHandlerEndedTx) {
			t.Fatalf("%s: got %v; want the failure of a handler that ended its transaction", p.name(), m.err)
		}
		m.kept = true // whatever the caller does
		p.keep(m, stateFailed, string(m.Raw), m.FinishedAt)
		if p.end == escaped {
			p.intent.effects = append(p.intent.effects, last)
		}
	case released, ruined:
		if _, failed := failureIn(m.err); m.err == nil || failed || errors.Is(m.err, ErrOutcomeUnknown) || m.Raw != nil {
			t.Fatalf("%s: got %q, %v; want an error that is sure of the outcome", p.name(), m.Raw, m.err)
		}
	case escapedUnrecorded:
		if _, failed := failureIn(m.err); !errors.Is(m.err, ErrHandlerEndedTx) || failed || Retryable(m.err) {
			t.Fatalf("%s: got %v; want ErrHandlerEndedTx", p.name(), m.err)
		}
		p.intent.effects = append(p.intent.effects, last)
	case unknownAnswered, unknownGone:
		if !errors.Is(m.err, ErrOutcomeUnknown) || !Retryable(m.err) || m.Raw != nil {
			t.Fatalf("%s: got %q, %v; want ErrOutcomeUnknown", p.name(), m.Raw, m.err)
		}
		// One round trip does not clear an expired record away: it was refused, and only the answer that said so is lost.
		if p.end == unknownAnswered && !(p.way == WayBatch && p.recorded()) {
			p.keep(m, stateSucceeded, strconv.Quote(strconv.Itoa(last)), time.Time{}, last)
		}
	}
}

// keep is what the model learns from a call that is recorded.
func (p plan) keep(m made, state, raw string, at time.Time, effects ...int) {
	if !m.kept {
		return
	}
	i := p.intent
	i.row, i.leased, i.live, i.overdue, i.holder = state, p.way == WayLeased, false, false, nil
	i.argsOf, i.raw, i.at = p.args, raw, at
	i.effects = append(i.effects, effects...)
}

// judgeDecided is for a call that must not run, for it is recorded or has a lease. A handler of RunBatch queues first.
func judgeDecided(t *rapid.T, p plan, m made) {
	i := p.intent
	if len(m.runs) != 0 && p.way != WayBatch {
		t.Fatalf("%s: it ran %d times; want the record of %s", p.name(), len(m.runs), i.state())
	}
	if p.way == WayBatch && p.oneTrip && (p.end == unknownAnswered || p.end == unknownGone) {
		if !errors.Is(m.err, ErrOutcomeUnknown) || m.Raw != nil { // it could not learn that there is a record
			t.Fatalf("%s: got %q, %v; want ErrOutcomeUnknown", p.name(), m.Raw, m.err)
		}
		return
	}
	want := error(nil)
	switch {
	case i.leased != (p.way == WayLeased):
		want = ErrOtherWay
	case i.live:
		want = ErrInProgress
	case i.state() == toolcall.StateExpired:
		want = ErrExpired
	}
	if want != nil {
		if !errors.Is(m.err, want) || m.Raw != nil || m.Replayed {
			t.Fatalf("%s: got %+v, %v; want %v of %s", p.name(), m.Result, m.err, want, i.state())
		}
		return
	}
	_, failed := failureIn(m.err)
	if !m.Replayed || failed != i.failed() || !failed && m.err != nil || string(m.Raw) != i.raw || !i.at.IsZero() && !i.at.Equal(m.FinishedAt) {
		t.Fatalf("%s: got %q of %v, %v; want the replay of %q of %v", p.name(), m.Raw, m.FinishedAt, m.err, i.raw, i.at)
	}
	i.at = m.FinishedAt
}
