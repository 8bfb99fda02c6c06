package main

import (
	"context"
	"fmt"
	"sync"
)

// What is compared inside protected calls, in the order of the table.
const (
	callWithout = iota
	callWith
)

// publishBench measures what a message costs a protected call that has an effect as well.
type publishBench struct {
	bench
	outbox    *outboxBench
	processes sync.Map // by link: they publish only
}

// publishSettings are those in which both calls take turns.
func publishSettings() []setting {
	return []setting{{direct, 1}, {direct, mostWorkers}, {distant, 1}}
}

// measureCalls has calls with and without a message take turns. No relay is running.
func (b *outboxBench) measureCalls(ctx context.Context) error {
	links, closeLinks, err := openLinks(ctx, b.db)
	if err != nil {
		return err
	}
	defer closeLinks()
	p := &publishBench{outbox: b}
	p.bench = bench{db: b.db, links: links, samples: make(map[cell][]sample), shapes: []shape{
		callWithout: {name: "an effect", call: callOurs},
		callWith:    {name: "and a message", call: p.callPublishes},
	}}
	b.calls = p
	if p.turns, err = countTurns(ctx, b.db, p.shapes); err != nil {
		return err
	}
	if b.db.server.PID() != 0 {
		for _, l := range links {
			pids, err := backends(ctx, l)
			if err != nil {
				return err
			}
			p.pids = append(p.pids, pids...)
		}
	}
	for round := range b.options.rounds {
		for _, set := range publishSettings() {
			b.say("round %d of %d: calls, %s, %d worker(s)", round+1, b.options.rounds, links[set.link].name, set.workers)
			if err := p.measureOn(ctx, set, round); err != nil {
				return err
			}
		}
	}
	return nil
}

// measureOn is one round of one setting: from empty tables, both in turn, and a look at what they wrote.
func (p *publishBench) measureOn(ctx context.Context, set setting, round int) error {
	if err := p.outbox.empty(ctx); err != nil {
		return err
	}
	o := p.outbox.options
	length := min(o.time, slice)
	workers := newWorkers(set.workers, nil)
	var made [2]int
	for i, s := range p.shapes { // plans and caches
		n, _, err := drive(ctx, workers, s, p.links[set.link], length)
		if err != nil {
			return err
		}
		made[i] += n
	}
	for pass := range int(o.time / length) {
		for turn := range p.shapes {
			c := cell{(turn + pass + round) % len(p.shapes), set}
			n, err := p.sample(ctx, c, workers, length)
			if err != nil {
				return err
			}
			made[c.shape] += n
		}
	}
	return p.verify(ctx, made)
}

// verify compares rows with calls: each left an effect and a record, and those that publish a message that waits.
func (p *publishBench) verify(ctx context.Context, made [2]int) error {
	var effects, records, messages int
	if err := p.db.admin.QueryRow(ctx, p.outbox.sql.written).Scan(&effects, &records, &messages); err != nil {
		return err
	}
	if all := made[callWithout] + made[callWith]; effects != all || records != all || messages != made[callWith] {
		return fmt.Errorf("%d calls without a message and %d with one left %d effects, %d records and %d messages",
			made[callWithout], made[callWith], effects, records, messages)
	}
	return nil
}

// callPublishes is callOurs, and a message.
func (p *publishBench) callPublishes(ctx context.Context, l *link, key string) error {
	from, ok := p.processes.Load(l)
	if !ok {
		made, err := p.outbox.newProcess(l.pool, nil)
		if err != nil {
			return err
		}
		from, _ = p.processes.LoadOrStore(l, made)
	}
	return publishByCall(ctx, l, from.(*process), key, messageOf("", "a refund"), l.handler(key))
}
