package outbox

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Run relays messages to the destinations that have a Publisher, until ctx ends; then it begins no more attempts, waits for
// those that are under way, for as long as Destination.Timeout, and returns why ctx ended. Any number of processes may run
// relays. A database that is away is waited for. It takes up to four connections of the pool, each for moments and none while
// an attempt is under way; OnOutcome has one for as long as it runs.
func (o *Outbox) Run(ctx context.Context) error {
	if !o.running.TryLock() {
		return errors.New("outbox: Run is running already; one relay per outbox is enough")
	}
	defer o.running.Unlock()
	r := newRelay(o)
	if len(r.names) == 0 {
		return errors.New("outbox: no destination has a Publisher, so there is nothing to relay; give one to outbox.New, or do not call Run")
	}
	var aside sync.WaitGroup
	aside.Go(func() { r.tellAlways(ctx) })
	aside.Go(func() { r.sweepAlways(ctx) })
	settled := make(chan struct{})
	go func() {
		defer close(settled)
		r.settleAlways(context.WithoutCancel(ctx))
	}()
	r.claimAlways(ctx)
	r.attempts.Wait()
	close(r.results)
	<-settled
	aside.Wait()
	return context.Cause(ctx)
}

// relay is one run of Run.
type relay struct {
	*Outbox
	names    []string // of the destinations that it delivers to
	slots    map[string]*slots
	results  chan result
	freed    chan struct{} // a slot is free again
	told     chan struct{} // there is an outcome to tell of
	attempts sync.WaitGroup
	alone    sync.WaitGroup // results that are noted one by one
}

func newRelay(o *Outbox) *relay {
	r := &relay{Outbox: o, slots: make(map[string]*slots), freed: make(chan struct{}, 1), told: make(chan struct{}, 1)}
	total := 0
	for _, name := range o.names {
		if d := o.destinations[name]; d.Publisher != nil {
			r.names = append(r.names, name)
			r.slots[name] = &slots{d: d, free: d.Concurrency, pace: o.pace}
			total += d.Concurrency
		}
	}
	r.results = make(chan result, total)
	return r
}

// slots are the attempts that a destination allows at a time, and where the next look at it begins.
type slots struct {
	d *Destination

	mu   sync.Mutex
	free int

	// What follows is the claimer's alone.
	lanes        lanes
	pace         func(took time.Duration) (pause time.Duration) // of walks
	plain, keyed int                                            // what the last look found, without and with an ordering key
	turn         bool                                           // whose turn it is where there is one slot
	key          string                                         // the ordering key that was visited last
	whole        time.Time                                      // when the next look begins at the beginning, and when the last one did
	looked       time.Time
	oldest       time.Duration // how long the oldest message that it found had been due
}

// take takes n slots, or gives them back, and returns how many are left.
func (s *slots) take(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free -= n
	return s.free
}

func (s *slots) left() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.free
}

const (
	// shortest is the pause between two looks that find something: what comes meanwhile is found together.
	shortest = 2 * time.Millisecond
	// mostClaims bounds how many messages one statement claims.
	mostClaims = 200
	// mostVisits bounds how many ordering keys one statement visits.
	mostVisits = 400
	// longestPause is the time between two tries when the database is away.
	longestPause = 5 * time.Second
)

// claimAlways looks for messages that are due and begins attempts, until ctx ends.
func (r *relay) claimAlways(ctx context.Context) {
	pause := shortest
	for ctx.Err() == nil {
		began := time.Now()
		saw, err := r.claim(ctx)
		switch took := time.Since(began); {
		case err != nil:
			r.log.WarnContext(ctx, "outbox: messages could not be claimed; trying again", "error", err)
			pause = min(max(2*pause, r.cfg.Poll), longestPause)
			sleep(ctx, pause)
		case saw.more:
			pause = shortest
		case saw.found > 0:
			pause = shortest
			sleep(ctx, pause)
		case saw.walking: // a look that finds nothing takes a fifth of the time
			pause = max(shortest, 4*took)
			sleep(ctx, pause)
		default:
			pause = min(max(2*pause, 4*took), r.cfg.Poll)
			if r.rest(ctx, pause) {
				pause = shortest / 2
			}
		}
	}
}

// rest waits before the next look, and reports whether it was woken.
func (r *relay) rest(ctx context.Context, pause time.Duration) (woken bool) {
	sleep(ctx, shortest)
	timer := time.NewTimer(pause - shortest)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-r.woken:
		return true
	case <-r.freed:
		return true
	}
	return false
}

// sleep waits, and reports whether ctx lasted.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
