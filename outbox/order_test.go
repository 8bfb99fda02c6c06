package outbox_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/internal/dbtest"
	"github.com/txonce/txonce/outbox"
	"github.com/txonce/txonce/toolcall"
	"github.com/txonce/txonce/txidem"
)

// lanes is a publisher that sees whether messages of one ordering key ever meet.
type lanes struct {
	t       *testing.T
	mu      sync.Mutex
	busy    map[string]bool
	got     map[string][]toolcall.ID
	arrived atomic.Int64
}

func newLanes(t *testing.T) *lanes {
	return &lanes{t: t, busy: map[string]bool{}, got: map[string][]toolcall.ID{}}
}

func (l *lanes) Deliver(_ context.Context, d outbox.Delivery) (outbox.Outcome, error) {
	l.mu.Lock()
	if l.busy[d.OrderingKey] {
		l.t.Errorf("two messages of key %s are under way", d.OrderingKey)
	}
	l.busy[d.OrderingKey] = true
	l.got[d.OrderingKey] = append(l.got[d.OrderingKey], d.ID)
	l.mu.Unlock()
	runtime.Gosched() // who would meet it may
	l.mu.Lock()
	l.busy[d.OrderingKey] = false
	l.mu.Unlock()
	l.arrived.Add(1)
	return delivered, nil
}

// inOrder compares what arrived with the numbers of the messages, each of which must have arrived once.
func (l *lanes) inOrder(pool *pgxpool.Pool) {
	l.t.Helper()
	want := make(map[string][]toolcall.ID)
	rows, err := pool.Query(l.t.Context(), `select ordering_key, id::text from txonce.message order by seq`)
	if err != nil {
		l.t.Fatal(err)
	}
	var key, text string
	_, err = pgx.ForEachRow(rows, []any{&key, &text}, func() error {
		id, err := toolcall.ParseID(text)
		want[key] = append(want[key], id)
		return err
	})
	if err != nil {
		l.t.Fatal(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, all := range want {
		got := l.got[key]
		if len(got) != len(all) {
			l.t.Errorf("key %s: %d messages arrived of %d", key, len(got), len(all))
			continue
		}
		for i := range all {
			if got[i] != all[i] {
				l.t.Errorf("key %s: at place %d there is another message", key, i)
				break
			}
		}
	}
}

// TestOrder_O02_CommitOrderPerKey is trap 1: producers of one key commit out of the order in which they began, some roll back,
// and three relays deliver all the while: by walking over the keys, and by what is left to them where walks are slow.
func TestOrder_O02_CommitOrderPerKey(t *testing.T) {
	t.Parallel()
	for label, how := range map[string]func(*outbox.Outbox){
		"as it comes": func(*outbox.Outbox) {}, "walking": (*outbox.Outbox).WalkAlways, "walking once": (*outbox.Outbox).WalkOnce,
	} {
		t.Run(label, func(t *testing.T) {
			t.Parallel()
			commitOrder(t, how)
		})
	}
}

func commitOrder(t *testing.T, how func(*outbox.Outbox)) {
	t.Helper()
	keys, each := 20, 500
	if testing.Short() {
		each = 50
	}
	const producers = 40
	url := dbtest.URL(t)
	pool := dbtest.PoolAt(t, url, func(cfg *pgxpool.Config) { cfg.MaxConns = producers })
	l := newLanes(t)
	var box *outbox.Outbox
	for range 3 {
		box = newBox(t, dbtest.PoolAt(t, url, nil), nil, outbox.Destination{Name: "broker", Publisher: l, Retry: outbox.Schedule{0, 0, 0, 0, 0, 0, 0, 0, 0}})
		how(box)
		relay(t, box)
	}
	store := newStore(t, pool, nil)
	var turn, committed atomic.Int64
	var all sync.WaitGroup
	for range producers {
		all.Go(func() {
			for n := turn.Add(1); n <= int64(keys*each); n = turn.Add(1) {
				if produce(t, pool, store, box, n, fmt.Sprint(n%int64(keys))) {
					committed.Add(1)
				}
			}
		})
	}
	all.Wait()
	eventuallyMoves(t, "all have arrived", &l.arrived, committed.Load())
	if l.inOrder(pool); int(committed.Load()) < keys*each*95/100 || committed.Load() == int64(keys*each) {
		t.Errorf("%d of %d were committed", committed.Load(), keys*each)
	}
	t.Logf("%d messages of %d keys", committed.Load(), keys)
}

// produce publishes a message, in a call or in a transaction of its own that stays open for a moment. One in fifty rolls back.
func produce(t *testing.T, pool *pgxpool.Pool, store *txidem.Store, box *outbox.Outbox, n int64, key string) bool {
	var end error
	if rand.N(50) == 0 {
		end = errOops
	}
	m := outbox.Message{Destination: "broker", OrderingKey: key}
	handler := func(ctx context.Context, tx pgx.Tx) (string, error) {
		if _, err := tx.Exec(ctx, `select pg_sleep(random() * 0.003)`); err != nil {
			return "", err
		}
		if _, err := box.PublishTx(ctx, tx, m); err != nil {
			return "", err
		}
		_, err := tx.Exec(ctx, `select pg_sleep(random() * 0.003)`)
		if err == nil {
			err = end
		}
		return "", err
	}
	var err error
	if n%2 == 0 {
		_, err = txidem.Run(t.Context(), store, request(fmt.Sprint(n)), handler)
	} else {
		err = pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error { _, err := handler(t.Context(), tx); return err })
	}
	if end == nil && err != nil {
		t.Error(err)
	}
	return err == nil
}

// eventuallyMoves waits for a number, and gives up when it has not grown for a minute.
func eventuallyMoves(t *testing.T, what string, n *atomic.Int64, want int64) {
	t.Helper()
	for last := int64(-1); last < want; {
		eventually(t, fmt.Sprintf("%s: more than %d of %d", what, last, want), func() bool { return n.Load() > last || n.Load() >= want })
		last = n.Load()
	}
}

// TestOrder_O02_PublishersOfAKeyWaitForEachOther: so that the numbers are in the order of commits, not of inserts. Others do not.
func TestOrder_O02_PublishersOfAKeyWaitForEachOther(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, func(cfg *pgxpool.Config) { cfg.MaxConns = 10 })
	l := newLanes(t)
	box := newBox(t, pool, nil, outbox.Destination{Name: "broker", Publisher: l}, outbox.Destination{Name: "other", Publisher: newReceiver(nil)})
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	keyed := outbox.Message{Destination: "broker", OrderingKey: "k"}
	first, err := box.PublishTx(t.Context(), tx, keyed)
	if err != nil {
		t.Fatal(err)
	}
	second := make(chan toolcall.ID, 1)
	go func() {
		var id toolcall.ID
		_, err := txidem.Run(t.Context(), newStore(t, pool, nil), request("1"), func(ctx context.Context, tx pgx.Tx) (_ string, err error) {
			id, err = box.PublishTx(ctx, tx, keyed)
			return "", err
		})
		if err != nil {
			t.Error(err)
		}
		second <- id
	}()
	eventually(t, "the second publisher waits for the lock", func() bool {
		return get[bool](t, pool, `select exists (select from pg_locks where locktype = 'advisory' and objsubid = 2 and not granted
			and database = (select oid from pg_database where datname = current_database()))`)
	})
	publish(t, pool, box, outbox.Message{Destination: "broker", OrderingKey: "other"}, outbox.Message{Destination: "other", OrderingKey: "k"})
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []toolcall.ID{first, receive(t, "the second message is published", second)}
	relay(t, box)
	eventually(t, "all have arrived", func() bool { return l.arrived.Load() == 3 })
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Equal(l.got["k"], want) {
		t.Errorf("they arrived as %v, want %v", l.got["k"], want)
	}
}

// TestOrder_O02_NoDeadlockBetweenCalls: two calls that publish under the same keys in different orders take the locks in one order.
func TestOrder_O02_NoDeadlockBetweenCalls(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, func(cfg *pgxpool.Config) { cfg.MaxConns = 8 })
	box := newBox(t, pool, nil, mail())
	store := newStore(t, pool, nil)
	var all sync.WaitGroup
	runs := atomic.Int64{}
	for worker := range 8 {
		all.Go(func() {
			for i := range 25 {
				_, err := txidem.Run(t.Context(), store, request(fmt.Sprint(worker, "/", i)), func(ctx context.Context, tx pgx.Tx) (string, error) {
					runs.Add(1)
					for n := range 10 {
						key := n
						if worker%2 == 1 {
							key = 9 - n
						}
						if _, err := box.PublishTx(ctx, tx, outbox.Message{Destination: "mail", OrderingKey: fmt.Sprint(key)}); err != nil {
							return "", err
						}
					}
					return "", nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	if all.Wait(); runs.Load() != 200 {
		t.Errorf("%d runs of 200 calls: some were tried again, behind a deadlock", runs.Load())
	}
}

// TestOrder_O02_KeysTakeTurns: one slot, and more keys than it: those that always have more to send do not keep the others waiting.
func TestOrder_O02_KeysTakeTurns(t *testing.T) {
	t.Parallel()
	for _, busy := range [][]string{{"a", "b", "c"}, {"l", "m", "n"}, {"x", "y", "z"}} {
		pool := dbtest.Pool(t, nil)
		g := newGate(t)
		box := newBox(t, pool, nil, outbox.Destination{Name: "broker", Publisher: g, Concurrency: 1})
		var all []outbox.Message
		for i := range 120 {
			all = append(all, outbox.Message{Destination: "broker", OrderingKey: busy[i%3]})
		}
		for _, key := range []string{"e", "q"} {
			all = append(all, outbox.Message{Destination: "broker", OrderingKey: key, Type: "rare"})
		}
		publish(t, pool, box, all...)
		relay(t, box)
		rare := 0
		for n := 0; rare < 2; n++ {
			v := g.next(t)
			if v.Type == "rare" {
				rare++
			}
			if n-rare == 119 {
				t.Fatalf("all messages of %v came before those of the others", busy)
			}
			v.answers(delivered)
		}
	}
}

// TestOrder_O02_EveryKeyIsVisited: there are more keys than one look visits, and most of them have nothing to send for now.
func TestOrder_O02_EveryKeyIsVisited(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, nil)
	r := newReceiver(nil)
	box := newBox(t, pool, nil, outbox.Destination{Name: "broker", Publisher: r})
	var later, now []outbox.Message
	for i := range 1000 {
		later = append(later, outbox.Message{Destination: "broker", OrderingKey: fmt.Sprintf("%04d", i), Delay: 1e12})
	}
	for _, key := range []string{"0399x", "0400x", "0999x", ""} {
		now = append(now, outbox.Message{Destination: "broker", OrderingKey: key})
	}
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		for _, m := range append(later, now...) {
			if _, err := box.PublishTx(t.Context(), tx, m); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	relay(t, box)
	r.wait(t, len(now))
	publish(t, pool, box, now...)
	r.wait(t, len(now))
}

// TestOrder_O02_OthersDoNotWait is trap 4: a transaction stays open behind PublishTx.
func TestOrder_O02_OthersDoNotWait(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, nil)
	r := newReceiver(nil)
	box := newBox(t, pool, nil, outbox.Destination{Name: "broker", Publisher: r})
	relay(t, box)
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	if _, err := box.PublishTx(t.Context(), tx, outbox.Message{Destination: "broker", OrderingKey: "k"}); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		publish(t, pool, box, outbox.Message{Destination: "broker", OrderingKey: fmt.Sprint(i)}, outbox.Message{Destination: "broker"})
	}
	r.wait(t, 40)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.wait(t, 1)
	if last := r.all()[40]; last.OrderingKey != "k" {
		t.Errorf("the last one is %+v", last)
	}
}

// TestOrder_O02_HeadWaitsForItsNextAttempt, and those behind it with it; nobody else does.
func TestOrder_O02_HeadWaitsForItsNextAttempt(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, nil)
	var refused atomic.Bool
	r := newReceiver(nil)
	r.answer = func(d outbox.Delivery) (outbox.Outcome, error) {
		if d.OrderingKey == "k" && string(d.Body) == "head" && !refused.Swap(true) {
			return busy, nil
		}
		return delivered, nil
	}
	box := newBox(t, pool, nil, outbox.Destination{Name: "broker", Publisher: r, Retry: outbox.Schedule{1 << 50}})
	ids := publish(t, pool, box, outbox.Message{Destination: "broker", OrderingKey: "k", Body: []byte("head")}, outbox.Message{Destination: "broker", OrderingKey: "k"})
	relay(t, box)
	until(t, box, ids[0], func(f outbox.Fate) bool { return f.Reason == "busy" && f.State == toolcall.MessagePending })
	for range 20 {
		publish(t, pool, box, outbox.Message{Destination: "broker", OrderingKey: "l"})
	}
	r.wait(t, 21)
	if f := fate(t, box, ids[1]); f.Attempts != 0 {
		t.Errorf("the second one went before the first: %+v", f)
	}
	due(t, pool, ids[0])
	r.wait(t, 2)
	if all := r.all(); string(all[21].Body) != "head" || all[22].ID != ids[1] {
		t.Errorf("they arrived as %+v", all[21:])
	}
}
