package riverpub_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/txonce/txonce/internal/dbtest"
	"github.com/txonce/txonce/outbox/outboxtest"
	"github.com/txonce/txonce/outbox/riverpub"
)

// The suite counts what arrives with each attempt, so River is told to forget what it has: that it does not is tested in this package.
func TestPublisher_O07_Conformance(t *testing.T) {
	t.Parallel()
	outboxtest.Run(t, func(t *testing.T) outboxtest.Harness {
		pool := dbtest.Pool(t, nil)
		client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{Schema: riverSchema, Test: river.TestConfig{DisableUniqueEnforcement: true}})
		if err != nil {
			t.Fatal(err)
		}
		db := &behaves{pool: pool}
		return outboxtest.Harness{
			Publisher: newPublisher(t, db, client, nil),
			Behave:    func(a outboxtest.Ability) { db.as.Store(a) },
			Received:  func() []outboxtest.Received { return received(t, pool) },
			Cannot: map[outboxtest.Ability]string{
				outboxtest.Reject:   "River refuses no job for good that New lets through",
				outboxtest.Throttle: "River has no such answer",
			},
		}
	})
}

func received(t *testing.T, pool *pgxpool.Pool) (all []outboxtest.Received) {
	rows, _ := pool.Query(context.Background(), `select args from `+riverSchema+`.river_job order by id`)
	encoded, err := pgx.CollectRows(rows, pgx.RowTo[[]byte])
	if err != nil {
		t.Error(err)
	}
	for _, one := range encoded {
		var args riverpub.Args
		if err := json.Unmarshal(one, &args); err != nil {
			t.Error(err)
		}
		all = append(all, outboxtest.Received{ID: args.ID.String(), Key: args.Key, Headers: args.Headers, Body: args.Body})
	}
	return all
}

// behaves is a database that behaves as the suite says.
type behaves struct {
	pool *pgxpool.Pool
	as   atomic.Value // outboxtest.Ability
}

func (b *behaves) Begin(ctx context.Context) (pgx.Tx, error) {
	as, _ := b.as.Load().(outboxtest.Ability)
	if as == outboxtest.Refuse || as == outboxtest.Dead {
		return nil, errors.New("no connection")
	}
	tx, err := b.pool.Begin(ctx)
	return behavingTx{tx, as}, err
}

type behavingTx struct {
	pgx.Tx
	as outboxtest.Ability
}

func (tx behavingTx) Commit(ctx context.Context) error {
	err := tx.Tx.Commit(ctx)
	switch tx.as {
	case outboxtest.Cut:
		return errors.Join(err, errors.New("the connection broke"))
	case outboxtest.Hang:
		<-ctx.Done()
		return errors.Join(err, ctx.Err())
	}
	return err
}
