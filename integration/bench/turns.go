package main

import (
	"context"
	"net"
	"sync/atomic"
)

// turnCounter counts the round trips of connections: each time that the client writes after it has read.
type turnCounter struct {
	net.Conn
	read  atomic.Bool
	turns *atomic.Int64
}

func (c *turnCounter) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.read.Store(true)
	return n, err
}

func (c *turnCounter) Write(p []byte) (int, error) {
	if c.read.Swap(false) {
		c.turns.Add(1)
	}
	return c.Conn.Write(p)
}

// countTurns returns the round trips of one call of each shape, with everything prepared.
func countTurns(ctx context.Context, db *database, shapes []shape) ([]float64, error) {
	l, turns, err := openCounting(ctx, db, 1)
	if err != nil {
		return nil, err
	}
	defer l.pool.Close()
	return turnsOf(ctx, l, turns, shapes)
}

// openCounting opens a link of so many connections that counts their round trips.
func openCounting(ctx context.Context, db *database, size int) (*link, *atomic.Int64, error) {
	turns := &atomic.Int64{}
	dial := dialTo(serverOf(db))
	l, err := openLink(ctx, db, "counting", size, func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		return &turnCounter{Conn: c, turns: turns}, err
	})
	return l, turns, err
}

// turnsOf counts on such a link.
func turnsOf(ctx context.Context, l *link, turns *atomic.Int64, shapes []shape) ([]float64, error) {
	const warm, counted = 3, 10
	known, err := makeKnown(ctx, l, 1)
	if err != nil {
		return nil, err
	}
	w := newWorkers(1, known)[0]
	found := make([]float64, len(shapes))
	for i, s := range shapes {
		for n := range warm + counted {
			if n == warm {
				turns.Store(0)
			}
			if err := s.call(ctx, l, w.keyFor(s)); err != nil {
				return nil, err
			}
		}
		found[i] = float64(turns.Load()) / counted
	}
	return found, nil
}
