package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/outbox"
)

// bloat is steady load while somebody holds a snapshot, so that no vacuum removes what is dead (O10).
type bloat struct {
	bench    *outboxBench
	process  *process
	trips    *trips
	claims   claimTimes
	snapshot *pgx.Conn
	states   []bloatState
	began    time.Time // the time of the next state
	last     [2]int    // states: the last one with the snapshot, and the first one behind the vacuum
}

const (
	bloatPerSecond = 1000 // messages, half of them with ordering keys
	bloatKeys      = 1000
	bloatEach      = 2 // messages in a transaction, one of each half
	// mostBehind is how many messages may wait: a relay that cannot keep up is to be seen, not to fill the disk.
	mostBehind = 10_000
	// The load goes on for parts of the time for which the snapshot is held, before it and after it (their reciprocals).
	bloatLead, bloatTail = 10, 5
	// bloatEvery is the time between two states, if the snapshot is held for long enough for five.
	bloatEvery = 30 * time.Second
)

// measureBloat publishes and delivers before a snapshot is taken, while it is held, and after it is released and a vacuum has run.
func (b *outboxBench) measureBloat(ctx context.Context) (err error) {
	if err := b.empty(ctx); err != nil {
		return err
	}
	l := &bloat{bench: b, trips: newTrips()}
	b.bloat = l
	pool, err := l.open(ctx)
	if err != nil {
		return err
	}
	defer pool.Close()
	defer func() { err = errors.Join(err, l.release(context.WithoutCancel(ctx))) }()
	stop := l.process.start(ctx)
	defer func() { err = errors.Join(err, stop()) }()
	loadCtx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	load := l.load(loadCtx, fail)
	failed := l.watch(loadCtx)
	published := load() // its own error is why the watch ends
	if failed != nil {
		return failed
	}
	if err := await(ctx, published, l.trips.arrived); err != nil {
		return err
	}
	if err := stop(); err != nil {
		return err
	}
	return l.verify(ctx)
}

// open makes the process, whose relay has a pool of its own that tells how long claims take. Messages are kept for a minute and
// then swept, so that tables in which nothing is dead stay as they are.
func (l *bloat) open(ctx context.Context) (*pgxpool.Pool, error) {
	cfg := l.bench.there.pool.Config()
	cfg.ConnConfig.Tracer = &l.claims
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	l.process, err = l.bench.newProcessWith(pool, &outbox.Config{Sweep: 5 * time.Second},
		outbox.Destination{Concurrency: l.bench.options.concurrency, Keep: time.Minute, Publisher: outbox.Func(l.trips.deliver)})
	if err != nil {
		pool.Close()
	}
	return pool, err
}

// load publishes at a steady rate, until end is called, which returns how many messages it has published.
func (l *bloat) load(ctx context.Context, fail context.CancelCauseFunc) (end func() (published int)) {
	var over atomic.Bool
	var begun, done atomic.Int64
	began := time.Now()
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		_ = together(mostWorkers, func(int) error {
			for !over.Load() {
				n := int(begun.Add(1)) - 1
				if !pause(ctx, time.Until(began.Add(time.Duration(n)*time.Second*bloatEach/bloatPerSecond))) || !l.room(ctx) {
					return nil
				}
				if err := l.publish(ctx, n*bloatEach); err != nil {
					fail(err)
					return nil
				}
				done.Add(bloatEach)
			}
			return nil
		})
	}()
	return func() int {
		over.Store(true)
		<-finished
		return int(done.Load())
	}
}

// room waits until not too many messages wait.
func (l *bloat) room(ctx context.Context) bool {
	for l.trips.waiting() > mostBehind {
		if !pause(ctx, 10*time.Millisecond) {
			return false
		}
	}
	return true
}

func (l *bloat) publish(ctx context.Context, n int) error {
	err := pgx.BeginFunc(ctx, l.bench.here.pool, func(tx pgx.Tx) error {
		for i, key := range []string{"", keyOf(n/bloatEach%bloatKeys, bloatKeys)} {
			if _, err := l.process.PublishTx(ctx, tx, messageOf(key, strconv.Itoa(n+i))); err != nil {
				return err
			}
		}
		return nil
	})
	now := time.Now()
	for i := range bloatEach {
		if err == nil {
			l.trips.committed(n+i, now)
		}
	}
	return err
}

// watch goes through the phases and writes down states.
func (l *bloat) watch(ctx context.Context) error {
	held := l.bench.options.bloat
	l.mark()
	if err := l.spend(ctx, "no snapshot", held/bloatLead); err != nil {
		return err
	}
	if err := l.hold(ctx); err != nil {
		return err
	}
	if err := l.spend(ctx, "snapshot held", held); err != nil {
		return err
	}
	l.last[0] = len(l.states) - 1
	if err := l.release(ctx); err != nil {
		return err
	}
	if err := l.bench.settle(ctx); err != nil {
		return err
	}
	l.last[1] = len(l.states)
	if err := l.state(ctx, "released, vacuumed"); err != nil {
		return err
	}
	return l.spend(ctx, "afterwards", held/bloatTail)
}

// spend writes down a state now and then, and at the end.
func (l *bloat) spend(ctx context.Context, name string, length time.Duration) error {
	began := time.Now()
	every := min(bloatEvery, l.bench.options.bloat/5)
	for left := length; left > 0; left = length - time.Since(began) {
		if left < every*3/2 {
			every = left
		}
		if !pause(ctx, every) {
			return context.Cause(ctx)
		}
		if err := l.state(ctx, fmt.Sprintf("%s, %v", name, time.Since(began).Round(time.Second))); err != nil {
			return err
		}
	}
	return nil
}

const sqlHold = `begin isolation level repeatable read; select count(*) from (select from pg_class limit 1) c`

// hold takes the snapshot, in the database that the messages are in.
func (l *bloat) hold(ctx context.Context) (err error) {
	if l.snapshot, err = pgx.ConnectConfig(ctx, l.bench.db.admin.Config()); err != nil {
		return err
	}
	_, err = l.snapshot.Exec(ctx, sqlHold)
	return err
}

func (l *bloat) release(ctx context.Context) error {
	if l.snapshot == nil {
		return nil
	}
	conn := l.snapshot
	l.snapshot = nil
	return conn.Close(ctx)
}

// verify fails unless each message was delivered by one attempt: those that are still kept say so in the tables, and all by
// their numbers.
func (l *bloat) verify(ctx context.Context) error {
	got, err := l.bench.tally(ctx)
	if err != nil {
		return err
	}
	if n := l.trips.alone(); n > 0 || got.pending > 0 || got.messages != got.delivered || got.attempts != got.delivered {
		return fmt.Errorf("the tables hold %+v, and %d messages were delivered twice", got, n)
	}
	return l.claims.seen()
}
