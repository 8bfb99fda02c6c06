package txidem

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// Swept counts what a sweep did.
type Swept struct {
	Deleted int64 // expired records that are gone
	Emptied int64 // expired records that must stay (Refuse) and lost their answers
}

// sweepBatch is how many records one statement takes: a few milliseconds of work, so that nobody waits for it.
const sweepBatch = 1000

// Sweep removes what has expired. That saves space and nothing else: an expired record answers nobody, swept or not.
// Any number of processes may sweep at the same time, beside calls that take over expired records. It returns what it
// did, also with an error.
func (s *Store) Sweep(ctx context.Context) (Swept, error) {
	var done Swept
	if s.memory != nil {
		done.Deleted = s.memory.sweep()
		return done, nil
	}
	for _, step := range [...]struct {
		sql   string
		count *int64
	}{{s.sql.sweep, &done.Deleted}, {s.sql.empty, &done.Emptied}} {
		for {
			tag, err := s.pool.Exec(ctx, step.sql, sweepBatch)
			if err != nil {
				return done, s.explain(ctx, err)
			}
			*step.count += tag.RowsAffected()
			if tag.RowsAffected() < sweepBatch {
				break
			}
		}
	}
	return done, nil
}

// Sweeper sweeps at intervals. Run one in each process, or in one of them.
type Sweeper struct {
	store    *Store
	interval time.Duration
}

// NewSweeper makes a sweeper. The interval is the time between two sweeps; positive and at most a
// year. A minute suits most.
func NewSweeper(store *Store, interval time.Duration) (*Sweeper, error) {
	if store == nil || interval <= 0 || interval > 365*24*time.Hour {
		return nil, fmt.Errorf("txidem: NewSweeper needs a store and a positive interval of at most a year, not %v", interval)
	}
	return &Sweeper{store: store, interval: interval}, nil
}

// Run sweeps until ctx ends, and returns why it ended. A sweep that fails is logged and tried again at the next
// interval.
func (w *Sweeper) Run(ctx context.Context) error {
	for {
		done, err := w.store.Sweep(ctx)
		if err != nil && ctx.Err() == nil {
			w.store.log.WarnContext(ctx, "txidem: a sweep failed", "error", err, "deleted", done.Deleted, "emptied", done.Emptied)
		}
		timer := time.NewTimer(w.interval*3/4 + rand.N(w.interval/2+1)) // so that processes do not sweep in step
		select {
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		case <-timer.C:
		}
	}
}
