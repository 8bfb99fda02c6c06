package txidem

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// TestRun_R11_SerializableCallsDoNotFailEachOther makes calls that have nothing to do with each other, from an empty table
// on. Postgres sees which pages a SERIALIZABLE transaction has read, and an absent key lies on the page into which all others
// insert. So the record is read in front of the transaction. The same program with the read inside it shows that the test
// would tell.
func TestRun_R11_SerializableCallsDoNotFailEachOther(t *testing.T) {
	t.Parallel()
	const workers = 16
	for label, c := range map[string]struct {
		calls int
		right func(share float64) bool // of the calls, that needed a repeat
		run   func(context.Context, *Store, Request, handler) error
	}{
		"read in front": {2000, func(share float64) bool { return share <= 0.01 }, func(ctx context.Context, s *Store, req Request, h handler) error {
			_, err := Run(ctx, s, req, func(ctx context.Context, tx pgx.Tx) (json.RawMessage, error) { return h(ctx, tx) })
			return err
		}},
		"read inside": {500, func(share float64) bool { return share > 0.05 }, runReadingInside},
	} {
		t.Run(name(label), func(t *testing.T) {
			t.Parallel()
			f := setup(t, &Policy{Isolation: pgx.Serializable, Attempts: 100}, func(cfg *pgxpool.Config) { cfg.MaxConns = workers })
			var runs, next atomic.Int64
			var wg sync.WaitGroup
			for range workers {
				wg.Go(func() {
					for i := next.Add(1); i <= int64(c.calls) && !t.Failed(); i = next.Add(1) {
						key := name("k", i)
						if err := c.run(t.Context(), f.store, request(key), func(ctx context.Context, tx pgx.Tx) ([]byte, error) {
							runs.Add(1)
							return []byte(`1`), write(ctx, tx, key)
						}); err != nil {
							t.Error(err)
						}
					}
				})
			}
			wg.Wait()
			share := float64(runs.Load()-int64(c.calls)) / float64(c.calls)
			t.Logf("%d calls, %d runs: %.2f %% repeated", c.calls, runs.Load(), 100*share)
			if !c.right(share) {
				t.Errorf("%.2f %% of the calls were repeated", 100*share)
			}
			if n := f.records(); n != c.calls {
				t.Errorf("%d records, want %d", n, c.calls)
			}
			f.idle()
		})
	}
}

// runReadingInside is run with turn 1 as it must not be: the record is read in the transaction that will insert it.
func runReadingInside(ctx context.Context, s *Store, req Request, h handler) error {
	id, err := s.identify(req)
	if err != nil {
		return err
	}
	for {
		id.policy.Isolation = pgx.ReadCommitted // the batch is that of READ COMMITTED, but for its first statement
		conn, err := s.pool.Acquire(ctx)
		if err != nil {
			return err
		}
		c := newClaim(conn)
		inside := &pgx.Batch{}
		inside.BeginTx(pgx.TxOptions{IsoLevel: pgx.Serializable, AccessMode: pgx.ReadWrite})
		inside.QueuedQueries = append(inside.QueuedQueries, s.claimBatch(id, c).QueuedQueries[1:]...)
		results := conn.SendBatch(ctx, inside)
		c.tx = results.Tx()
		err = results.Close()
		if err == nil {
			if !c.won || c.record != nil {
				err = errors.New("the identity was taken")
			} else {
				_, err = s.execute(ctx, id, c, h)
			}
		}
		c.giveBack(ctx)
		if !again(err) {
			return err
		}
	}
}
