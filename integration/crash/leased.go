package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/toolcall"
	"github.com/txonce/txonce/txidem"
)

// The other system: charges in the same database, written by connections of another pool, each in a transaction of its own.
// It knows downstream keys, but for intents that are blocked when an attempt was cut off. The slow form lives on when its
// client has died.
const (
	sqlCharge = `
insert into charge
select $1::text, $2::int, $3::text, $4::boolean
on conflict (downstream_key) where knows_keys do nothing`
	sqlChargeSlow = `
insert into charge
select $1::text, $2::int, $3::text, $4::boolean from pg_sleep(0.05)
on conflict (downstream_key) where knows_keys do nothing`
	sqlFindCharge = `select attempt from charge where downstream_key = $1`
)

// leased makes the call with an effect outside the database's transaction.
func (h *handler) leased(ctx context.Context) (result, error) {
	h.asked = false
	var ask func(context.Context) (json.RawMessage, bool, error)
	if h.call.Lost == asks {
		ask = h.ask
	}
	return txidem.RunLeased(ctx, h.worker.store, h.request(), h.do, ask)
}

// do is the handler: it charges, and answers with the attempt whose charge is there.
func (h *handler) do(ctx context.Context) (json.RawMessage, error) {
	attempt := h.begin()
	if h.call.Break && !h.call.Open {
		return nil, txidem.NotDone(errBroken)
	}
	if h.call.Refuse {
		h.worker.reaper.handled()
		return nil, txidem.Fail("refused", refusedBy+attempt)
	}
	key, err := h.downstreamKey(ctx, attempt)
	if err != nil {
		return nil, err
	}
	charged, err := h.charge(ctx, key, attempt)
	if err != nil {
		return nil, err
	}
	h.worker.reaper.between()
	if h.call.Slow {
		if _, err := h.worker.provider.Exec(ctx, sqlPause); err != nil {
			return nil, err
		}
	}
	if h.call.Break {
		return nil, errBroken
	}
	return h.leave(ctx, charged)
}

// downstreamKey is how the other system knows the effect.
func (h *handler) downstreamKey(ctx context.Context, attempt string) (string, error) {
	current, ok := toolcall.FromContext(ctx)
	switch {
	case !ok:
		return "", errNoCall
	case h.worker.a.Plant == effectOutsideTx:
		return attempt, nil
	}
	return current.DownstreamKey("charge"), nil
}

// charge is the effect. It returns the attempt that made it: an earlier one, perhaps, where the other system knows keys.
func (h *handler) charge(ctx context.Context, key, attempt string) (charged string, err error) {
	sql := sqlCharge
	if h.worker.reaper.wants(inStatement) {
		sql = sqlChargeSlow
	}
	tag, err := h.worker.provider.Exec(ctx, sql, key, h.call.Intent, attempt, h.call.Lost != blocks)
	if err != nil || tag.RowsAffected() == 1 {
		return attempt, err
	}
	if h.call.Lost == asks && !h.asked {
		h.worker.complain("intent %d was charged before, and nobody asked", h.call.Intent)
	}
	err = h.worker.provider.QueryRow(ctx, sqlFindCharge, key).Scan(&charged)
	return charged, err
}

// ask finds out whether the charge is there.
func (h *handler) ask(ctx context.Context) (json.RawMessage, bool, error) {
	h.asked = true
	key, err := h.downstreamKey(ctx, h.begin())
	if err != nil {
		return nil, false, err
	}
	var charged string
	err = h.worker.provider.QueryRow(ctx, sqlFindCharge, key).Scan(&charged)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	raw, err := h.leave(ctx, charged)
	return raw, true, err
}

// leave ends a run that is to succeed: with an answer, and with what commits together with its record.
func (h *handler) leave(ctx context.Context, charged string) (json.RawMessage, error) {
	current, ok := toolcall.FromContext(ctx)
	if !ok {
		return nil, errNoCall
	}
	if err := current.AtFinish(func(b *pgx.Batch) {
		if h.worker.reaper.wants(commitSlow) {
			b.Queue(sqlSlow)
		}
		b.Queue(sqlCountOne, h.call.Bucket)
	}); err != nil {
		return nil, err
	}
	raw := receipt{Attempt: charged}.encode()
	if err := h.tellTooEarly(ctx, raw); err != nil {
		return nil, err
	}
	h.worker.reaper.handled()
	return raw, nil
}

// complain makes the run fail.
func (w *worker) complain(format string, args ...any) {
	_, _ = fmt.Fprintf(w.stderr, format+"\n", args...)
}
