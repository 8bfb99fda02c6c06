package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/txonce/txonce/outbox"
)

// tripsPerSecond is how many messages are published in a second where their times are measured one by one.
const tripsPerSecond = 200

// tripCell is one setting in which the time from COMMIT to the delivery is measured.
type tripCell struct {
	name string
	near bool // the relay is in the process that publishes; another one hears of nothing and looks now and then
	keys int

	took []time.Duration
}

func tripCells() []*tripCell {
	return []*tripCell{
		{name: "unordered, relay in the same process", near: true},
		{name: "1000 keys, relay in the same process", near: true, keys: 1000},
		{name: "unordered, relay in another process"},
		{name: "1000 keys, relay in another process", keys: 1000},
	}
}

// The cell that the last line tells of, in the order of tripCells.
const nearTrips = 0

// measureTrips measures one cell after the other.
func (b *outboxBench) measureTrips(ctx context.Context) error {
	b.trips = tripCells()
	for _, c := range b.trips {
		b.say("%d messages a second: %s", tripsPerSecond, c.name)
		if err := b.measureTrip(ctx, c); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return nil
}

func (b *outboxBench) measureTrip(ctx context.Context, c *tripCell) (err error) {
	if err := b.empty(ctx); err != nil {
		return err
	}
	t := newTrips()
	from, err := b.newProcess(b.here.pool, t.deliver)
	if err != nil {
		return err
	}
	relay := from
	if !c.near {
		if relay, err = b.newProcess(b.there.pool, t.deliver); err != nil {
			return err
		}
	}
	stop := relay.start(ctx)
	defer func() { err = errors.Join(err, stop()) }()
	published, err := t.publish(ctx, b, from, c.keys)
	if err != nil {
		return err
	}
	if err := await(ctx, published, t.arrived); err != nil {
		return err
	}
	if err := stop(); err != nil {
		return err
	}
	c.took = t.since()
	return b.verify(ctx, published)
}

// trips are messages on their way. Their bodies begin with their numbers.
type trips struct {
	mu         sync.Mutex
	sent, came map[int]time.Time // what has only been committed, and what has only been delivered
	took       []time.Duration   // of those of which both are known
	n          int               // how many these have been
}

func newTrips() *trips {
	return &trips{sent: make(map[int]time.Time), came: make(map[int]time.Time)}
}

func (t *trips) deliver(_ context.Context, d outbox.Delivery) (outbox.Outcome, error) {
	now := time.Now()
	text, _, _ := strings.Cut(string(d.Body), " ")
	n, err := strconv.Atoi(text)
	if err != nil {
		return outbox.Outcome{Class: outbox.Rejected, Reason: "it has no number"}, nil
	}
	t.mark(n, now, t.came, t.sent, 1)
	return outbox.Outcome{Class: outbox.Delivered}, nil
}

// committed notes that the COMMIT of a message has been answered, which may be after it was delivered.
func (t *trips) committed(n int, at time.Time) { t.mark(n, at, t.sent, t.came, -1) }

// mark notes one end of a trip. sign is 1 where that is the delivery.
func (t *trips) mark(n int, at time.Time, mine, others map[int]time.Time, sign time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	other, ok := others[n]
	if !ok {
		mine[n] = at
		return
	}
	delete(others, n)
	t.took = append(t.took, sign*at.Sub(other))
	t.n++
}

// arrived is how many have been delivered and their COMMITs answered.
func (t *trips) arrived() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.n
}

// waiting is how many have been committed and not delivered.
func (t *trips) waiting() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.sent)
}

// alone is how many have one end only: in the end, those that were delivered twice.
func (t *trips) alone() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.sent) + len(t.came)
}

// since returns the times of those that came since it was asked last.
func (t *trips) since() (took []time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	took, t.took = t.took, nil
	return took
}

// publish has calls publish at random times: those that keep step with the looks would tell nothing.
func (t *trips) publish(ctx context.Context, b *outboxBench, p *process, keys int) (published int, err error) {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var calls sync.WaitGroup
	at := time.Now()
	for until := at.Add(b.options.trips); at.Before(until) || published == 0; published++ {
		at = at.Add(time.Duration(rand.ExpFloat64() * float64(time.Second) / tripsPerSecond))
		if !pause(ctx, time.Until(at)) {
			break
		}
		n := published
		calls.Go(func() {
			if err := t.call(ctx, b.here, p, n, keyOf(rand.IntN(max(1, keys)), keys)); err != nil {
				fail(err)
			}
		})
	}
	calls.Wait()
	return published, context.Cause(ctx)
}

func (t *trips) call(ctx context.Context, l *link, p *process, n int, key string) error {
	m := messageOf(key, strconv.Itoa(n))
	if err := publishByCall(ctx, l, p, someKey(), m, answerOnly); err != nil {
		return err
	}
	t.committed(n, time.Now())
	return nil
}
