package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/txonce/txonce/integration/internal/lives"
	"github.com/txonce/txonce/outbox"
	"github.com/txonce/txonce/outbox/webhook"
)

// shop is the name of the destination.
const shop = "shop"

// timeout is the time of an attempt. A killed relay keeps its messages from the others for that and ten seconds.
const timeout = 500 * time.Millisecond

// destination is the one there is, for processes that deliver with this publisher, or with none only publish.
func destination(p outbox.Publisher) outbox.Destination {
	retry := make(outbox.Schedule, 100) // kills and refusals must not use them up
	for n := range retry {
		retry[n] = 500 * time.Millisecond
	}
	return outbox.Destination{Name: shop, Publisher: p, Timeout: timeout, Retry: retry, Concurrency: 8}
}

func (p *process) hooks() (*webhook.Publisher, error) {
	return webhook.New(&webhook.Config{URL: p.a.Receiver, BareKey: true, AllowHTTP: true, AllowPrivate: true})
}

// relay delivers messages until the process dies or is to leave.
func (p *process) relay(ctx context.Context) error {
	hooks, err := p.hooks()
	if err != nil {
		return err
	}
	box, err := outbox.New(p.pool, nil, destination(hooks))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		<-p.left
		cancel()
	}()
	if err := box.Run(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// sqlTake is what a relay does that takes a message out of the table and then delivers it.
const sqlTake = `
with taken as (
    delete from txonce.message_pending
     where id = (select id from txonce.message_pending where due_at <= now() order by seq limit 1 for update skip locked)
    returning id)
select m.id, m.destination, m.key, m.body
  from taken t
  join txonce.message m on m.id = t.id`

// relayPlainly is a relay that deletes a message before it delivers it.
func (p *process) relayPlainly(ctx context.Context) error {
	hooks, err := p.hooks()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		<-p.left
		cancel()
	}()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for ctx.Err() == nil {
				if err := p.takeOne(ctx, hooks); err != nil { // also where there is none
					time.Sleep(lives.LookAgain)
				}
			}
		})
	}
	wg.Wait()
	return nil
}

func (p *process) takeOne(ctx context.Context, to outbox.Publisher) error {
	d := outbox.Delivery{Attempt: 1}
	var id pgtype.UUID
	if err := p.pool.QueryRow(ctx, sqlTake).Scan(&id, &d.Destination, &d.Key, &d.Body); err != nil {
		return err
	}
	d.ID = id.Bytes
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	_, err := to.Deliver(ctx, d)
	return err
}
