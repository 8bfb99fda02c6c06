package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// peersBench is a run of "bench peers": the same call by others' libraries and by ours (Q01, Q03).
type peersBench struct {
	bench   // of the calls
	options peersOptions
	sql     peersQueries
	jobs    *jobsBench
}

// The peers that are compared in calls, in the order of the table. The last two say where the limit lies: what is to be paid without
// any library.
const (
	peerDBOSTwoPools = iota
	peerDBOS         // on one pool, which is its quicker way
	peerOurs
	peerBatch
	peerFloor
	peerBare
	peers
)

// peerSlice is the time that a peer has before it is the other's turn.
const peerSlice = 250 * time.Millisecond

// peerSettings are those in which the peers take turns.
func peerSettings() []setting { return []setting{{direct, 1}, {direct, mostWorkers}} }

// runPeers measures everything and prints the report on stdout, its progress on stderr.
func runPeers(ctx context.Context, o peersOptions, stdout, stderr io.Writer) (err error) {
	began := time.Now()
	db, err := openDatabase(ctx, o.url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.close(context.WithoutCancel(ctx))) }()
	p := newPeersBench(db, o, stderr)
	p.say("PostgreSQL %s, %s", db.server.Version(), db.server.Source())
	defer func() { err = errors.Join(err, p.drop(context.WithoutCancel(ctx))) }()
	for _, part := range []func(context.Context) error{p.countTurns, p.measureCalls, p.jobs.measureSides} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	return p.report(stdout, time.Since(began))
}

func newPeersBench(db *database, o peersOptions, progress io.Writer) *peersBench {
	return &peersBench{
		bench: bench{db: db, samples: make(map[cell][]sample), progress: progress}, options: o, sql: peersQueriesFor(db.calls),
		jobs: newJobsBench(db, jobsOptions{rounds: o.rounds, time: o.time}, progress),
	}
}

// drop drops what DBOS made. An interrupt inside a statement has closed the connection, which the database opens again.
func (p *peersBench) drop(ctx context.Context) error {
	if err := p.db.reconnect(ctx); err != nil {
		return err
	}
	_, err := p.db.admin.Exec(ctx, p.sql.drop)
	return err
}

func peerShapes(d *dbosSides) []shape {
	return []shape{
		peerDBOSTwoPools: {name: "DBOS, two pools", call: d.twoPools.call},
		peerDBOS:         {name: "DBOS, one pool", call: d.onePool.call},
		peerOurs:         {name: "txidem.Run", call: callOurs},
		peerBatch:        {name: "txidem.RunBatch", call: callBatch},
		peerFloor:        {name: "transaction with the record", call: callFloor},
		peerBare:         {name: "transaction", call: callBare},
	}
}

// with has the link of the peers that dial makes, and DBOS launched on it.
func (p *peersBench) with(ctx context.Context, dial pgconn.DialFunc, do func(*link, *dbosSides) error) (err error) {
	l, err := openLink(ctx, p.db, "socket", dbosConns, dial)
	if err != nil {
		return err
	}
	defer l.pool.Close()
	d, err := launchSides(ctx, p.db, l, dial)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.shutdown()) }()
	return do(l, d)
}

// countTurns counts the round trips of all.
func (p *peersBench) countTurns(ctx context.Context) error {
	turns := &atomic.Int64{}
	return p.with(ctx, counting(p.db, turns), func(l *link, d *dbosSides) (err error) {
		p.turns, err = turnsOf(ctx, l, turns, peerShapes(d))
		return err
	})
}

// measureCalls has the peers take turns.
func (p *peersBench) measureCalls(ctx context.Context) error {
	return p.with(ctx, dialTo(serverOf(p.db)), func(l *link, d *dbosSides) error {
		p.links, p.shapes = []*link{direct: l}, peerShapes(d)
		return p.measureRounds(ctx)
	})
}

func (p *peersBench) measureRounds(ctx context.Context) error {
	for round := range p.options.rounds {
		for _, set := range peerSettings() {
			p.say("round %d of %d: calls with %d worker(s)", round+1, p.options.rounds, set.workers)
			if err := p.measureOn(ctx, set, round); err != nil {
				return err
			}
		}
	}
	return nil
}

// measureOn is one round of one setting: from empty tables, all in turn, and a look at what they wrote.
func (p *peersBench) measureOn(ctx context.Context, set setting, round int) error {
	if _, err := p.db.admin.Exec(ctx, p.sql.empty); err != nil {
		return err
	}
	if err := p.db.writeOut(ctx); err != nil {
		return err
	}
	length := min(p.options.time, peerSlice)
	workers := newWorkers(set.workers, nil)
	var made [peers]int
	for i, s := range p.shapes { // plans and caches
		n, _, err := drive(ctx, workers, s, p.links[set.link], length)
		if err != nil {
			return err
		}
		made[i] += n
	}
	for pass := range int(p.options.time / length) {
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

// peersTally is what is in the tables: effects, those of different keys, calls and workflows that have one, and all records.
type peersTally struct{ effects, keys, calls, twoPools, onePool, records int }

// verify fails unless each call had its effect once, and left its peer's record and no other's.
func (p *peersBench) verify(ctx context.Context, made [peers]int) error {
	var got peersTally
	err := p.db.admin.QueryRow(ctx, p.sql.tally).Scan(&got.effects, &got.keys, &got.calls, &got.twoPools, &got.onePool, &got.records)
	if err != nil {
		return err
	}
	want := peersTally{
		calls: made[peerOurs] + made[peerBatch] + made[peerFloor], twoPools: made[peerDBOSTwoPools], onePool: made[peerDBOS],
	}
	want.records = want.calls + want.twoPools + want.onePool
	want.effects = want.records + made[peerBare]
	want.keys = want.effects
	if got != want {
		return fmt.Errorf("the tables hold %+v, but the calls that were made should have left %+v", got, want)
	}
	return nil
}

func (p *peersBench) say(format string, args ...any) {
	fmt.Fprintf(p.progress, "bench-peers: "+format+"\n", args...)
}
