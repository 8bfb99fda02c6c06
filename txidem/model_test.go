package txidem

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"pgregory.net/rapid"

	"github.com/txonce/txonce/toolcall"
)

// TestModel_R02_R05_R06_R08_R12_CallsFollowTheModel makes random calls, faults, expiries and questions against a model
// that fits on a page: identity -> outcome. After each step the whole of the database must be what the model says: each
// effect (I1, I5), each answer byte for byte (I2), and nothing of another scope (I4).
//
// -rapid.checks=n makes n sequences instead of 100; -rapid.seed and -rapid.failfile repeat one.
func TestModel_R02_R05_R06_R08_R12_CallsFollowTheModel(t *testing.T) {
	t.Parallel()
	for _, level := range isolationLevels {
		t.Run(name(level), func(t *testing.T) {
			t.Parallel()
			gone := new(atomic.Bool)
			f, wire, _ := wired(t, &Policy{Wait: 20 * time.Second, Isolation: level}, 8, func(cfg *pgxpool.Config) {
				cfg.BeforeConnect = func(context.Context, *pgx.ConnConfig) error {
					if gone.Load() { // an error that no resolver waits out
						return &pgconn.PgError{Code: codeNoDatabase, Message: "the database is gone"}
					}
					return nil
				}
			})
			wire.LoseCancels(true) // else the server's and the cancel's speed would decide
			var worlds atomic.Int64
			rapid.Check(t, func(t *rapid.T) {
				w := newWorld(f, gone, name("m", worlds.Add(1)))
				t.Repeat(map[string]func(*rapid.T){
					"call":       w.call,
					"call again": w.callAgain,
					"mismatch":   w.mismatch,
					"overlap":    w.overlap,
					"stampede":   w.stampede,
					"expire":     w.expire,
					"sweep":      w.sweep,
					"ask":        w.ask,
					"forget":     w.forget,
					"":           w.check,
				})
			})
			f.clean()
		})
	}
}

// some draws an intent for which ok is true.
func (w *world) some(t *rapid.T, ok func(*intent) bool) *intent {
	i := w.any(t)
	if !ok(i) {
		t.Skip()
	}
	return i
}

// request draws a spelling of the intent's arguments.
func (w *world) request(t *rapid.T, i *intent, args int) Request {
	policy := &Policy{OnExpired: Rerun}
	if i.refuse {
		policy.OnExpired = Refuse
	}
	return Request{
		Scope: i.scope, Tool: "issue_refund", Key: i.key, Policy: policy,
		Args: json.RawMessage(rapid.SampledFrom(i.args[args]).Draw(t, "args")),
	}
}

// made is what became of a call.
type made struct {
	Result[string]
	err  error
	runs []int // of its handler
}

// make makes a call. between is called in its first run, when the effect is written.
func (w *world) make(p plan, between func()) made {
	ctx, cancel := context.WithCancel(w.f.t.Context())
	defer cancel()
	locks := w.f.locks()
	var m made
	m.Result, m.err = Run(ctx, w.f.store, p.req, func(ctx context.Context, tx pgx.Tx) (string, error) {
		w.run++
		run := w.run
		m.runs = append(m.runs, run)
		if err := writeRun(ctx, tx, p.intent.name, run); err != nil {
			return "", err
		}
		if between != nil && len(m.runs) == 1 {
			between()
		}
		return strconv.Itoa(run), p.do(&handlerRun{ctx, cancel, tx, w.gone, run}, len(m.runs))
	})
	w.gone.Store(false)
	eventually(w.f.t, "the server has ended the transaction", func() bool { return w.f.locks() == locks })
	return m
}

// plan is a call that is about to be made. All that is random about it has been drawn: inside Run, whose handlers may
// panic, rapid could not make itself heard.
type plan struct {
	*intent
	behaviour
	args int
	req  Request
}

// planFor draws a call of i that fits what is recorded.
func (w *world) planFor(t *rapid.T, i *intent) plan {
	p := plan{intent: i, behaviour: anyBehaviour(t), args: i.argsOf}
	if i.free() {
		p.args = w.argsFor(t, i)
	}
	p.req = w.request(t, i, p.args)
	return p
}

// call makes a call of any identity, with any behaviour.
func (w *world) call(t *rapid.T) {
	p := w.planFor(t, w.any(t))
	w.judge(t, p, w.make(p, nil))
}

// callAgain makes a call that must not run.
func (w *world) callAgain(t *rapid.T) {
	p := w.planFor(t, w.some(t, func(i *intent) bool { return !i.free() }))
	w.judge(t, p, w.make(p, nil))
}

func (w *world) argsFor(t *rapid.T, i *intent) int {
	if i.args[1] == nil {
		return 0
	}
	return rapid.IntRange(0, 1).Draw(t, "which arguments")
}

func anyBehaviour(t *rapid.T) behaviour {
	return rapid.SampledFrom(behaviours).Draw(t, "handler")
}

// judge compares a call with the model, and takes over what it did.
func (w *world) judge(t *rapid.T, p plan, m made) {
	i, b := p.intent, p.behaviour
	if !i.free() {
		judgeReplay(t, i, m)
		return
	}
	if len(m.runs) != b.runs || m.Replayed {
		t.Fatalf("%s: %d runs, replayed %v, error %v; want %d runs", b.name, len(m.runs), m.Replayed, m.err, b.runs)
	}
	last := m.runs[len(m.runs)-1]
	switch b.end {
	case answered:
		if m.err != nil || m.Value != strconv.Itoa(last) {
			t.Fatalf("%s: got %q, %v; want the answer of run %d", b.name, m.Value, m.err, last)
		}
		i.keep(p.args, string(m.Raw), false, m.FinishedAt, last)
	case failed, escaped:
		failure, ok := failureIn(m.err)
		if !ok || b.end == failed && (failure.Message != strconv.Itoa(last) || Retryable(m.err)) || b.end == escaped && failure.Code != CodeHandlerEndedTx {
			t.Fatalf("%s: got %v; want the failure of run %d", b.name, m.err, last)
		}
		i.keep(p.args, string(m.Raw), true, m.FinishedAt)
		if b.end == escaped {
			i.effects = append(i.effects, last)
		}
	case released:
		if _, failed := failureIn(m.err); m.err == nil || failed || errors.Is(m.err, ErrOutcomeUnknown) || m.Raw != nil {
			t.Fatalf("%s: got %q, %v; want an error that is sure of the outcome", b.name, m.Raw, m.err)
		}
	case escapedUnrecorded:
		if _, failed := failureIn(m.err); !errors.Is(m.err, ErrHandlerEndedTx) || failed || Retryable(m.err) {
			t.Fatalf("%s: got %v; want ErrHandlerEndedTx", b.name, m.err)
		}
		i.effects = append(i.effects, last)
	case unknownAnswered, unknownGone:
		if !errors.Is(m.err, ErrOutcomeUnknown) || !Retryable(m.err) || m.Raw != nil {
			t.Fatalf("%s: got %q, %v; want ErrOutcomeUnknown", b.name, m.Raw, m.err)
		}
		if b.end == unknownAnswered {
			i.keep(p.args, strconv.Quote(strconv.Itoa(last)), false, time.Time{}, last)
		}
	}
}

// judgeReplay is for a call that must not run.
func judgeReplay(t *rapid.T, i *intent, m made) {
	if len(m.runs) != 0 {
		t.Fatalf("it ran %d times; want the record of %s", len(m.runs), i.state)
	}
	if i.state == toolcall.StateExpired {
		if !errors.Is(m.err, ErrExpired) || m.Raw != nil || m.Replayed {
			t.Fatalf("got %+v, %v; want ErrExpired", m.Result, m.err)
		}
		return
	}
	_, failed := failureIn(m.err)
	if !m.Replayed || failed != i.failed || !failed && m.err != nil || string(m.Raw) != i.raw || !i.at.IsZero() && !i.at.Equal(m.FinishedAt) {
		t.Fatalf("got %q of %v, %v; want the replay of %q of %v", m.Raw, m.FinishedAt, m.err, i.raw, i.at)
	}
	i.at = m.FinishedAt
}

// keep is what the model learns from a call that is recorded.
func (i *intent) keep(args int, raw string, failed bool, at time.Time, effects ...int) {
	i.state = toolcall.StateSucceeded
	if failed {
		i.state = toolcall.StateFailed
	}
	i.argsOf, i.raw, i.failed, i.at = args, raw, failed, at
	i.effects = append(i.effects, effects...)
}

// mismatch calls with other arguments than the recorded ones.
func (w *world) mismatch(t *rapid.T) {
	i := w.some(t, func(i *intent) bool { return !i.free() && i.args[1] != nil })
	req := w.request(t, i, 1-i.argsOf)
	m := w.make(plan{i, anyBehaviour(t), 1 - i.argsOf, req}, nil)
	var reused *KeyReusedError
	if !errors.As(m.err, &reused) || Retryable(m.err) || len(m.runs) != 0 || m.Raw != nil || m.Replayed {
		t.Fatalf("got %+v, %v, %d runs; want ErrKeyReused", m.Result, m.err, len(m.runs))
	}
	if diff := cmp.Diff([]string{"/cents"}, reused.Paths); diff != "" {
		t.Fatalf("the paths that differ (-want +got):\n%s", diff)
	}
	if status, err := w.f.store.Status(w.f.t.Context(), req); !errors.Is(err, ErrKeyReused) || status.Answer != nil {
		t.Fatalf("the status of other arguments is %+v, %v; want ErrKeyReused", status, err)
	}
}

// overlap does other things while a call runs: a duplicate, with the same arguments or with others, which nobody can tell as
// long as it runs; a question; a call of another identity, with a behaviour of its own.
func (w *world) overlap(t *rapid.T) {
	i := w.some(t, (*intent).free)
	p := w.planFor(t, i)
	dup := w.planFor(t, i)
	dup.req.Policy.Wait = NoWait
	other := w.planFor(t, w.some(t, func(other *intent) bool { return other != i }))
	var gotDup, gotOther made
	var status toolcall.Status
	var err error
	m := w.make(p, func() {
		gotDup = w.make(dup, nil)
		status, err = w.f.store.Status(w.f.t.Context(), p.req)
		gotOther = w.make(other, nil)
	})
	if !errors.Is(gotDup.err, ErrInProgress) || len(gotDup.runs) != 0 || gotDup.Raw != nil {
		t.Fatalf("a duplicate of the running call got %+v, %v, %d runs; want ErrInProgress", gotDup.Result, gotDup.err, len(gotDup.runs))
	}
	if err != nil || status.State != toolcall.StateRunning || status.Answer != nil {
		t.Fatalf("while it runs the status is %+v, %v", status, err)
	}
	w.judge(t, other, gotOther)
	w.judge(t, p, m)
}

// stampede makes the same call several times at once.
func (w *world) stampede(t *rapid.T) {
	i := w.some(t, (*intent).free)
	args := w.argsFor(t, i)
	req := w.request(t, i, args)
	const callers = 4
	results := make(chan made, callers)
	var ran atomic.Int64
	base := w.run
	for range callers {
		go func() {
			var m made
			m.Result, m.err = Run(w.f.t.Context(), w.f.store, req, func(ctx context.Context, tx pgx.Tx) (string, error) {
				run := base + int(ran.Add(1))
				return strconv.Itoa(run), writeRun(ctx, tx, i.name, run)
			})
			results <- m
		}()
	}
	fresh := 0
	answer := make(map[string]bool)
	var all []made
	for range callers {
		m := <-results
		all = append(all, m)
		answer[string(m.Raw)] = true
		if m.err == nil && !m.Replayed {
			fresh++
		}
	}
	w.run += int(ran.Load())
	first := all[0]
	if run, err := strconv.Atoi(first.Value); err != nil || fresh != 1 || len(answer) != 1 {
		t.Fatalf("%d first answers, %d different ones: %+v; want one", fresh, len(answer), all)
	} else {
		i.keep(args, string(first.Raw), false, first.FinishedAt, run)
	}
}

// expire lets a record's time go by.
func (w *world) expire(t *rapid.T) {
	i := w.some(t, (*intent).recorded)
	w.f.exec(`update txonce.call set expires_at = clock_timestamp() where id = $1`, w.id(i).String())
	i.state = toolcall.StateExpired
}

func (w *world) id(i *intent) toolcall.ID {
	id, err := w.f.store.identify(Request{Scope: i.scope, Tool: "issue_refund", Key: i.key, Args: json.RawMessage(i.args[0][0])})
	if err != nil {
		w.f.t.Fatal(err)
	}
	return id.ID
}

func (w *world) sweep(t *rapid.T) {
	if _, err := w.f.store.Sweep(w.f.t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, i := range w.intents {
		switch {
		case i.state != toolcall.StateExpired:
		case i.refuse:
			i.raw = ""
		default:
			i.state = toolcall.StateNone
		}
	}
}

// ask reads the status, in both ways.
func (w *world) ask(t *rapid.T) {
	i := w.any(t)
	req := w.request(t, i, i.argsOf)
	for label, ask := range map[string]func(context.Context, Request) (toolcall.Status, error){"Status": w.f.store.Status, "Resolve": w.f.store.Resolve} {
		got, err := ask(w.f.t.Context(), req)
		if err != nil || got.State != i.state || got.ID != w.id(i) {
			t.Fatalf("%s says %+v, %v; want %s", label, got, err, i.state)
		}
		if i.state == toolcall.StateSucceeded && string(got.Answer) != i.raw || i.state != toolcall.StateSucceeded && got.Answer != nil {
			t.Fatalf("%s shows the answer %q; want %q of %s", label, got.Answer, i.raw, i.state)
		}
		if (got.Failure != nil) != (i.state == toolcall.StateFailed) {
			t.Fatalf("%s shows the failure %v of %s", label, got.Failure, i.state)
		}
	}
}

// forget removes a record, if it is asked for by its own scope.
func (w *world) forget(t *rapid.T) {
	i := w.any(t)
	own := rapid.Bool().Draw(t, "by its own scope")
	scope := i.scope
	if !own {
		scope = w.name + "-mallory"
	}
	was, err := w.f.store.Forget(w.f.t.Context(), scope, w.id(i))
	if want := own && i.recorded(); err != nil || was != want {
		t.Fatalf("Forget says %v, %v; want %v", was, err, want)
	}
	if was {
		i.state = toolcall.StateNone
	}
}
