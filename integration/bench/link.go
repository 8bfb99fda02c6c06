package main

import (
	"context"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/internal/delayproxy"
	"github.com/txonce/txonce/txidem"
)

// mostWorkers is how many workers a cell has at most, and so how many connections a link has.
const mostWorkers = 16

// link is a way to the server, with one pool for all shapes.
type link struct {
	name      string
	pool      *pgxpool.Pool
	store     *txidem.Store
	sql       queries
	record    recordKind    // of floor
	roundTrip time.Duration // of "select 1", measured
}

// The links. The first is whatever the server's URL says: a socket, if the server is a throwaway one.
const (
	direct = iota
	distant
)

// openLinks returns the links in the order of their constants.
func openLinks(ctx context.Context, db *database) (_ []*link, closeAll func(), err error) {
	var closers []func()
	closeAll = func() {
		for _, c := range slices.Backward(closers) {
			c()
		}
	}
	defer func() {
		if err != nil {
			closeAll()
		}
	}()
	server := serverOf(db)
	proxy, err := delayproxy.New(server, &delayproxy.Config{Delay: 500 * time.Microsecond})
	if err != nil {
		return nil, nil, err
	}
	closers = append(closers, func() { _ = proxy.Close() })
	name := "socket"
	if server.Network != "unix" {
		name = server.Network + " to " + server.Address
	}
	var links []*link
	for _, way := range []struct {
		name string
		dial pgconn.DialFunc
	}{
		direct: {name, dialTo(server)},
		// In memory up to the proxy: what the proxy costs is no part of any shape.
		distant: {"1 ms network", func(ctx context.Context, _, _ string) (net.Conn, error) { return proxy.Dial(ctx) }},
	} {
		l, err := openLink(ctx, db, way.name, mostWorkers, way.dial)
		if err != nil {
			return nil, nil, err
		}
		closers = append(closers, l.pool.Close)
		if l.roundTrip, err = l.measure(ctx); err != nil {
			return nil, nil, err
		}
		links = append(links, l)
	}
	return links, closeAll, nil
}

func serverOf(db *database) delayproxy.Endpoint {
	cfg := db.admin.Config()
	network, address := pgconn.NetworkAddress(cfg.Host, cfg.Port)
	return delayproxy.Endpoint{Network: network, Address: address}
}

// dialTo ignores where pgx wants to go: its own idea of the host is still what TLS is checked against.
func dialTo(e delayproxy.Endpoint) pgconn.DialFunc {
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, e.Network, e.Address)
	}
}

// openPool is the pool of a link: it keeps size connections.
func openPool(ctx context.Context, db *database, size int, dial pgconn.DialFunc) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(db.server.URL())
	if err != nil {
		return nil, err
	}
	cfg.ConnConfig.DialFunc = dial
	// The host of the URL need not mean anything where the dial function goes.
	cfg.ConnConfig.LookupFunc = func(_ context.Context, host string) ([]string, error) { return []string{host}, nil }
	cfg.MaxConns, cfg.MinConns = int32(size), int32(size)
	return pgxpool.NewWithConfig(ctx, cfg)
}

// openLink opens size connections, all of them now.
func openLink(ctx context.Context, db *database, name string, size int, dial pgconn.DialFunc) (*link, error) {
	pool, err := openPool(ctx, db, size, dial)
	if err != nil {
		return nil, err
	}
	l := &link{name: name, pool: pool, sql: db.sql}
	if err := l.prepare(ctx, db, size); err != nil {
		pool.Close()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return l, nil
}

func (l *link) prepare(ctx context.Context, db *database, size int) (err error) {
	if l.store, err = txidem.New(l.pool, &txidem.Config{Schema: db.calls}); err != nil {
		return err
	}
	if err := l.connect(ctx, size); err != nil {
		return err
	}
	return l.learnRecord(ctx)
}

func (l *link) connect(ctx context.Context, size int) error {
	for range size {
		c, err := l.pool.Acquire(ctx)
		if err != nil {
			return err
		}
		defer c.Release() // behind the last one: they are all open at once
	}
	return nil
}

// measure returns the median round trip of a statement that costs the server next to nothing.
func (l *link) measure(ctx context.Context) (time.Duration, error) {
	c, err := l.pool.Acquire(ctx)
	if err != nil {
		return 0, err
	}
	defer c.Release()
	const warm, counted = 20, 200
	var took []time.Duration
	for range warm + counted {
		began := time.Now()
		if _, err := c.Exec(ctx, `select 1`); err != nil {
			return 0, err
		}
		took = append(took, time.Since(began))
	}
	return median(took[warm:]), nil
}
