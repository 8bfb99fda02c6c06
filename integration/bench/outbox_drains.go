package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/outbox"
)

// drainCell is one setting in which a relay finds a backlog.
type drainCell struct {
	name  string
	keys  int
	takes time.Duration // a delivery

	rates []float64 // messages per second, from the start of the relay until all are delivered and that is written down
}

func drainCells() []*drainCell {
	var all []*drainCell
	for _, takes := range []time.Duration{0, 20 * time.Millisecond} {
		all = append(all,
			&drainCell{name: fmt.Sprintf("unordered, a delivery takes %v", takes), takes: takes},
			&drainCell{name: fmt.Sprintf("1000 keys, a delivery takes %v", takes), takes: takes, keys: 1000})
	}
	return all
}

// drainRounds is how often a backlog is drained: publishing it takes longer than draining it.
const drainRounds = 3

// pilers publish a backlog, perSubmit messages in each transaction: few enough that no two have the same ordering key at a time.
const pilers = 8

// measureDrains has the cells take turns.
func (b *outboxBench) measureDrains(ctx context.Context) error {
	b.drains = drainCells()
	rounds := min(drainRounds, b.options.rounds)
	for round := range rounds {
		for _, c := range b.drains {
			b.say("round %d of %d: a backlog of %d, %s", round+1, rounds, b.options.backlog, c.name)
			if err := b.drain(ctx, c); err != nil {
				return fmt.Errorf("a backlog, %s: %w", c.name, err)
			}
		}
	}
	return nil
}

func (b *outboxBench) drain(ctx context.Context, c *drainCell) (err error) {
	if err := b.empty(ctx); err != nil {
		return err
	}
	var delivered atomic.Int64
	p, err := b.newProcess(b.here.pool, func(ctx context.Context, _ outbox.Delivery) (outbox.Outcome, error) {
		if c.takes > 0 && !pause(ctx, c.takes) {
			return outbox.Outcome{}, context.Cause(ctx)
		}
		delivered.Add(1)
		return outbox.Outcome{Class: outbox.Delivered}, nil
	})
	if err != nil {
		return err
	}
	if err := b.pile(ctx, p, c.keys); err != nil {
		return err
	}
	if err := b.settle(ctx); err != nil {
		return err
	}
	began := time.Now()
	stop := p.start(ctx)
	defer func() { err = errors.Join(err, stop()) }()
	if err := await(ctx, b.options.backlog, func() int { return int(delivered.Load()) }); err != nil {
		return err
	}
	if err := stop(); err != nil { // it has written down all that was delivered
		return err
	}
	c.rates = append(c.rates, float64(b.options.backlog)/time.Since(began).Seconds())
	return b.verify(ctx, b.options.backlog)
}

// pile publishes a backlog, ordering key by ordering key.
func (b *outboxBench) pile(ctx context.Context, p *process, keys int) error {
	var next atomic.Int64
	return together(pilers, func(int) error {
		for {
			last := int(next.Add(perSubmit))
			first := last - perSubmit
			if first >= b.options.backlog {
				return nil
			}
			err := pgx.BeginFunc(ctx, b.here.pool, func(tx pgx.Tx) error {
				for n := first; n < min(last, b.options.backlog); n++ {
					if _, err := p.PublishTx(ctx, tx, messageOf(keyOf(n%max(1, keys), keys), "a refund")); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
	})
}
