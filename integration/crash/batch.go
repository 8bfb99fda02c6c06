package main

import (
	"context"
	"encoding/json"

	"github.com/txonce/txonce/txidem"
)

// queue is the handler of a batch. It writes what the others write, without reading anything.
func (h *handler) queue(ctx context.Context, b *txidem.Batch) (json.RawMessage, error) {
	attempt := h.begin()
	if h.worker.a.Plant == effectOutsideTx {
		if _, err := h.worker.pool.Exec(ctx, sqlEffect, h.call.Intent, attempt); err != nil {
			return nil, err
		}
	} else {
		b.MustAffect(1, sqlEffect, h.call.Intent, attempt)
	}
	b.MustAffect(1, sqlCountOne, h.call.Bucket)
	b.Queue(sqlTotal)
	switch {
	case h.worker.reaper.wants(commitSlow):
		b.Queue(sqlSlow)
	case h.call.Slow:
		b.Queue(sqlPause)
	}
	if h.call.Break {
		return nil, errBroken
	}
	raw := receipt{Attempt: attempt}.encode()
	if err := h.tellTooEarly(ctx, raw); err != nil {
		return nil, err
	}
	h.worker.reaper.handled()
	if h.call.Refuse {
		return nil, txidem.Fail("refused", refusedBy+attempt)
	}
	return raw, nil
}
