package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/jobs"
	"github.com/txonce/txonce/txidem"
)

// What is compared inside protected calls, in the order of the table.
const (
	callInserts = iota
	callSubmits
)

// callsBench measures what it costs to submit a job in a protected call, instead of writing a row there.
type callsBench struct {
	bench
	definition *jobs.Definition[jobArgs, receipt]
	runners    sync.Map // by link: they submit only
}

// measureCalls has calls that write a row and calls that submit a job take turns, on both links.
func (j *jobsBench) measureCalls(ctx context.Context) error {
	links, closeLinks, err := openLinks(ctx, j.db)
	if err != nil {
		return err
	}
	defer closeLinks()
	c := &callsBench{definition: jobs.Define("refund_call", func(context.Context, *jobs.Job[jobArgs]) (jobs.Commit[receipt], error) {
		return nil, errors.New("nobody works these")
	}, nil)}
	c.bench = bench{db: j.db, links: links, samples: make(map[cell][]sample), shapes: []shape{
		callInserts: {name: "writes a row", call: callOurs},
		callSubmits: {name: "submits a job", call: c.callSubmit},
	}}
	j.calls = c
	if c.turns, err = countTurns(ctx, j.db, c.shapes); err != nil {
		return err
	}
	for round := range j.options.rounds {
		for _, link := range []int{direct, distant} {
			j.say("round %d of %d: calls, %s", round+1, j.options.rounds, links[link].name)
			if err := j.measureCallsOn(ctx, setting{link, 1}, round); err != nil {
				return err
			}
		}
	}
	return nil
}

// measureCallsOn is one round on one link: from empty tables, both in turn, and a look at what they wrote.
func (j *jobsBench) measureCallsOn(ctx context.Context, set setting, round int) error {
	if err := j.empty(ctx); err != nil {
		return err
	}
	length := min(j.options.time, slice)
	workers := newWorkers(set.workers, nil)
	var made [2]int
	for i, s := range j.calls.shapes { // plans and caches
		n, _, err := drive(ctx, workers, s, j.calls.links[set.link], length)
		if err != nil {
			return err
		}
		made[i] += n
	}
	for pass := range int(j.options.time / length) {
		for turn := range j.calls.shapes {
			c := cell{(turn + pass + round) % len(j.calls.shapes), set}
			n, err := j.calls.sample(ctx, c, workers, length)
			if err != nil {
				return err
			}
			made[c.shape] += n
		}
	}
	return j.verifyCalls(ctx, made)
}

// verifyCalls compares rows with calls: each call left a record, and an effect or a job with its doorbell.
func (j *jobsBench) verifyCalls(ctx context.Context, made [2]int) error {
	var effects, records, queued int
	if err := j.db.admin.QueryRow(ctx, j.sql.queued).Scan(&effects, &records, &queued); err != nil {
		return err
	}
	if effects != made[callInserts] || queued != made[callSubmits] || records != effects+queued {
		return fmt.Errorf("%d calls that write a row and %d that submit a job left %d rows, %d records and %d jobs",
			made[callInserts], made[callSubmits], effects, records, queued)
	}
	return nil
}

// callSubmit is a protected call whose handler does nothing but submit a job.
func (c *callsBench) callSubmit(ctx context.Context, l *link, key string) error {
	runner, err := c.runner(l)
	if err != nil {
		return err
	}
	result, err := txidem.Run(ctx, l.store, request(key), func(ctx context.Context, tx pgx.Tx) (jobs.Handle, error) {
		return c.definition.SubmitTx(ctx, tx, runner, argsFor(1), &jobs.SubmitOpts{Queue: "nobody"})
	})
	if err == nil && result.Replayed {
		return errors.New("a new call was answered from a record")
	}
	return err
}

func (c *callsBench) runner(l *link) (*jobs.Runner, error) {
	if found, ok := c.runners.Load(l); ok {
		return found.(*jobs.Runner), nil
	}
	runner, err := jobs.New(l.pool, &jobs.Config{Schema: c.db.calls}, c.definition)
	if err != nil {
		return nil, err
	}
	found, _ := c.runners.LoadOrStore(l, runner)
	return found.(*jobs.Runner), nil
}

// p50 is the median of a call.
func (c *callsBench) p50(shape int, set setting) time.Duration {
	return time.Duration(median(c.of(shape, set, latency)))
}
