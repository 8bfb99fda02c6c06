package jobs

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/internal/dbtest"
	"github.com/txonce/txonce/internal/faultconn"
	"github.com/txonce/txonce/toolcall"
)

// wireOf is the wire under a commit half.
func wireOf(tx pgx.Tx) *faultconn.Conn { return faultconn.Of(tx.Conn().PgConn().Conn()) }

// beforeSync passes the round trip without the Sync that ends it. The simple protocol has none, and one message in all.
func beforeSync(b []byte) int {
	if n := faultconn.AllBut(1)(b); n > 0 {
		return n
	}
	return len(b)
}

// somewhereBefore passes any part of the round trip that leaves COMMIT incomplete. What a pooler tells the server of a client that
// vanished may be read as the rest of a message that was cut.
func somewhereBefore(b []byte) int {
	end := beforeSync(b)
	if dbtest.Pooled() && end < len(b) {
		end = faultconn.AllBut(2)(b)
	}
	return 1 + rand.N(end-1)
}

func fault(pass func([]byte) int, then faultconn.Then) faultconn.Fault {
	return faultconn.Fault{Write: faultconn.Executes, Pass: pass, Then: then}
}

// losses are the ways to lose the last round trip of a job, and how often its commit half is called then.
var losses = map[string]struct {
	fault faultconn.Fault
	calls int
}{
	"nothing is written":                        {faultconn.Fault{Write: faultconn.Executes, Pass: faultconn.Nothing, Told: true}, 2},
	"nothing arrives":                           {fault(faultconn.Nothing, faultconn.Cut), 2},
	"a part arrives":                            {fault(somewhereBefore, faultconn.Cut), 2},
	"all but COMMIT arrives":                    {fault(faultconn.AllBut(2), faultconn.Cut), 2},
	"all but the end of the round trip arrives": {fault(beforeSync, faultconn.Cut), 1},
	"everything arrives":                        {fault(nil, faultconn.Cut), 1},
	"everything arrives, and the write fails":   {faultconn.Fault{Write: faultconn.Executes, Told: true}, 1},
	"the answer is lost":                        {fault(nil, faultconn.CutAtAnswer), 1},
	"the answer never comes":                    {fault(nil, faultconn.Stall), 1},
}

// TestLost_J02_CutsAtCommit cuts the connection of jobs at their last round trip. Of each there is one effect, the work is done once,
// and the commit half is called again only where nothing was committed.
func TestLost_J02_CutsAtCommit(t *testing.T) {
	t.Parallel()
	for label, loss := range losses {
		t.Run(strings.ReplaceAll(label, " ", "_"), func(t *testing.T) {
			t.Parallel()
			n := 40
			if testing.Short() || loss.fault.Then == faultconn.Stall { // a silent connection takes its place in the pool for long
				n = 4
			}
			var computed atomic.Int32
			var mu sync.Mutex
			calls := make(map[string]int)
			d := Define("lossy", func(_ context.Context, job *Job[in]) (Commit[out], error) {
				computed.Add(1)
				return func(ctx context.Context, tx pgx.Tx) (out, error) {
					mu.Lock()
					calls[job.Args.Label]++
					n := calls[job.Args.Label]
					mu.Unlock()
					if err := writeBy(ctx, tx, job.Args.Label, n); err != nil {
						return out{}, err
					}
					if n == 1 {
						wireOf(tx).Arm(loss.fault)
					}
					return out{Label: job.Args.Label, By: fmt.Sprint(n)}, nil
				}, nil
			}, &Options{CommitTimeout: map[bool]time.Duration{true: 5 * time.Second}[loss.fault.Then == faultconn.Stall]})
			f, net := wired(t, still(), d)
			net.LoseCancels(loss.calls == 1) // else the server may hear the cancel before COMMIT
			// COMMIT takes a moment, so that who looks for the outcome comes while it lasts.
			f.exec(`create function slow() returns trigger language plpgsql as $f$ begin perform pg_sleep(0.005 * random()); return null; end $f$`)
			f.exec(`create constraint trigger slow after insert on effect deferrable initially deferred for each row execute function slow()`)
			want := make(map[string][]string)
			var ids []toolcall.ID
			var wg sync.WaitGroup
			slots := make(chan struct{}, 4)
			for i := range n {
				label := fmt.Sprint("job ", i)
				want[label] = []string{fmt.Sprint(loss.calls)}
				id := submit(f, d, in{Label: label}, nil)
				ids = append(ids, id)
				wg.Go(func() {
					slots <- struct{}{}
					defer func() { <-slots }()
					if err := f.answer(t.Context(), d.def, id); err != nil {
						t.Errorf("the doorbell: %v", err)
					}
				})
			}
			wg.Wait()
			f.effectsBy(want)
			for _, id := range ids {
				if got, err := d.Result(f.ended(id, toolcall.StateSucceeded, 1, "")); err != nil || got.By != fmt.Sprint(loss.calls) {
					t.Errorf("the result is %+v, %v; want that of call %d", got, err, loss.calls)
				}
			}
			if got := int(computed.Load()); got != n {
				t.Errorf("the work was done %d times for %d jobs", got, n)
			}
		})
	}
}

// TestLost_J02_OutcomeStaysUnknown: the database cannot be asked for the outcome, until the attempt has given up. The next doorbell
// finds out.
func TestLost_J02_OutcomeStaysUnknown(t *testing.T) {
	t.Parallel()
	for label, committed := range map[string]bool{"committed": true, "not committed": false} {
		t.Run(label, func(t *testing.T) {
			t.Parallel()
			d, visits := stepwise(t, "stepwise", &Options{CommitTimeout: time.Second})
			f, net := wired(t, still(), d)
			quiet := &fixture{t: t, pool: dbtest.PoolAt(t, f.pool.Config().ConnString(), nil)}
			quiet.Runner = quiet.another(still(), d)
			id := submit(f, d, in{Label: "a"}, nil)
			bell := ring(f, f.Runner, d, id)
			v := begun(f, visits)
			v.enters(f)
			v.committed <- func(_ context.Context, tx pgx.Tx) error {
				pass := faultconn.Nothing
				if committed {
					pass = nil
				}
				net.LoseCancels(true)
				wireOf(tx).Arm(fault(pass, faultconn.Cut))
				net.Down(true)
				for _, conn := range net.all() {
					if conn != wireOf(tx) {
						conn.Cut()
					}
				}
				return nil
			}
			f.hears("the doorbell", bell, func(err error) bool { return isError(err) && errors.Is(err, ErrOutcomeUnknown) })
			quiet.eventually("the transaction has ended", func() bool {
				return get[bool](quiet, `select count(*) = 1 from (select from txonce.job for update skip locked) free`)
			})
			if committed {
				quiet.hears("another doorbell", ring(quiet, quiet.Runner, d, id), isNil)
				nobody(quiet, visits)
				quiet.ended(id, toolcall.StateSucceeded, 1, "")
				quiet.effectsBy(map[string][]string{"a": {"1"}})
				return
			}
			quiet.lapse(id)
			again := ring(quiet, quiet.Runner, d, id)
			begun(quiet, visits).goesOn(quiet)
			quiet.hears("another doorbell", again, isNil)
			quiet.ended(id, toolcall.StateSucceeded, 2, "")
			quiet.effectsBy(map[string][]string{"a": {"2"}})
		})
	}
}

// TestLost_J02_ServerIsAwayForAWhile: behind the commit half, or in front of it. The work is not done again.
func TestLost_J02_ServerIsAwayForAWhile(t *testing.T) {
	t.Parallel()
	for label, away := range map[string]func(v *visit, f *fixture, leaves func(tx pgx.Tx)){
		"in front of the commit half": func(v *visit, _ *fixture, leaves func(pgx.Tx)) { leaves(nil); v.computes(nil) },
		"before COMMIT arrives": func(v *visit, f *fixture, leaves func(pgx.Tx)) {
			v.enters(f)
			v.committed <- func(_ context.Context, tx pgx.Tx) error { leaves(tx); wireOf(tx).Cut(); return nil }
		},
		"when COMMIT has arrived": func(v *visit, f *fixture, leaves func(pgx.Tx)) {
			v.enters(f)
			v.committed <- func(_ context.Context, tx pgx.Tx) error {
				leaves(tx)
				wireOf(tx).Arm(fault(nil, faultconn.Cut))
				return nil
			}
		},
	} {
		t.Run(strings.ReplaceAll(label, " ", "_"), func(t *testing.T) {
			t.Parallel()
			d, visits := stepwise(t, "stepwise", nil)
			f, net := wired(t, still(), d)
			net.LoseCancels(true)
			id := submit(f, d, in{Label: "a"}, nil)
			bell := ring(f, f.Runner, d, id)
			v := begun(f, visits)
			away(v, f, func(tx pgx.Tx) {
				net.Down(true)
				for _, conn := range net.all() {
					if tx == nil || conn != wireOf(tx) {
						conn.Cut()
					}
				}
			})
			f.eventually("somebody has knocked in vain", func() bool { return net.refused.Load() > 2 })
			net.Down(false)
			if label != "when COMMIT has arrived" {
				for {
					select {
					case <-v.inTx:
						v.commits(nil)
						continue
					case err := <-bell:
						if err != nil {
							t.Errorf("the doorbell: %v", err)
						}
					case <-time.After(time.Minute):
						t.Error("the doorbell says nothing")
					}
					break
				}
			} else {
				f.hears("the doorbell", bell, isNil)
			}
			nobody(f, visits)
			f.ended(id, toolcall.StateSucceeded, 1, "")
			f.effectsBy(map[string][]string{"a": {"1"}})
		})
	}
}

// TestLost_J02_BackendsAreTerminated: all that there are, while the work computes, in the commit half, and while COMMIT executes.
func TestLost_J02_BackendsAreTerminated(t *testing.T) {
	t.Parallel()
	for label, c := range map[string]struct {
		half  func(ctx context.Context, tx pgx.Tx, n int, f *fixture) error
		calls int32
	}{
		"while it computes": {func(context.Context, pgx.Tx, int, *fixture) error { return nil }, 1},
		"in the commit half": {func(ctx context.Context, tx pgx.Tx, n int, f *fixture) error {
			if n == 1 {
				f.terminates()
			}
			_, err := tx.Exec(ctx, `select 1`)
			return err
		}, 2},
		"behind its last statement": {func(_ context.Context, _ pgx.Tx, n int, f *fixture) error {
			if n == 1 {
				f.terminates()
			}
			return nil
		}, 2},
		"at the end": {func(ctx context.Context, _ pgx.Tx, n int, _ *fixture) error {
			if n > 1 {
				return nil
			}
			return atFinish(ctx, `select pg_terminate_backend(pg_backend_pid())`)
		}, 2},
		"at COMMIT": {func(ctx context.Context, tx pgx.Tx, n int, _ *fixture) error {
			if n > 1 {
				return nil
			}
			_, err := tx.Exec(ctx, `insert into dies values (1)`)
			return err
		}, 2},
	} {
		t.Run(strings.ReplaceAll(label, " ", "_"), func(t *testing.T) {
			t.Parallel()
			var f *fixture
			d, calls := halves(nil, func(ctx context.Context, tx pgx.Tx, n int) error { return c.half(ctx, tx, n, f) })
			f = setup(t, still(), d)
			f.exec(`create table dies (a int)`)
			f.exec(`create function dies() returns trigger language plpgsql as $f$ begin perform pg_terminate_backend(pg_backend_pid()); return null; end $f$`)
			f.exec(`create constraint trigger dies after insert on dies deferrable initially deferred for each row execute function dies()`)
			id := submit(f, d, in{Label: "a"}, nil)
			if label == "while it computes" {
				run := d.def.run
				d.def.run = func(ctx context.Context, a *attempt) (commit, error) { f.terminates(); return run(ctx, a) }
			}
			if err := f.answer(t.Context(), d.def, id); err != nil || calls.Load() != c.calls {
				t.Errorf("the doorbell: %v, %d calls of the commit half, want %d", err, calls.Load(), c.calls)
			}
			f.ended(id, toolcall.StateSucceeded, 1, "")
			f.effectsAre(map[string]int{"a": 1})
		})
	}
}

// terminates ends all other sessions of the test's database.
func (f *fixture) terminates() {
	conn, err := pgx.ConnectConfig(f.t.Context(), f.pool.Config().ConnConfig)
	if err != nil {
		f.t.Error(err)
		return
	}
	defer func() { _ = conn.Close(f.t.Context()) }()
	if _, err := conn.Exec(f.t.Context(), `select pg_terminate_backend(pid, 10000) from pg_stat_activity
		where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'`); err != nil {
		f.t.Error(err)
	}
}

// TestLost_J06_EndThatCannotBeWrittenDown: the attempt has failed, and nobody can be told. When its lease is over, it counts as
// dead, and the next one has the job.
func TestLost_J06_EndThatCannotBeWrittenDown(t *testing.T) {
	t.Parallel()
	for label, end := range map[string]error{"error": errors.New("no luck"), "failure": Fail("no", "No."), "handed back": ErrStopping} {
		t.Run(label, func(t *testing.T) {
			t.Parallel()
			d, visits := stepwise(t, "stepwise", nil)
			f, net := wired(t, still(), d)
			quiet := &fixture{t: t, pool: dbtest.PoolAt(t, f.pool.Config().ConnString(), nil)}
			quiet.Runner = quiet.another(still(), d)
			id := submit(f, d, in{Label: "a"}, nil)
			bell := ring(f, f.Runner, d, id)
			v := begun(f, visits)
			net.Down(true)
			for _, conn := range net.all() {
				conn.Cut()
			}
			v.computes(end)
			f.hears("the doorbell", bell, isError)
			quiet.ended(id, toolcall.StateRunning, 1, "")
			quiet.lapse(id)
			quiet.longAgo(id)
			quiet.sweeps(quiet.Runner)
			if n := quiet.doorbells(id); n != 2 {
				t.Errorf("there are %d doorbells, want a second one", n)
			}
			again := ring(quiet, quiet.Runner, d, id)
			begun(quiet, visits).goesOn(quiet)
			quiet.hears("another doorbell", again, isNil)
			quiet.ended(id, toolcall.StateSucceeded, 2, "")
			quiet.effectsBy(map[string][]string{"a": {"2"}})
		})
	}
}
