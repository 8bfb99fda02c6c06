package main

import (
	"context"
	"net"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgconn"
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
	turns := &atomic.Int64{}
	l, err := openLink(ctx, db, "counting", 1, counting(db, turns))
	if err != nil {
		return nil, err
	}
	defer l.pool.Close()
	return turnsOf(ctx, l, turns, shapes)
}

// counting dials connections that count their round trips together.
func counting(db *database, turns *atomic.Int64) pgconn.DialFunc {
	dial := dialTo(serverOf(db))
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		return &turnCounter{Conn: c, turns: turns}, err
	}
}

// turnsOf counts on a link whose connections do so.
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
