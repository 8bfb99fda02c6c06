package outbox_test

import (
	"context"
	"fmt"
	"math"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/internal/dbtest"
	"github.com/txonce/txonce/internal/faultconn"
	"github.com/txonce/txonce/internal/pgturns"
	"github.com/txonce/txonce/outbox"
	"github.com/txonce/txonce/toolcall"
)

// TestSettle_O03_WhateverThePublisherSays is noted, together with what others say at the same time.
func TestSettle_O03_WhateverThePublisherSays(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, nil)
	long := strings.Repeat("x\x00\xff", 1<<20)
	says := map[string]func() (outbox.Outcome, error){
		"nothing": func() (outbox.Outcome, error) { return outbox.Outcome{}, nil },
		"NUL": func() (outbox.Outcome, error) {
			return outbox.Outcome{Class: outbox.Rejected, Reason: "a\x00b\xff", ProviderID: "\x00c\xfe", Response: []byte{0, 255}}, nil
		},
		"much": func() (outbox.Outcome, error) {
			return outbox.Outcome{Class: outbox.Rejected, Reason: long, ProviderID: long, Response: []byte(long), Status: math.MaxInt64}, nil
		},
		"never": func() (outbox.Outcome, error) {
			return outbox.Outcome{Class: outbox.Retry, RetryAfter: math.MaxInt64, Throttled: true, Status: math.MinInt64}, nil
		},
		"gone, at length": func() (outbox.Outcome, error) { return outbox.Outcome{Class: outbox.Gone, Reason: long}, nil },
		"a class":         func() (outbox.Outcome, error) { return outbox.Outcome{Class: 77}, nil },
		"an error":        func() (outbox.Outcome, error) { return outbox.Outcome{}, fmt.Errorf("a\x00\xff%s", long) },
		"a panic":         func() (outbox.Outcome, error) { panic("a\x00\xff" + long) },
		"Goexit":          func() (outbox.Outcome, error) { runtime.Goexit(); panic("unreachable") },
	}
	want := map[string]toolcall.MessageState{
		"nothing": toolcall.MessageUnknown, "NUL": toolcall.MessageFailed, "much": toolcall.MessageFailed, "never": toolcall.MessageFailed,
		"gone, at length": toolcall.MessageFailed, "a class": toolcall.MessageUnknown, "an error": toolcall.MessageUnknown, "a panic": toolcall.MessageUnknown, "Goexit": toolcall.MessageUnknown,
	}
	dest := []outbox.Destination{mail()}
	ids := map[string]toolcall.ID{}
	for label, say := range says {
		name := strings.NewReplacer(" ", "_", ",", "").Replace(label)
		dest = append(dest, outbox.Destination{
			Name: name, Retry: outbox.Schedule{},
			Publisher: outbox.Func(func(context.Context, outbox.Delivery) (outbox.Outcome, error) { return say() }),
		})
	}
	box := newBox(t, pool, nil, dest...)
	for label := range says {
		name := strings.NewReplacer(" ", "_", ",", "").Replace(label)
		ids[label] = publish(t, pool, box, outbox.Message{Destination: name}, outbox.Message{Destination: "mail"})[0]
	}
	relay(t, box)
	for label, id := range ids {
		f := ended(t, box, id, want[label], 1)
		if len(f.Reason) > 1000 || len(f.ProviderID) > 255 || len(f.Response) > 64<<10 {
			t.Errorf("%s: %d bytes of reason, %d of id, %d of response", label, len(f.Reason), len(f.ProviderID), len(f.Response))
		}
	}
	if f := fate(t, box, ids["NUL"]); f.Reason != "ab" || f.ProviderID != "c" || string(f.Response) != "\x00\xff" {
		t.Errorf("%+v", f)
	}
}

// TestSettle_O03_ConnectionsAreCut while attempts are under way: nothing is lost, nothing counts that was not delivered.
func TestSettle_O03_ConnectionsAreCut(t *testing.T) {
	t.Parallel()
	url := dbtest.URL(t)
	cfg, err := pgxpool.ParseConfig(url) // itself it is not cut, also where others share their connections
	if err != nil {
		t.Fatal(err)
	}
	cfg.MaxConns = 1
	cutter, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cutter.Close)
	r := newReceiver(nil)
	var arrived sync.Map
	r.answer = func(d outbox.Delivery) (outbox.Outcome, error) {
		arrived.Store(d.ID, true)
		return delivered, nil
	}
	dest := outbox.Destination{Name: "hook", Publisher: r, Timeout: 100 * time.Millisecond}
	box := newBox(t, dbtest.PoolAt(t, url, nil), nil, dest)
	looker := newBox(t, cutter, nil, dest)
	relay(t, box)
	relay(t, newBox(t, dbtest.PoolAt(t, url, nil), nil, dest))
	var ids []toolcall.ID
	for i := range 200 {
		ids = append(ids, publish(t, cutter, looker, outbox.Message{Destination: "hook", OrderingKey: string("abc"[i%3])})...)
		if i%10 == 5 {
			execute(t, cutter, `select pg_terminate_backend(pid) from pg_stat_activity 
				where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'`)
		}
	}
	for _, id := range ids {
		if f := ends(t, looker, id); f.State != toolcall.MessageDelivered {
			t.Errorf("%+v", f)
		}
		if _, ok := arrived.Load(id); !ok {
			t.Errorf("%s counts as delivered, and has not arrived", id)
		}
	}
	if n := get[int](t, cutter, `select count(*)::integer from txonce.message_pending`); n != 0 {
		t.Errorf("%d are left", n)
	}
}

// wired is a pool whose connections can be cut. arm, where it is not nil, says for which write of SQL a connection gets that fault.
type wired struct {
	faultconn.Dialer
	mu   sync.Mutex
	all  []*faultconn.Conn
	arms func(pgturns.Turn) bool
	then faultconn.Then
}

func (w *wired) pool(t *testing.T, url string) *pgxpool.Pool {
	return dbtest.PoolAt(t, url, func(cfg *pgxpool.Config) {
		cfg.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := w.DialFunc(ctx, network, address)
			if err != nil {
				return nil, err
			}
			c, scanner := faultconn.Of(conn), &pgturns.Scanner{}
			w.mu.Lock()
			defer w.mu.Unlock()
			w.all = append(w.all, c)
			if w.arms != nil {
				c.Arm(faultconn.Fault{Write: func(b []byte) bool { return w.arms(scanner.Turn(b)) }, Then: w.then})
			}
			return conn, nil
		}
	})
}

func (w *wired) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.all {
		c.Cut()
	}
}

// TestSettle_O03_AnswerIsLost: a result that was noted by a try whose answer was lost did not come too late, and its outcome is told.
func TestSettle_O03_AnswerIsLost(t *testing.T) {
	t.Parallel()
	var lost atomic.Int64
	w := &wired{then: faultconn.CutAtAnswer, arms: func(turn pgturns.Turn) bool {
		return turn.Has("insert into") && turn.Has(".message_outcome (id") && lost.Add(1) <= 2
	}}
	url := dbtest.URL(t)
	log, told := &logbook{}, make(chan outbox.Fate, 10)
	r := newReceiver(nil)
	box := newBox(t, w.pool(t, url), &outbox.Config{Logger: log.logger()}, outbox.Destination{
		Name: "hook", Publisher: r, OnOutcome: func(_ context.Context, _ pgx.Tx, f outbox.Fate) error { told <- f; return nil },
	})
	pool := dbtest.PoolAt(t, url, nil)
	id := publish(t, pool, box, outbox.Message{Destination: "hook"})[0]
	relay(t, box)
	if f := receive(t, "it is told", told); f.ID != id || f.State != toolcall.MessageDelivered || f.Attempts != 1 || len(r.all()) != 1 {
		t.Errorf("told of %+v", f)
	}
	eventually(t, "the relay has its answer", func() bool { return log.count("answer was lost") > 0 || log.count("an attempt is over") > 0 })
	if log.count(tooLate) != log.count("answer was lost") {
		t.Error("the relay says that it came too late")
	}
	if lost.Load() == 0 {
		t.Error("no answer was lost")
	}
}

// TestSettle_O03_DatabaseIsAway when an attempt ends: its result is noted when the database is back.
func TestSettle_O03_DatabaseIsAway(t *testing.T) {
	t.Parallel()
	w := &wired{}
	url := dbtest.URL(t)
	log, g := &logbook{}, newGate(t)
	dest := outbox.Destination{Name: "hook", Publisher: g, Timeout: 10 * time.Minute}
	box := newBox(t, w.pool(t, url), &outbox.Config{Logger: log.logger()}, dest)
	pool := dbtest.PoolAt(t, url, nil)
	looker := newBox(t, pool, nil, dest)
	id := publish(t, pool, looker, outbox.Message{Destination: "hook"})[0]
	relay(t, box)
	v := g.next(t)
	w.Down(true)
	w.cut()
	v.answers(delivered)
	eventually(t, "the relay tries in vain to note it, and to claim", func() bool {
		return log.count("could not be noted; trying") > 2 && log.count("could not be claimed") > 1
	})
	if f := fate(t, looker, id); f.State != toolcall.MessageDelivering {
		t.Errorf("meanwhile it is %+v", f)
	}
	w.Down(false)
	ended(t, looker, id, toolcall.MessageDelivered, 1)
	next := publish(t, pool, looker, outbox.Message{Destination: "hook"})[0] // and the relay goes on
	g.next(t).answers(delivered)
	ended(t, looker, next, toolcall.MessageDelivered, 1)
}

// TestSettle_R11_UnderSerializable: a database whose transactions are serializable, or repeat their reads, by default has relays
// meet more often, and loses nothing.
func TestSettle_R11_UnderSerializable(t *testing.T) {
	t.Parallel()
	dbtest.SkipPooled(t, "a pooler does not pass on settings of a session")
	for _, level := range []string{"serializable", "repeatable read"} {
		url := dbtest.URL(t)
		strict := func(cfg *pgxpool.Config) { cfg.ConnConfig.RuntimeParams["default_transaction_isolation"] = level }
		pool := dbtest.PoolAt(t, url, strict)
		r := answers(busy, delivered)
		dest := outbox.Destination{Name: "hook", Publisher: r, Retry: outbox.Schedule{time.Millisecond}}
		box := newBox(t, pool, nil, dest)
		for range 3 {
			relay(t, newBox(t, dbtest.PoolAt(t, url, strict), nil, dest))
		}
		var ids []toolcall.ID
		for i := range 100 {
			ids = append(ids, publish(t, pool, box, outbox.Message{Destination: "hook"}, outbox.Message{Destination: "hook", OrderingKey: string("abc"[i%3])})...)
		}
		for _, id := range ids {
			if f := ends(t, box, id); f.State != toolcall.MessageDelivered {
				t.Errorf("%s: %+v", level, f)
			}
		}
	}
}

// TestSettle_O03_RowThatSomebodyHolds: an operator who locks a message keeps no other result from being noted.
func TestSettle_O03_RowThatSomebodyHolds(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, func(cfg *pgxpool.Config) { cfg.MaxConns = 10 })
	g := newGate(t)
	box := newBox(t, pool, nil, outbox.Destination{Name: "hook", Publisher: g, Timeout: 10 * time.Minute})
	ids := publish(t, pool, box, some("hook", 10)...)
	relay(t, box)
	var visits []*visit
	for range ids {
		visits = append(visits, g.next(t))
	}
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	if _, err := tx.Exec(t.Context(), `select from txonce.message_pending where id = $1::text::uuid for update`, ids[4].String()); err != nil {
		t.Fatal(err)
	}
	for _, v := range visits {
		v.answers(delivered)
	}
	for i, id := range ids {
		if i != 4 {
			ended(t, box, id, toolcall.MessageDelivered, 1)
		}
	}
	if f := fate(t, box, ids[4]); f.State != toolcall.MessageDelivering {
		t.Errorf("the one that is held is %+v", f)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	ended(t, box, ids[4], toolcall.MessageDelivered, 1)
}
