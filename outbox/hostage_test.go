package outbox_test

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/internal/dbtest"
	"github.com/txonce/txonce/outbox"
	"github.com/txonce/txonce/toolcall"
	"github.com/txonce/txonce/txidem"
)

// TestRelay_O08_NoConnectionIsHostage is trap 8: a pool of two, and an endpoint that does not answer: nothing is idle in a transaction,
// the relay holds no connection, and calls commit.
func TestRelay_O08_NoConnectionIsHostage(t *testing.T) {
	t.Parallel()
	url := dbtest.URL(t)
	pool := dbtest.PoolAt(t, url, func(cfg *pgxpool.Config) { cfg.MaxConns = 2 })
	watch := dbtest.PoolAt(t, url, nil)
	g := newGate(t)
	box := newBox(t, pool, nil, outbox.Destination{Name: "hook", Publisher: g}, outbox.Destination{Name: "rated", Publisher: g, Rate: 1000})
	relay(t, box)
	var all []outbox.Message
	for i := range 4 {
		all = append(all, outbox.Message{Destination: "hook"}, outbox.Message{Destination: "hook", OrderingKey: fmt.Sprint(i)},
			outbox.Message{Destination: "rated"}, outbox.Message{Destination: "rated", OrderingKey: fmt.Sprint(i)})
	}
	ids := publish(t, pool, box, all...)
	var visits []*visit
	for range all {
		visits = append(visits, g.next(t))
	}
	// A claim of a rated destination is a transaction of some statements, so one look may meet it; a hostage stays.
	eventually(t, "nothing is idle in a transaction", func() bool {
		return !get[bool](t, watch, `select exists (select from pg_stat_activity where datname = current_database() and state like 'idle in transaction%')`)
	})
	eventually(t, "no connection is in use", func() bool { return pool.Stat().AcquiredConns() == 0 })
	store := newStore(t, pool, nil)
	for i := range 20 {
		if _, err := txidem.Run(t.Context(), store, request(fmt.Sprint(i)), sends(box, outbox.Message{Destination: "hook", Delay: 1 << 50})); err != nil {
			t.Fatal(err)
		}
	}
	for _, v := range visits {
		v.answers(delivered)
	}
	for _, id := range ids {
		ended(t, box, id, toolcall.MessageDelivered, 1)
	}
}
