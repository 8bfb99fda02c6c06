package outbox

import (
	"context"
	"math/rand/v2"
)

// sweepBatch is how many messages one statement removes: some milliseconds of work.
const sweepBatch = 1000

// Sweep removes messages that have ended and whose retention is over, and returns how many. A relay does it by itself, each
// Config.Sweep. A message that keeps others waiting stays.
func (o *Outbox) Sweep(ctx context.Context) (removed int64, err error) {
	for {
		tag, err := o.exec(ctx, o.sql.sweep, sweepBatch)
		if err != nil {
			return removed, explain(ctx, err)
		}
		removed += tag.RowsAffected()
		if tag.RowsAffected() < sweepBatch {
			return removed, nil
		}
	}
}

func (r *relay) sweepAlways(ctx context.Context) {
	for sleep(ctx, r.cfg.Sweep*3/4+rand.N(r.cfg.Sweep/2)) { // so that processes do not sweep in step
		if _, err := r.Sweep(ctx); err != nil && ctx.Err() == nil {
			r.log.WarnContext(ctx, "outbox: a sweep failed", "error", err)
		}
	}
}
