package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/jobs"
	"github.com/txonce/txonce/statustool"
	"github.com/txonce/txonce/toolcall"
	"github.com/txonce/txonce/txidem"
)

// patience is how long one question waits: no errand takes so long.
const patience = 2 * hangs

// ears is a process in which many wait.
type ears struct {
	pool    *pgxpool.Pool
	store   *txidem.Store
	runner  *jobs.Runner
	handler http.Handler
	looks   looks
	opened  connCount
}

// openEars opens a pool of so many connections at most, with what one has who asks.
func openEars(ctx context.Context, s *statusBench, size int, cfg *jobs.Config, definition jobs.Registered) (*ears, error) {
	e := &ears{}
	pool, err := pgxpool.ParseConfig(s.db.server.URL())
	if err != nil {
		return nil, err
	}
	pool.MaxConns = int32(size)
	pool.ConnConfig.DialFunc = e.opened.dial(dialTo(serverOf(s.db)))
	pool.ConnConfig.LookupFunc = func(_ context.Context, host string) ([]string, error) { return []string{host}, nil }
	if e.pool, err = pgxpool.NewWithConfig(ctx, pool); err != nil {
		return nil, err
	}
	if err := e.prepare(s, cfg, definition); err != nil {
		e.pool.Close()
		return nil, err
	}
	return e, nil
}

func (e *ears) prepare(s *statusBench, cfg *jobs.Config, definition jobs.Registered) (err error) {
	if e.store, err = txidem.New(e.pool, &txidem.Config{Schema: s.db.calls}); err != nil {
		return err
	}
	if e.runner, err = jobs.New(e.pool, cfg, definition); err != nil {
		return err
	}
	e.handler, err = statustool.Handler(&statustool.HandlerConfig{Scope: scopeOf, MaxWait: patience},
		&lookedAtStore{e.store, &e.looks}, &lookedAtRunner{e.runner, &e.looks})
	return err
}

// wait asks until the end.
func (e *ears) wait(ctx context.Context, id toolcall.ID) error {
	code, body := get(ctx, e.handler, id, fmt.Sprintf("wait=%v", patience.Seconds()))
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case code != http.StatusOK || !strings.HasPrefix(body, `{"state":"succeeded"`):
		return fmt.Errorf("the status tool answered %d: %s", code, body)
	}
	return nil
}

func (e *ears) conns() int { return int(e.opened.most.Load()) }

// lookedAtStore and lookedAtRunner are sources that count how often they are asked, and are what they are otherwise.
type lookedAtStore struct {
	*txidem.Store
	looks *looks
}

func (l *lookedAtStore) Statuses(ctx context.Context, asks []toolcall.Ask) ([]toolcall.Status, error) {
	return l.looks.at(ctx, l.Store, asks)
}

type lookedAtRunner struct {
	*jobs.Runner
	looks *looks
}

func (l *lookedAtRunner) Statuses(ctx context.Context, asks []toolcall.Ask) ([]toolcall.Status, error) {
	return l.looks.at(ctx, l.Runner, asks)
}

// looks are questions to sources.
type looks struct {
	mu sync.Mutex
	lookCount
}

type lookCount struct {
	n    int
	took time.Duration
}

func (l *looks) at(ctx context.Context, source toolcall.Source, asks []toolcall.Ask) ([]toolcall.Status, error) {
	began := time.Now()
	statuses, err := source.Statuses(ctx, asks)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n++
	l.took += time.Since(began)
	return statuses, err
}

func (l *looks) now() lookCount {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lookCount
}

// since returns how many there have been, and their mean.
func (l *looks) since(before lookCount) (n int, mean time.Duration) {
	now := l.now()
	n = now.n - before.n
	return n, (now.took - before.took) / time.Duration(max(n, 1))
}

// connCount counts connections.
type connCount struct{ open, most atomic.Int64 }

func (c *connCount) dial(dial pgconn.DialFunc) pgconn.DialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		n := c.open.Add(1)
		for most := c.most.Load(); n > most && !c.most.CompareAndSwap(most, n); most = c.most.Load() {
		}
		return &countedConn{Conn: conn, closed: sync.OnceFunc(func() { c.open.Add(-1) })}, nil
	}
}

type countedConn struct {
	net.Conn
	closed func()
}

func (c *countedConn) Close() error {
	defer c.closed()
	return c.Conn.Close()
}
