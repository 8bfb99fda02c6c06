package txidemtest

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/multitracer"
	"github.com/jackc/pgx/v5/pgxpool"
)

// kit is one check of one tool.
type kit struct {
	tool Tool
	test string // to start again, or nothing
	url  string
	app  string // application_name of all sessions of the tool's

	stage *stage
	pool  *pgxpool.Pool // the tool's
	judge *pgxpool.Pool // ours

	intent  int             // the last one
	counted map[int]int     // effects, by intent, of calls in which nothing was found
	staying map[string]bool // goroutines that were waited for in vain, by the functions with which they began
	shape   shape           // of a call without faults
	missed  bool            // the last point was not reached
	stuck   atomic.Bool     // something does not end: what comes would wait for it, or be blamed for it
}

// Intents are numbers that fit into Postgres' integer, and another check of the same database has others.
const (
	intentsPerCheck = 1 << 12
	checks          = 1 << 18
)

// open connects. The kit must be closed.
func open(ctx context.Context, url, test string, tool Tool) (*kit, error) {
	k := &kit{tool: tool, test: test, url: url, counted: make(map[int]int), staying: make(map[string]bool), stage: &stage{}}
	k.app = fmt.Sprintf("txidemtest-%016x", rand.Uint64())
	k.intent = intentsPerCheck * (1 + rand.IntN(checks-1))
	cfg, err := k.config()
	if err != nil {
		return nil, err
	}
	if k.judge, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
		return nil, fmt.Errorf("txidemtest: connect: %w", err)
	}
	if err = k.connect(ctx); err != nil {
		k.judge.Close()
		return nil, err
	}
	return k, nil
}

// config is that of the tool's pool, as its author has it.
func (k *kit) config() (*pgxpool.Config, error) {
	cfg, err := pgxpool.ParseConfig(k.url)
	if err != nil {
		return nil, fmt.Errorf("txidemtest: the database's URL: %w", err)
	}
	if k.tool.Pool != nil {
		k.tool.Pool(cfg)
	}
	return cfg, nil
}

// leastConns is how many connections the tool's pool has at least: two calls at once may need two each.
const leastConns = 4

// connect makes the tool's pool, whose connections can be broken.
func (k *kit) connect(ctx context.Context) error {
	cfg, err := k.config()
	if err != nil {
		return err
	}
	cfg.MaxConns = max(cfg.MaxConns, leastConns)
	conn := cfg.ConnConfig
	conn.RuntimeParams = maps.Clone(conn.RuntimeParams)
	conn.RuntimeParams["application_name"] = k.app
	conn.AfterNetConnect = k.stage.afterNetConnect(conn.AfterNetConnect)
	if ours := (&tracer{k.stage}); conn.Tracer == nil {
		conn.Tracer = ours
	} else {
		conn.Tracer = multitracer.New(conn.Tracer, ours)
	}
	next := cfg.AfterConnect
	cfg.AfterConnect = func(ctx context.Context, c *pgx.Conn) error {
		if next != nil {
			if err := next(ctx, c); err != nil {
				return err
			}
		}
		return getReady(ctx, c)
	}
	if k.pool, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
		return fmt.Errorf("txidemtest: connect: %w", err)
	}
	return nil
}

// close gives up what is the kit's. A tool that keeps connections cannot hold it up for long.
func (k *kit) close() {
	k.judge.Close()
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		k.pool.Close()
	}()
	select {
	case <-closed:
	case <-time.After(forConns):
	}
}

// next returns an intent that was never called.
func (k *kit) next() int {
	k.intent++
	return k.intent
}

// count counts the effects of an intent.
func (k *kit) count(ctx context.Context, intent int) (n int, err error) {
	if err := k.judge.QueryRow(ctx, k.tool.Effects, strconv.Itoa(intent)).Scan(&n); err != nil { // as text: it fits every type of parameter
		return 0, fmt.Errorf("txidemtest: Tool.Effects must give one number for the intent $1: %w", err)
	}
	return n, nil
}
