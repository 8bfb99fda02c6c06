package outbox_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/internal/dbtest"
	"github.com/txonce/txonce/outbox"
	"github.com/txonce/txonce/toolcall"
)

// expire lets the retention of all that has ended pass.
func expire(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	execute(t, pool, `update txonce.message_outcome set expires_at = clock_timestamp() - interval '1 second'`)
}

// TestSweep_O05_TakesWhatIsOver, and nothing that is still needed.
func TestSweep_O05_TakesWhatIsOver(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, nil)
	box := newBox(t, pool, nil, outbox.Destination{Name: "hook", Publisher: poisoned(), KeepDead: time.Hour, Keep: time.Minute})
	ids := publish(t, pool, box,
		outbox.Message{Destination: "hook"}, outbox.Message{Destination: "hook", Type: "poison"}, outbox.Message{Destination: "hook", Type: "poison", OrderingKey: "k"},
		outbox.Message{Destination: "hook", Delay: time.Hour}, outbox.Message{Destination: "hook", OrderingKey: "k"})
	stop := relay(t, box)
	for _, id := range ids[:3] {
		ends(t, box, id)
	}
	stop()
	for i, want := range []time.Duration{time.Minute, time.Hour, time.Hour} {
		keep := get[float64](t, pool, `select extract(epoch from expires_at - ended_at)::double precision from txonce.message_outcome where id = $1::text::uuid`, ids[i].String())
		if diff := keep - want.Seconds(); diff < -1 || diff > 1 {
			t.Errorf("message %d is kept for %v s, want %v", i, keep, want)
		}
	}
	sweep := func(want int64) {
		t.Helper()
		if n, err := box.Sweep(t.Context()); err != nil || n != want {
			t.Errorf("Sweep removes %d, %v; want %d", n, err, want)
		}
	}
	sweep(0)
	expire(t, pool)
	sweep(2)
	for i, want := range []error{outbox.ErrNotFound, outbox.ErrNotFound, nil, nil, nil} {
		if _, err := box.Fate(t.Context(), ids[i]); !errors.Is(err, want) {
			t.Errorf("message %d: %v, want %v", i, err, want)
		}
	}
	if n := get[int](t, pool, `select count(*)::integer from txonce.message_outcome`); n != 1 {
		t.Errorf("%d outcomes are left", n)
	}
	if err := box.Skip(t.Context(), ids[2]); err != nil {
		t.Fatal(err)
	}
	sweep(1)
	if n := messages(t, pool); n != 2 {
		t.Errorf("%d messages are left, want those that wait", n)
	}
}

// TestSweep_O05_TakesAllOfMany: in more than one statement.
func TestSweep_O05_TakesAllOfMany(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, nil)
	box := newBox(t, pool, nil, mail())
	execute(t, pool, `
with m as (
    insert into txonce.message (id, scope, tool, destination, effect, key, address, type, body, created_at)
    select gen_random_uuid(), '', '', 'mail', '', '', '', '', '', now() from generate_series(1, 2500) returning id
)
insert into txonce.message_outcome (id, destination, state, attempts, status, provider_id, reason, ended_at, expires_at)
select id, 'mail', 'delivered', 1, 0, '', '', now(), now() from m`)
	if n, err := box.Sweep(t.Context()); err != nil || n != 2500 || messages(t, pool) != 0 {
		t.Errorf("%d were removed, %v, %d are left", n, err, messages(t, pool))
	}
}

// TestSweep_O05_RelaysSweep by themselves.
func TestSweep_O05_RelaysSweep(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, nil)
	box := newBox(t, pool, &outbox.Config{Sweep: time.Second}, mail())
	id := publish(t, pool, box, outbox.Message{Destination: "mail"})[0]
	relay(t, box)
	ends(t, box, id)
	expire(t, pool)
	eventually(t, "it is gone", func() bool { return messages(t, pool) == 0 })
}

// TestSweep_O05_BesideRedrive: a message that is being sent again is not removed, and one that is removed is not sent again.
func TestSweep_O05_BesideRedrive(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, nil)
	box := newBox(t, pool, nil, outbox.Destination{Name: "hook", Publisher: answers(rejected)})
	stop := relay(t, box)
	var ids []toolcall.ID
	for range 50 {
		ids = append(ids, publish(t, pool, box, outbox.Message{Destination: "hook"})...)
	}
	for _, id := range ids {
		ended(t, box, id, toolcall.MessageFailed, 1)
	}
	stop()
	swept := make(chan error, 1)
	redriven := map[toolcall.ID]bool{}
	for _, id := range ids {
		execute(t, pool, `update txonce.message_outcome set expires_at = now() where id = $1::text::uuid`, id.String())
		go func() {
			_, err := box.Sweep(t.Context())
			swept <- err
		}()
		err := box.Redrive(t.Context(), id)
		if redriven[id] = err == nil; err != nil && !errors.Is(err, outbox.ErrNotFound) {
			t.Errorf("Redrive gives %v", err)
		}
		if err := receive(t, "Sweep returns", swept); err != nil {
			t.Errorf("Sweep gives %v", err)
		}
	}
	for _, id := range ids {
		f, err := box.Fate(t.Context(), id)
		if redriven[id] && (err != nil || f.State != toolcall.MessagePending) || !redriven[id] && !errors.Is(err, outbox.ErrNotFound) {
			t.Errorf("sent again: %v; its fate is %+v, %v", redriven[id], f, err)
		}
	}
	if n := get[int](t, pool, `select count(*)::integer from txonce.message_pending p where not exists (select from txonce.message m where m.id = p.id)`); n != 0 {
		t.Errorf("%d are to be sent and have no body", n)
	}
}

// TestSweep_O11_RetentionEndsTellingToo: an OnOutcome that fails all the time does not fill the tables for ever.
func TestSweep_O11_RetentionEndsTellingToo(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, nil)
	called := make(chan struct{}, 100)
	box := newBox(t, pool, nil, outbox.Destination{
		Name: "hook", Publisher: answers(delivered),
		OnOutcome: func(context.Context, pgx.Tx, outbox.Fate) error { called <- struct{}{}; return errOops },
	})
	publish(t, pool, box, outbox.Message{Destination: "hook"})
	stop := relay(t, box)
	receive(t, "it is told", called)
	eventually(t, "it is put off", func() bool {
		return get[int](t, pool, `select count(*)::integer from txonce.message_outcome where tellings > 0`) == 1
	})
	if n, err := box.Sweep(t.Context()); err != nil || n != 0 {
		t.Errorf("%d were removed, %v", n, err)
	}
	stop()
	expire(t, pool)
	if n, err := box.Sweep(t.Context()); err != nil || n != 1 {
		t.Errorf("%d were removed, %v", n, err)
	}
}
