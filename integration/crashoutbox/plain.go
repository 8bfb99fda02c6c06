package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/txonce/txonce/integration/internal/lives"
	"github.com/txonce/txonce/outbox"
)

// sqlTake is what a relay does that takes a message out of the table and then delivers it.
const sqlTake = `
with taken as (
    delete from txonce.message_pending
     where id = (select id from txonce.message_pending where due_at <= now() order by seq limit 1 for update skip locked)
    returning id)
select m.id, m.destination, m.key, coalesce(m.ordering_key, ''), m.headers, m.body
  from taken t
  join txonce.message m on m.id = t.id`

// relayPlainly is a relay that deletes a message before it delivers it.
func (p *process) relayPlainly(ctx context.Context) error {
	to := newPost(p)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for !p.isLeft() {
				if err := p.takeOne(ctx, to); err != nil { // also where a session was ended
					time.Sleep(lives.LookAgain)
				}
			}
		})
	}
	wg.Wait()
	return nil
}

func (p *process) isLeft() bool {
	select {
	case <-p.left:
		return true
	default:
		return false
	}
}

func (p *process) takeOne(ctx context.Context, to *post) error {
	d := outbox.Delivery{Attempt: 1}
	var id pgtype.UUID
	err := p.pool.QueryRow(ctx, sqlTake).Scan(&id, &d.Destination, &d.Key, &d.OrderingKey, &d.Headers, &d.Body)
	if err != nil {
		return err
	}
	d.ID = id.Bytes
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	_, err = to.Deliver(ctx, d)
	return err
}

// sqlUnlocked writes a message as PublishTx does, but for the lock of its ordering key.
const sqlUnlocked = `
with published as (
    insert into txonce.message (id, scope, tool, destination, effect, key, ordering_key, address, type, headers, body, created_at)
    values (gen_random_uuid(), '', '', $1::text, '', $2::text, nullif($3::text, ''), '', '', $4::jsonb, $5::bytea, clock_timestamp())
    returning id, seq, destination, ordering_key, created_at)
insert into txonce.message_pending (id, seq, destination, ordering_key, due_at)
select id, seq, destination, ordering_key, created_at from published`

// publishUnlocked publishes at once and without a lock.
func publishUnlocked(ctx context.Context, tx pgx.Tx, m outbox.Message) error {
	_, err := tx.Exec(ctx, sqlUnlocked, m.Destination, m.Effect+"-"+nameIn(m.Body), m.OrderingKey, m.Headers, m.Body)
	return err
}

var errNoCall = errors.New("there is no call in the context")
