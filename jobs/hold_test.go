package jobs

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/toolcall"
	"github.com/txonce/txonce/txidem"
)

// held is how a job may end.
type ending struct {
	work  func(context.Context, *Job[in]) (Commit[out], error)
	opts  *Options
	end   func(c *caller, id toolcall.ID) // what somebody else does to it
	state toolcall.State
}

func worksThen(err error) func(context.Context, *Job[in]) (Commit[out], error) {
	return func(_ context.Context, job *Job[in]) (Commit[out], error) {
		if err != nil {
			return nil, err
		}
		return commits(job.Args.Label), nil
	}
}

func noEnd(*caller, toolcall.ID) {}

// idly is for definitions that nobody works.
const idle = "idle"

var endings = map[string]ending{
	"success":  {worksThen(nil), nil, noEnd, toolcall.StateSucceeded},
	"failure":  {worksThen(Fail("no", "not this one")), nil, noEnd, toolcall.StateFailed},
	"attempts": {worksThen(errors.New("no luck")), &Options{MaxAttempts: 1}, noEnd, toolcall.StateFailed},
	"deadline": {func(ctx context.Context, _ *Job[in]) (Commit[out], error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}, &Options{Within: 100 * time.Millisecond}, noEnd, toolcall.StateFailed},
	"cancelled": {worksThen(nil), &Options{Queue: idle}, func(c *caller, id toolcall.ID) {
		if _, err := c.Cancel(c.t.Context(), scope, id); err != nil {
			c.t.Error(err)
		}
	}, toolcall.StateCancelled},
	"cancelled while it runs": {func(ctx context.Context, _ *Job[in]) (Commit[out], error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}, nil, func(c *caller, id toolcall.ID) {
		c.await(id, toolcall.StateRunning)
		if _, err := c.Cancel(c.t.Context(), scope, id); err != nil {
			c.t.Error(err)
		}
	}, toolcall.StateCancelled},
	"cancelled in the queue": {worksThen(nil), &Options{Queue: idle}, func(c *caller, id toolcall.ID) {
		bell := get[int64](c.fixture, `select bell from txonce.job where id = $1::uuid`, uuidOf(id))
		if _, err := c.client.Load().JobCancel(c.t.Context(), bell); err != nil {
			c.t.Error(err)
		}
	}, toolcall.StateCancelled},
	"the sweeper's": {worksThen(nil), &Options{Queue: idle, Within: time.Millisecond}, noEnd, toolcall.StateFailed},
}

// TestHold_J01_RecordOutlivesTheJob: it does not expire while the job runs, and has the call's retention from the job's end.
func TestHold_J01_RecordOutlivesTheJob(t *testing.T) {
	t.Parallel()
	for label, e := range endings {
		t.Run(label, func(t *testing.T) {
			t.Parallel()
			d := Define("report", e.work, e.opts)
			c := callsOn(setup(t, nil, d))
			first := make(map[string]answer)
			for way, call := range c.all() {
				a, err := call(t.Context(), way, submits(c, d, in{}))
				if err != nil {
					t.Fatalf("%s: %v", way, err)
				}
				first[way] = a
			}
			n := len(first)
			c.rowsAre("before", rows{calls: n, held: n, jobs: n, bells: n})
			c.start(c.Runner)
			for way, call := range c.all() {
				id := jobID(t, first[way].Handle)
				e.end(c, id)
				c.await(id, e.state)
				if got := c.kept(id); got != "call, job" {
					t.Errorf("%s: kept for its retention from the job's end: %q; want the call and the job", way, got)
				}
				again, err := call(t.Context(), way, submits(c, d, in{}))
				if err != nil || again.raw != first[way].raw {
					t.Errorf("%s: the retry got %q, %v; want %q", way, again.raw, err, first[way].raw)
				}
			}
		})
	}
}

// kept says what is kept from the end of the job for as long as it has to be.
func (c *caller) kept(id toolcall.ID) string {
	c.t.Helper()
	return get[string](c.fixture, `select concat_ws(', ',
		(select 'call' from txonce.call c where c.id = j.call and c.expires_at between j.finished_at + $2::text::interval and j.finished_at + $2::text::interval + interval '1 minute'),
		case when j.expires_at between j.finished_at + interval '7 days' and j.finished_at + interval '7 days 1 minute' then 'job' end)
		from txonce.job j where j.id = $1::uuid`, uuidOf(id), fmt.Sprint(callKeep.Seconds(), " seconds"))
}

// TestHold_J01_JobIsKeptAsLongAsTheCall that answers with its id.
func TestHold_J01_JobIsKeptAsLongAsTheCall(t *testing.T) {
	t.Parallel()
	d := plainly("report", &Options{Retention: time.Minute})
	c := callsOn(setup(t, nil, d))
	a, err := c.run(t.Context(), "k", submits(c, d, in{}))
	if err != nil {
		t.Fatal(err)
	}
	alone := submit(c.fixture, d, in{}, nil)
	c.start(c.Runner)
	for id, want := range map[toolcall.ID]time.Duration{jobID(t, a.Handle): callKeep, alone: time.Minute} {
		c.await(id, toolcall.StateSucceeded)
		if got := get[float64](c.fixture, `select extract(epoch from expires_at - finished_at) from txonce.job where id = $1::uuid`, uuidOf(id)); got < want.Seconds() || got > want.Seconds()+60 {
			t.Errorf("it is kept for %v s, want %v", got, want)
		}
	}
}

// TestHold_J01_DerivedKeyIsKeptForItsWindow, counted from the job's end.
func TestHold_J01_DerivedKeyIsKeptForItsWindow(t *testing.T) {
	t.Parallel()
	d := plainly("report", nil)
	c := callsOn(setup(t, nil, d))
	if _, err := c.run(t.Context(), "", submits(c, d, in{})); err != nil {
		t.Fatal(err)
	}
	if got := get[string](c.fixture, `select call_keep::text from txonce.job`); got != "00:10:00" {
		t.Errorf("the record is kept for %s, want the window", got)
	}
}

// TestHold_J01_LastJobOfTheCallLetsItGo, in whichever order they end.
func TestHold_J01_LastJobOfTheCallLetsItGo(t *testing.T) {
	t.Parallel()
	const n = 3
	d := plainly("report", &Options{Queue: idle})
	c := callsOn(setup(t, unhurried(), d))
	for way, call := range c.all() {
		var all []toolcall.ID
		if _, err := call(t.Context(), way, func(ctx context.Context, tx pgx.Tx) (h Handle, err error) {
			all = nil
			for range n {
				if h, err = d.SubmitTx(ctx, tx, c.Runner, in{}, nil); err != nil {
					return h, err
				}
				all = append(all, jobID(t, h))
			}
			return h, nil
		}); err != nil {
			t.Fatal(err)
		}
		for i, id := range all {
			c.rowsAre(fmt.Sprintf("%s: %d have ended", way, i), rows{calls: 1, held: 1, jobs: n, bells: n})
			if _, err := c.Cancel(t.Context(), scope, id); err != nil {
				t.Error(err)
			}
		}
		c.rowsAre(way+": all have ended", rows{calls: 1, jobs: n, bells: n})
		c.clean()
	}
}

// unhurried is for tests that sweep by hand.
func unhurried() *Config { return &Config{Lease: time.Minute, Sweep: time.Hour} }

// startTidied starts the runner and waits for the end of its sweeper's first round.
func (c *caller) startTidied(d *Definition[in, out]) {
	c.t.Helper()
	if _, err := c.run(c.t.Context(), "orphan", submits(c, d, in{})); err != nil {
		c.t.Fatal(err)
	}
	c.exec(`delete from txonce.job`)
	c.start(c.Runner)
	c.eventually("the first round is over", func() bool { return c.rows().held == 0 })
	c.clean()
}

// TestHold_J01_JobsThatEndAtTheSameMoment do not see each other's end; the sweeper lets the record go.
func TestHold_J01_JobsThatEndAtTheSameMoment(t *testing.T) {
	t.Parallel()
	d := plainly("report", nil)
	c := callsOn(setup(t, unhurried(), d))
	// Each transaction that ends a job waits in its COMMIT for the lock.
	c.exec(`create function wait_for_the_test() returns trigger language plpgsql as $$ begin perform pg_advisory_xact_lock_shared(42); return null; end $$`)
	c.exec(`create constraint trigger waits after update on txonce.job deferrable initially deferred for each row
		when (new.finished_at is not null) execute function wait_for_the_test()`)
	gate, err := c.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = gate.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := gate.Exec(t.Context(), `select pg_advisory_xact_lock(42)`); err != nil {
		t.Fatal(err)
	}
	c.startTidied(d)
	var h Handle
	var both []toolcall.ID
	if _, err := c.run(t.Context(), "k", func(ctx context.Context, tx pgx.Tx) (_ Handle, err error) {
		for range 2 {
			if h, err = d.SubmitTx(ctx, tx, c.Runner, in{Label: "x"}, nil); err != nil {
				return h, err
			}
			both = append(both, jobID(t, h))
		}
		return h, nil
	}); err != nil {
		t.Fatal(err)
	}
	c.eventually("both are in their COMMIT", func() bool {
		return get[int](c.fixture, `select count(*)::int from pg_locks where locktype = 'advisory' and objid = 42 and not granted
			and database = (select oid from pg_database where datname = current_database())`) == 2
	})
	if err := gate.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, id := range both {
		c.await(id, toolcall.StateSucceeded)
	}
	c.rowsAre("both have ended", rows{calls: 1, held: 1, jobs: 2, bells: 2})
	if err := c.tidy(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, id := range both {
		if got := c.kept(id); got != "call, job" {
			t.Errorf("behind tidy: kept for its retention: %q, want the call and the job", got)
		}
	}
}

// TestHold_J01_RecordsWhoseJobsAreGone are let go by the sweeper, a day later: nothing says any more what their retention was.
func TestHold_J01_RecordsWhoseJobsAreGone(t *testing.T) {
	t.Parallel()
	d := plainly("report", nil)
	c := callsOn(setup(t, unhurried(), d))
	for _, key := range []string{"gone", "there"} {
		if _, err := c.run(t.Context(), key, submits(c, d, in{})); err != nil {
			t.Fatal(err)
		}
	}
	c.exec(`delete from txonce.job where call = (select id from txonce.call where key = 'x:gone')`)
	if err := c.tidy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := get[string](c.fixture, `select string_agg(key || ' ' || case when expires_at is null then 'held'
		when expires_at between now() + interval '23 hours' and now() + interval '1 day' then 'a day' else 'wrong' end, ', ' order by key) from txonce.call`); got != "x:gone a day, x:there held" {
		t.Errorf("got %s", got)
	}
}

// TestHold_J01_SweepersFirstRoundTidies: records of a time when nobody ran are not forgotten.
func TestHold_J01_SweepersFirstRoundTidies(t *testing.T) {
	t.Parallel()
	d := plainly("report", nil)
	c := callsOn(setup(t, unhurried(), d))
	if _, err := c.run(t.Context(), "k", submits(c, d, in{})); err != nil {
		t.Fatal(err)
	}
	c.exec(`delete from txonce.job`)
	c.start(c.Runner)
	c.eventually("it is let go", func() bool { return c.rows().held == 0 })
}

// TestHold_J01_OldJobIsNotTheNewCalls: after Forget, the same call is another intent, with a job of its own.
func TestHold_J01_OldJobIsNotTheNewCalls(t *testing.T) {
	t.Parallel()
	d := plainly("report", &Options{Queue: idle})
	for label, c := range map[string]struct {
		oldFirst, tidy bool
	}{"the old one ends first": {true, false}, "the new one ends first": {false, false}, "the new one ends first, swept": {false, true}} {
		t.Run(label, func(t *testing.T) {
			t.Parallel()
			f := callsOn(setup(t, unhurried(), d))
			var ids []toolcall.ID
			for i := range 2 {
				a, err := f.run(t.Context(), "k", submits(f, d, in{}))
				if err != nil || a.replayed {
					t.Fatalf("%+v, %v", a, err)
				}
				ids = append(ids, jobID(t, a.Handle))
				if i > 0 {
					break
				}
				if forgotten, err := f.store.Forget(t.Context(), scope, toolcall.NewID(scope, tool, "x:k")); err != nil || !forgotten {
					t.Fatal(err)
				}
			}
			f.rowsAre("before", rows{calls: 1, held: 1, jobs: 2, bells: 2})
			ends := func(id toolcall.ID) {
				t.Helper()
				if _, err := f.Cancel(t.Context(), scope, id); err != nil {
					t.Error(err)
				}
			}
			if c.oldFirst {
				ends(ids[0])
				f.rowsAre("the old one has ended", rows{calls: 1, held: 1, jobs: 2, bells: 2})
			}
			if c.tidy { // the new one ends in a way that cannot let go
				f.exec(`update txonce.job set state = 'cancelled', finished_at = clock_timestamp(), expires_at = clock_timestamp() + interval '7 days' where id = $1::uuid`, uuidOf(ids[1]))
				if err := f.tidy(t.Context()); err != nil {
					t.Error(err)
				}
			} else {
				ends(ids[1])
			}
			f.rowsAre("the new one has ended", rows{calls: 1, jobs: 2, bells: 2})
		})
	}
}

// TestHold_J01_JobEndsBeforeTheRecordOfItsLeasedCall: the sweeper lets it go.
func TestHold_J01_JobEndsBeforeTheRecordOfItsLeasedCall(t *testing.T) {
	t.Parallel()
	d := plainly("report", nil)
	c := callsOn(setup(t, unhurried(), d))
	c.startTidied(d)
	r, err := txidem.RunLeased(t.Context(), c.store, request("k"), func(ctx context.Context) (h Handle, err error) {
		if err = pgx.BeginFunc(ctx, c.pool, func(tx pgx.Tx) error {
			h, err = d.SubmitTx(ctx, tx, c.Runner, in{}, nil)
			return err
		}); err == nil {
			c.await(jobID(t, h), toolcall.StateSucceeded)
		}
		return h, err
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	c.rowsAre("recorded", rows{calls: 1, held: 1, jobs: 1, bells: 1})
	if err := c.tidy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := c.kept(jobID(t, r.Value)); got != "call, job" {
		t.Errorf("behind tidy: kept for its retention: %q, want the call and the job", got)
	}
}
