package statustool

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/internal/dbtest"
	"github.com/txonce/txonce/toolcall"
	"github.com/txonce/txonce/txidem"
)

// ledger knows what has been committed. What stands in it was before it did.
type ledger struct {
	mu     sync.Mutex
	ids    []toolcall.ID
	done   []atomic.Bool
	top    atomic.Int64  // how many have begun
	enough chan struct{} // closed when enough was asked
}

const mostWrites = 1 << 17

func newLedger() *ledger {
	return &ledger{ids: make([]toolcall.ID, mostWrites), done: make([]atomic.Bool, mostWrites), enough: make(chan struct{})}
}

// next is the next one to write, until enough was asked.
func (l *ledger) next() (i int, more bool) {
	i = int(l.top.Add(1)) - 1
	return i, !closed(l.enough) && i < mostWrites
}

// some is one that was begun a short time ago, or that is about to be.
func (l *ledger) some() int {
	return int(max(0, min(l.top.Load()+1-rand.Int64N(8), mostWrites-1)))
}

func (l *ledger) name(i int, id toolcall.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ids[i] = id
}

func (l *ledger) id(i int) toolcall.ID {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ids[i]
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// reads asks beside what is written, by the reader that the tool has. ask makes the arguments of a question; what had been committed
// before it was asked is never none.
func (l *ledger) reads(t *testing.T, f *firm, ask func(i int) (arguments, bool)) {
	n := int64(100_000)
	if testing.Short() {
		n /= 10
	}
	r := readerOf(least, f.store, f.runner)
	tools := namesOf(f.idem.Tools())
	var count, waited atomic.Int64
	var readers sync.WaitGroup
	for range 64 {
		readers.Go(func() {
			for count.Load() < n && !t.Failed() {
				i := l.some()
				a, ok := ask(i)
				if !ok {
					continue
				}
				if count.Add(1)%32 == 0 {
					a.wait = 0.05
					waited.Add(1)
				}
				q, problem := a.ask(scope, tools, defaultWait)
				committed := l.done[i].Load()
				s, err := r.follow(t.Context(), q.ask, q.wait, nil)
				if problem != "" || err != nil || s.ID != q.ask.ID || s.State == toolcall.StateFailed || committed && s.State == toolcall.StateNone {
					t.Errorf("%d is %+v (%s, %v), and it was committed before: %v", i, s, problem, err, committed)
				}
			}
		})
	}
	readers.Wait()
	close(l.enough)
	t.Logf("%d reads, %d of which waited, beside %d that were begun", count.Load(), waited.Load(), l.top.Load())
}

var errRolledBack = errors.New("rolled back")

// TestGet_S02_NeverNoneOfACommittedCall: 100,000 questions beside commits, by id and by tool and key, while every third call is rolled
// back first and made again.
func TestGet_S02_NeverNoneOfACommittedCall(t *testing.T) {
	t.Parallel()
	url := dbtest.URL(t)
	f := newFirm(t, dbtest.PoolAt(t, url, nil), Config{}, false)
	l := newLedger()
	elsewhere, err := txidem.New(dbtest.PoolAt(t, url, nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	write := func(i int, fails bool) error {
		req := txidem.Request{Scope: scope, Tool: "issue_refund", Key: strconv.Itoa(i)}
		_, err := txidem.Run(t.Context(), elsewhere, req, func(ctx context.Context, tx pgx.Tx) (receipt, error) {
			if err := effect(ctx, tx, req.Key); err != nil || fails {
				return receipt{}, errors.Join(err, errRolledBack)
			}
			return receipt{Refund: req.Key}, nil
		})
		return err
	}
	var writers sync.WaitGroup
	for range 2 {
		writers.Go(func() {
			for i, more := l.next(); more; i, more = l.next() {
				if i%3 == 0 && !errors.Is(write(i, true), errRolledBack) {
					t.Error("it was not rolled back")
				}
				if err := write(i, false); err != nil {
					t.Error(err)
				}
				l.done[i].Store(true)
			}
		})
	}
	l.reads(t, f, func(i int) (arguments, bool) {
		if key := strconv.Itoa(i); i%2 == 0 {
			return arguments{tool: "issue_refund", key: key}, true
		} else {
			return arguments{id: callID("issue_refund", key).String()}, true
		}
	})
	writers.Wait()
}

// TestGet_S02_NeverNoneOfASubmittedJob: the same of jobs, which are worked beside. They are asked for as soon as they have an id, in
// front of the commit too.
func TestGet_S02_NeverNoneOfASubmittedJob(t *testing.T) {
	t.Parallel()
	url := dbtest.URL(t)
	f := newFirm(t, dbtest.PoolAt(t, url, nil), Config{}, false)
	other := newFirm(t, dbtest.PoolAt(t, url, nil), Config{}, true)
	l := newLedger()
	var writer sync.WaitGroup
	writer.Go(func() {
		for i, more := l.next(); more; i, more = l.next() {
			err := pgx.BeginFunc(t.Context(), other.pool, func(tx pgx.Tx) error {
				id, err := submitTx(t.Context(), tx, other, strconv.Itoa(i))
				l.name(i, id)
				return err
			})
			if err != nil {
				t.Error(err)
			}
			l.done[i].Store(true)
		}
	})
	l.reads(t, f, func(i int) (arguments, bool) {
		id := l.id(i)
		return arguments{id: id.String()}, !id.IsZero()
	})
	writer.Wait()
}
