package txidem

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"pgregory.net/rapid"

	"github.com/txonce/txonce/internal/faultconn"
	"github.com/txonce/txonce/toolcall"
)

// TestModel_R02_R05_R06_R08_R12_R14_R17_R18_CallsFollowTheModel makes random calls in all ways to run, faults, expiries and
// questions against a model that fits on a page: identity -> outcome. After each step the whole of the database must be
// what the model says: each effect (I1, I5), each answer byte for byte (I2), and nothing of another scope (I4).
//
// It makes 33 sequences for each level; -rapid.checks=n makes n, -rapid.seed and -rapid.failfile repeat one.
func TestModel_R02_R05_R06_R08_R12_R14_R17_R18_CallsFollowTheModel(t *testing.T) {
	defaultChecks(t, "33")
	t.Parallel()
	for _, level := range isolationLevels {
		t.Run(name(level), func(t *testing.T) {
			t.Parallel()
			net := new(network)
			f := netted(t, net, level)
			var worlds atomic.Int64
			rapid.Check(t, func(t *rapid.T) {
				w := newWorld(f, net, level, name("m", worlds.Add(1)))
				t.Cleanup(w.buryZombies)
				t.Repeat(map[string]func(*rapid.T){
					"call":           w.call,
					"call once more": w.call, // the most frequent one
					"call again":     w.callAgain,
					"mismatch":       w.mismatch,
					"overlap":        w.overlap,
					"overtake":       w.overtaken,
					"late":           w.late,
					"stampede":       w.stampede,
					"leave":          w.leave,
					"take over":      w.takeOver,
					"come back":      w.comeBack,
					"run out":        w.runOut,
					"renew":          w.renew,
					"expire":         w.expire,
					"sweep":          w.sweep,
					"ask":            w.ask,
					"forget":         w.forget,
					"":               w.check,
				})
			})
			f.clean()
		})
	}
}

// defaultChecks is how many sequences rapid makes where the command line says nothing: its own default is for one level.
func defaultChecks(t *testing.T, n string) {
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "rapid.checks" })
	if given {
		return
	}
	if err := flag.Set("rapid.checks", n); err != nil {
		t.Fatal(err)
	}
}

// netted is wired with what the handlers of the model need.
func netted(t *testing.T, net *network, level pgx.TxIsoLevel) *fixture {
	f, wire, _ := wired(t, &Policy{Wait: 20 * time.Second, Isolation: level}, 8, func(cfg *pgxpool.Config) {
		cfg.BeforeConnect = func(context.Context, *pgx.ConnConfig) error {
			if net.gone.Load() { // an error that no resolver waits out
				return &pgconn.PgError{Code: "3D000", Message: "the database is gone"}
			}
			return nil
		}
		cfg.PrepareConn = func(_ context.Context, conn *pgx.Conn) (bool, error) {
			if fault := net.next.Swap(nil); fault != nil {
				faultconn.Of(conn.PgConn().Conn()).Arm(*fault)
			}
			return true, nil
		}
	})
	wire.LoseCancels(true) // else the server's and the cancel's speed would decide
	f.exec(`create table provider (intent text not null, downstream text not null, run int not null)`)
	f.exec(`create table taken (id int primary key)`)
	f.exec(`insert into taken values (1)`)
	f.exec(`create sequence turn`)
	return f
}

// some draws an intent for which ok is true.
func (w *world) some(t *rapid.T, ok func(*intent) bool) *intent {
	var some []*intent
	for _, i := range w.intents {
		if ok(i) {
			some = append(some, i)
		}
	}
	if some == nil {
		t.Skip()
	}
	return rapid.SampledFrom(some).Draw(t, "intent")
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

// mismatch calls with other arguments than the recorded ones.
func (w *world) mismatch(t *rapid.T) {
	i := w.some(t, func(i *intent) bool { return !i.free() && i.args[1] != nil })
	p := w.planFor(t, i)
	if p.end == refused || p.oneTrip && (p.end == unknownAnswered || p.end == unknownGone) {
		t.Skip() // it does not come so far
	}
	p.args, p.ends = 1-i.argsOf, min(p.ends, rollsBack) // there is nothing to resolve
	p.req.Args = w.request(t, i, p.args).Args
	m := w.make(p, nil)
	var reused *KeyReusedError
	if !errors.As(m.err, &reused) || Retryable(m.err) || len(m.runs) != 0 && p.way != WayBatch || m.Raw != nil || m.Replayed {
		t.Fatalf("%s: got %+v, %v, %d runs; want ErrKeyReused", p.name(), m.Result, m.err, len(m.runs))
	}
	if diff := cmp.Diff([]string{"/cents"}, reused.Paths); diff != "" {
		t.Fatalf("the paths that differ (-want +got):\n%s", diff)
	}
	if status, err := w.f.store.Status(w.f.t.Context(), p.req); !errors.Is(err, ErrKeyReused) || status.Answer != nil {
		t.Fatalf("the status of other arguments is %+v, %v; want ErrKeyReused", status, err)
	}
	if p.way == WayTx {
		w.judgeAround(t, p, m)
	}
}

// overlap does other things while a call runs in a transaction: a duplicate in any way, with the same arguments or with
// others, which nobody can tell as long as it runs; a question; a call of another identity, with a behaviour of its own.
func (w *world) overlap(t *rapid.T) {
	i := w.some(t, (*intent).free)
	p := w.planFor(t, i, WayRun, WayTx)
	dup := w.planFor(t, i)
	dup.req.Policy.Wait, dup.ends = NoWait, min(dup.ends, rollsBack) // it would have to wait to find out
	if dup.way == WayBatch {
		dup.behaviour = rapid.SampledFrom(batchBehaviours).Draw(t, "handler")
	}
	other := w.planFor(t, w.some(t, func(other *intent) bool { return other != i }))
	p.beside, other.beside = w.level == pgx.Serializable, w.level == pgx.Serializable // there they may conflict
	var gotDup, gotOther made
	var status toolcall.Status
	var err error
	m := w.make(p, func() {
		gotDup = w.make(dup, nil)
		status, err = w.f.store.Status(w.f.t.Context(), p.req)
		gotOther = w.make(other, nil)
	})
	if !errors.Is(gotDup.err, ErrInProgress) || len(gotDup.runs) != 0 && dup.way != WayBatch || gotDup.Raw != nil {
		t.Fatalf("%s, a duplicate of the running call, got %+v, %v, %d runs; want ErrInProgress", dup.name(), gotDup.Result, gotDup.err, len(gotDup.runs))
	}
	if err != nil || status.State != toolcall.StateRunning || status.Answer != nil {
		t.Fatalf("while it runs the status is %+v, %v", status, err)
	}
	w.judge(t, other, gotOther)
	w.judge(t, p, m)
	if dup.way == WayTx {
		w.judgeAround(t, dup, gotDup)
	}
}

// expire lets a record's time go by.
func (w *world) expire(t *rapid.T) {
	i := w.some(t, (*intent).recorded)
	w.f.exec(sqlAge+` where id = $1`, w.id(i).String())
	i.overdue = true
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
		case !i.expired():
		case i.refuse:
			i.raw = ""
		default:
			i.gone()
		}
	}
}

// ask reads the status, in both ways.
func (w *world) ask(t *rapid.T) {
	i := w.any(t)
	req := w.request(t, i, i.argsOf)
	for label, ask := range map[string]func(context.Context, Request) (toolcall.Status, error){"Status": w.f.store.Status, "Resolve": w.f.store.Resolve} {
		got, err := ask(w.f.t.Context(), req)
		if err != nil || got.State != i.state() || got.ID != w.id(i) {
			t.Fatalf("%s says %+v, %v; want %s", label, got, err, i.state())
		}
		if i.state() == toolcall.StateSucceeded && string(got.Answer) != i.raw || i.state() != toolcall.StateSucceeded && got.Answer != nil {
			t.Fatalf("%s shows the answer %q; want %q of %s", label, got.Answer, i.raw, i.state())
		}
		if (got.Failure != nil) != (i.state() == toolcall.StateFailed) {
			t.Fatalf("%s shows the failure %v of %s", label, got.Failure, i.state())
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
		i.gone()
	}
}
