package txidem

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// turns counts round trips: a write behind a read begins one.
type turns struct {
	mu    sync.Mutex
	count int
	wrote bool
}

func (w *turns) written() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.wrote {
		w.count++
	}
	w.wrote = true
}

func (w *turns) read() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wrote = false
}

func (w *turns) take() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.count
	w.count = 0
	return n
}

// dial counts what goes over the connections that the function makes.
func (w *turns) dial(dial pgconn.DialFunc) pgconn.DialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		return countedConn{conn, w}, err
	}
}

// counted has a pool of one connection, whose round trips are counted.
func (w *turns) counted(cfg *pgxpool.Config) {
	cfg.MaxConns = 1
	cfg.ConnConfig.DialFunc = w.dial(cfg.ConnConfig.DialFunc)
	cfg.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
}

type countedConn struct {
	net.Conn
	turns *turns
}

func (c countedConn) Write(b []byte) (int, error) {
	c.turns.written()
	return c.Conn.Write(b)
}

func (c countedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.turns.read()
	}
	return n, err
}

func TestRun_Q01_CostsThreeRoundTripsLikeABareTransaction(t *testing.T) {
	t.Parallel()
	w := &turns{}
	f := setup(t, nil, w.counted)
	fails := func(context.Context, pgx.Tx) (string, error) { return "", Fail("no", "no") }
	for label, c := range map[string]struct {
		handler func(i int) handlerFunc
		policy  *Policy
		key     func(i int) string
		want    int
	}{
		"first call":        {func(int) handlerFunc { return writes("x") }, nil, func(i int) string { return name("a", i) }, 3},
		"serializable":      {func(int) handlerFunc { return writes("x") }, &Policy{Isolation: pgx.Serializable}, func(i int) string { return name("b", i) }, 3},
		"replay":            {func(int) handlerFunc { return writes("x") }, nil, func(int) string { return "c" }, 2},
		"recorded failure":  {func(int) handlerFunc { return fails }, nil, func(i int) string { return name("d", i) }, 2},
		"replay of failure": {func(int) handlerFunc { return fails }, nil, func(int) string { return "e" }, 2},
	} {
		for i := range 4 { // the first ones describe the statements
			w.take()
			req := request(c.key(i))
			req.Policy = c.policy
			_, err := Run(t.Context(), f.store, req, c.handler(i))
			if _, failure := failureIn(err); err != nil && !failure {
				t.Fatalf("%s: %v", label, err)
			}
			if n := w.take(); i == 3 && n != c.want {
				t.Errorf("%s: %d round trips, want %d", label, n, c.want)
			}
		}
	}
}

// asked counts the questions that calls send: batches.
type asked struct{ n atomic.Int64 }

func (a *asked) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}
func (a *asked) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
func (a *asked) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	a.n.Add(1)
	return ctx
}
func (a *asked) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (a *asked) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

func TestRun_R04_OneAsksForAllWhoWaitInAProcess(t *testing.T) {
	t.Parallel()
	const n = 1000
	a := &asked{}
	f := setup(t, &Policy{Wait: time.Minute}, func(cfg *pgxpool.Config) { cfg.ConnConfig.Tracer = a })
	elsewhere, err := New(f.pool, nil) // another process, as far as waiting goes
	if err != nil {
		t.Fatal(err)
	}
	winner := (&fixture{t: t, pool: f.pool, store: elsewhere}).hold(request("k"), "k")
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			if got, err := Run(t.Context(), f.store, request("k"), writes("k")); err != nil || !got.Replayed {
				t.Errorf("a duplicate got %+v, %v", got, err)
			}
		})
	}
	eventually(t, "all wait", func() bool { return f.store.waits.waiting(request("k")) == n })
	before := a.n.Load()
	eventually(t, "the one who asks has asked three times", func() bool { return a.n.Load() >= before+3 })
	if err := winner.end(nil); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	// Had each of them asked once more, at the end alone, it would have been a thousand questions.
	if questions := a.n.Load() - before; questions > n/4 {
		t.Errorf("%d duplicates that waited asked %d questions", n, questions)
	}
}
