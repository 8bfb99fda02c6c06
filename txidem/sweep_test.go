package txidem

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/internal/dbtest"
	"github.com/txonce/txonce/toolcall"
)

// age makes records expire now, as if their time had gone by.
// age lets the time go by for which records are kept: of a leased call that has not ended, that begins with the end of its lease.
func (f *fixture) age(key string) {
	f.t.Helper()
	f.exec(sqlAge+` where key like $1`, key)
}

const sqlAge = `update txonce.call set expires_at = case when lease_until is null then clock_timestamp() else started_at end`

func TestSweep_R12_RemovesWhatHasExpiredAndNothingElse(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	f.exec(`insert into txonce.call select gen_random_uuid(), 's', 't', 'x:' || n, sha256('x'), 1, null, 'succeeded', gen_random_uuid(), '1', now(), now(),
		case when n <= 2500 then now() - interval '1 s' when n = 2501 then null else now() + interval '1 h' end from generate_series(1, 2510) n`)
	got, err := f.store.Sweep(t.Context())
	if err != nil || got != (Swept{Deleted: 2500}) || f.records() != 10 {
		t.Errorf("got %+v, %v, %d left; want 2500 deleted and 10 left", got, err, f.records())
	}
	if got, err := f.store.Sweep(t.Context()); err != nil || got != (Swept{}) {
		t.Errorf("once more: %+v, %v; want nothing", got, err)
	}
}

func TestSweep_R12_TakesNoRecordThatIsBeingTakenOver(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	if _, err := Run(t.Context(), f.store, request("k"), writes("first")); err != nil {
		t.Fatal(err)
	}
	f.age("x:k")
	// The call has replaced the expired record, and waits in front of its COMMIT for the test.
	var swept Swept
	got, err := Run(t.Context(), f.store, request("k"), func(ctx context.Context, tx pgx.Tx) (string, error) {
		c, _ := toolcall.FromContext(ctx)
		if err := c.AtFinish(func(b *pgx.Batch) {
			b.Queue(`delete from txonce.call`) // what forget does a statement later: now the row is locked
		}); err != nil {
			return "", err
		}
		if _, err := tx.Exec(ctx, `delete from txonce.call`); err != nil {
			return "", err
		}
		var err error
		swept, err = f.store.Sweep(ctx)
		return "second", errors.Join(err, write(ctx, tx, "second"))
	})
	if err != nil || got.Replayed || swept.Deleted != 0 {
		t.Fatalf("got %+v, %v, swept %+v; want the sweeper to pass over the locked row", got, err, swept)
	}
	if again, err := Run(t.Context(), f.store, request("k"), writes("third")); err != nil || !again.Replayed || again.Value != "second" {
		t.Errorf("afterwards: %+v, %v; want the second answer", again, err)
	}
}

func TestSweep_R12_BesideTakeovers(t *testing.T) {
	t.Parallel()
	f := setup(t, &Policy{Retention: time.Millisecond, Wait: 20 * time.Second}, func(cfg *pgxpool.Config) { cfg.MaxConns = 12 })
	ctx, cancel := context.WithCancel(t.Context())
	var sweepers sync.WaitGroup
	for range 2 {
		sweepers.Go(func() {
			for ctx.Err() == nil {
				if _, err := f.store.Sweep(ctx); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
			}
		})
	}
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			for range 100 {
				if _, err := Run(t.Context(), f.store, request("k"), writes("k")); err != nil {
					t.Errorf("a call beside the sweeper: %v", err)
				}
			}
		})
	}
	callers.Wait()
	cancel()
	sweepers.Wait()
	f.idle()
}

func TestRun_R13_RefuseNeverRunsTwice(t *testing.T) {
	t.Parallel()
	f := setup(t, &Policy{OnExpired: Refuse}, nil)
	first, err := Run(t.Context(), f.store, request("k"), writes("k"))
	if err != nil {
		t.Fatal(err)
	}
	refused := func(when string) {
		t.Helper()
		got, err := Run(t.Context(), f.store, request("k"), writes("k"))
		var expired *ExpiredError
		if !errors.As(err, &expired) || !expired.FinishedAt.Equal(first.FinishedAt) || got.Raw != nil || Retryable(err) {
			t.Errorf("%s: got %+v, %v; want an ExpiredError with the time", when, got, err)
		}
		other := request("k")
		other.Args = []byte(`{}`)
		if _, err := Run(t.Context(), f.store, other, writes("k")); !errors.Is(err, ErrKeyReused) {
			t.Errorf("%s, other arguments: %v", when, err)
		}
	}
	f.age("x:k")
	refused("expired")
	if got, err := f.store.Sweep(t.Context()); err != nil || got != (Swept{Emptied: 1}) {
		t.Errorf("swept %+v, %v; want one emptied", got, err)
	}
	if got, err := f.store.Sweep(t.Context()); err != nil || got != (Swept{}) {
		t.Errorf("swept again: %+v, %v; want nothing", got, err)
	}
	refused("swept")
	if e := f.effects("k"); e != 1 {
		t.Errorf("%d effects", e)
	}
	if ok, err := f.store.Forget(t.Context(), "bob", first.ID); ok || err != nil {
		t.Errorf("another scope forgot it: %v, %v", ok, err)
	}
	if ok, err := f.store.Forget(t.Context(), "alice", first.ID); !ok || err != nil {
		t.Errorf("Forget: %v, %v", ok, err)
	}
	if got, err := Run(t.Context(), f.store, request("k"), writes("k")); err != nil || got.Replayed {
		t.Errorf("after Forget: %+v, %v; want it to run", got, err)
	}
}

func TestRun_R13_RerunIsThePolicyOfTheCallNotOfTheRecord(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	req := request("k")
	req.Policy = &Policy{OnExpired: Refuse}
	if _, err := Run(t.Context(), f.store, req, writes("k")); err != nil {
		t.Fatal(err)
	}
	f.age("x:k")
	if got, err := Run(t.Context(), f.store, request("k"), writes("k")); err != nil || got.Replayed || f.effects("k") != 2 || f.records() != 1 {
		t.Errorf("got %+v, %v, %d effects, %d records; want a second run", got, err, f.effects("k"), f.records())
	}
}

func TestSweeper_RunsUntilItsContextEnds(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	sweeper, err := NewSweeper(f.store, time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error)
	go func() { ended <- sweeper.Run(ctx) }()
	for range 3 {
		if _, err := Run(t.Context(), f.store, request("k"), writes("k")); err != nil {
			t.Fatal(err)
		}
		f.age("x:k")
		eventually(t, "the record is swept", func() bool { return f.records() == 0 })
	}
	enough := errors.New("enough")
	cancel(enough)
	if err := <-ended; !errors.Is(err, enough) {
		t.Errorf("Run returned %v", err)
	}
	for _, interval := range []time.Duration{0, -1} {
		if _, err := NewSweeper(f.store, interval); err == nil || !strings.Contains(err.Error(), "positive interval") {
			t.Errorf("interval %v: %v", interval, err)
		}
	}
}

func TestSweep_D08_NeedsNoMoreThanTheDocumentedGrants(t *testing.T) {
	t.Parallel()
	url := dbtest.URL(t)
	owner := dbtest.PoolAt(t, url, nil)
	store, err := New(owner, nil)
	if err != nil {
		t.Fatal(err)
	}
	// With nothing to sweep, nothing must be read. The statistics are those of a busy table some minutes ago: what they say
	// will have expired by now has been swept, and there have never been tombstones.
	if _, err := owner.Exec(t.Context(), `insert into txonce.call select gen_random_uuid(), 's', 't', 'x:' || n, sha256('x'), 1, null, 'succeeded', gen_random_uuid(), '1',
		now(), now(), now() - interval '1 min' + n * interval '1 ms', false from generate_series(1, 100000) n; analyze txonce.call`); err != nil {
		t.Fatal(err)
	}
	for label, c := range map[string]struct{ sql, index string }{
		"sweep": {store.sql.sweep, "call_expires_at_idx"},
		"empty": {store.sql.empty, "call_tombstone_idx"},
	} {
		rows, err := owner.Query(t.Context(), `explain `+strings.ReplaceAll(c.sql, "$1::integer", "1000"))
		if err != nil {
			t.Fatal(err)
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		if plan := strings.Join(lines, "\n"); !strings.Contains(plan, c.index) || strings.Contains(plan, "Seq Scan") {
			t.Errorf("%s does not use the index %s, or that alone:\n%s", label, c.index, plan)
		}
	}
}
