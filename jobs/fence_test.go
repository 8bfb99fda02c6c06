package jobs

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"

	"github.com/txonce/txonce/internal/dbtest"
	"github.com/txonce/txonce/toolcall"
)

// contest is a job that A has lost to B: A computes, its lease has run out, and B computes as well.
type contest struct {
	*fixture
	d            *Definition[in, out]
	visits       <-chan *visit
	id           toolcall.ID
	a, b         *visit
	bellA, bellB <-chan error
	stopB        context.CancelFunc // B's runner stops
}

func newContest(t *testing.T, opts *Options) *contest {
	t.Helper()
	d, visits := stepwise(t, "stepwise", opts)
	f := setup(t, still(), d)
	c := &contest{fixture: f, d: d, visits: visits, id: submit(f, d, in{Label: "a"}, nil)}
	c.bellA = ring(f, f.Runner, d, c.id)
	c.a = begun(f, visits)
	f.lapse(c.id)
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	c.bellB, c.stopB = ringIn(ctx, f.another(still(), d), d, c.id), stop
	c.b = begun(f, visits)
	return c
}

// rung has another attempt do all there is to do.
func (c *contest) rung() {
	c.t.Helper()
	bell := ring(c.fixture, c.Runner, c.d, c.id)
	begun(c.fixture, c.visits).goesOn(c.fixture)
	c.hears("another doorbell", bell, isNil)
}

// hears compares what became of a doorbell.
func (f *fixture) hears(what string, bell <-chan error, want func(error) bool) {
	f.t.Helper()
	if err := receive(f, what, bell); !want(err) {
		f.t.Errorf("%s: %v", what, err)
	}
}

func isNil(err error) bool { return err == nil }

// isError reports whether the doorbell is to ring again as behind any error.
func isError(err error) bool { return err != nil && !isSnooze(err) && !isCancel(err) }

// TestFence_J02_AttemptThatLostItsJobCommitsNothing: A wants to commit behind B's taking over. Wherever B is by then, there is
// one effect, and it is not A's.
func TestFence_J02_AttemptThatLostItsJobCommitsNothing(t *testing.T) {
	t.Parallel()
	t.Run("B computes", func(t *testing.T) {
		t.Parallel()
		c := newContest(t, nil)
		c.a.computes(nil)
		c.hears("A", c.bellA, isSnooze)
		c.b.goesOn(c.fixture)
		c.hears("B", c.bellB, isNil)
		c.ended(c.id, toolcall.StateSucceeded, 2, "")
		c.effectsBy(map[string][]string{"a": {"2"}})
	})
	t.Run("B commits", func(t *testing.T) {
		t.Parallel()
		c := newContest(t, nil)
		c.b.enters(c.fixture)
		c.a.computes(nil)
		c.blocked()
		c.b.commits(nil)
		c.hears("A", c.bellA, isSnooze)
		c.hears("B", c.bellB, isNil)
		c.ended(c.id, toolcall.StateSucceeded, 2, "")
		c.effectsBy(map[string][]string{"a": {"2"}})
	})
	for label, end := range map[string]func(c *contest){
		"B has failed":               func(c *contest) { c.b.computes(errors.New("no luck")) },
		"B has failed in its commit": func(c *contest) { c.b.enters(c.fixture); c.b.commits(errors.New("no luck")) },
		"B was handed back": func(c *contest) {
			c.stopB()
			receive(c.fixture, "the end of B's context", c.b.ctx.Done())
			c.b.computes(ErrStopping)
		},
	} {
		t.Run(label, func(t *testing.T) {
			t.Parallel()
			c := newContest(t, nil)
			end(c)
			c.hears("B", c.bellB, isError)
			c.a.computes(nil)
			c.hears("A", c.bellA, isSnooze)
			c.effectsBy(map[string][]string{})
			c.rung()
			attempts := 3
			if label == "B was handed back" {
				attempts = 2
			}
			c.ended(c.id, toolcall.StateSucceeded, attempts, "")
			c.effectsBy(map[string][]string{"a": {fmt.Sprint(attempts)}})
		})
	}
	for label, end := range map[string]struct {
		b     func(c *contest)
		bell  func(error) bool
		state toolcall.State
		code  string
	}{
		"B has committed": {func(c *contest) { c.b.goesOn(c.fixture) }, isNil, toolcall.StateSucceeded, ""},
		"B has ended it":  {func(c *contest) { c.b.computes(Fail("no", "No.")) }, isCancel, toolcall.StateFailed, "no"},
	} {
		t.Run(label, func(t *testing.T) {
			t.Parallel()
			c := newContest(t, nil)
			end.b(c)
			c.hears("B", c.bellB, end.bell)
			c.a.computes(nil)
			c.hears("A", c.bellA, isSnooze)
			c.ended(c.id, end.state, 2, end.code)
			want := map[string][]string{}
			if end.state == toolcall.StateSucceeded {
				want["a"] = []string{"2"}
			}
			c.effectsBy(want)
		})
	}
	t.Run("the job is gone", func(t *testing.T) {
		t.Parallel()
		c := newContest(t, nil)
		c.b.goesOn(c.fixture)
		c.hears("B", c.bellB, isNil)
		c.exec(`delete from txonce.job`)
		c.a.computes(nil)
		c.hears("A", c.bellA, isSnooze)
		c.effectsBy(map[string][]string{"a": {"2"}})
	})
}

// lateEnds are the ways in which an attempt that has lost its job may end.
var lateEnds = map[string]func(f *fixture, a *visit){
	"an error":  func(_ *fixture, a *visit) { a.computes(errors.New("late")) },
	"Fail":      func(_ *fixture, a *visit) { a.computes(Fail("late", "Late.")) },
	"no commit": func(_ *fixture, a *visit) { a.computed <- func() (Commit[out], error) { return nil, nil } },
	"a panic":   func(_ *fixture, a *visit) { a.computed <- func() (Commit[out], error) { panic("late") } },
	"Goexit": func(_ *fixture, a *visit) {
		a.computed <- func() (Commit[out], error) { runtime.Goexit(); return nil, nil }
	},
	"JobSnooze":         func(_ *fixture, a *visit) { a.computes(river.JobSnooze(0)) },
	"JobCancel":         func(_ *fixture, a *visit) { a.computes(river.JobCancel(errors.New("late"))) },
	"context.Canceled":  func(_ *fixture, a *visit) { a.computes(context.Canceled) },
	"DeadlineExceeded":  func(_ *fixture, a *visit) { a.computes(context.DeadlineExceeded) },
	"ErrCancelled":      func(_ *fixture, a *visit) { a.computes(ErrCancelled) },
	"ErrDeadline":       func(_ *fixture, a *visit) { a.computes(ErrDeadline) },
	"ErrTimeout":        func(_ *fixture, a *visit) { a.computes(ErrTimeout) },
	"ErrStopping":       func(_ *fixture, a *visit) { a.computes(ErrStopping) },
	"ErrOutcomeUnknown": func(_ *fixture, a *visit) { a.computes(ErrOutcomeUnknown) },
	"a commit":          func(_ *fixture, a *visit) { a.computes(nil) },
}

// TestFence_J02_AttemptThatLostItsJobChangesNothing: however A ends, B has the job as before.
func TestFence_J02_AttemptThatLostItsJobChangesNothing(t *testing.T) {
	t.Parallel()
	const row = `select row_to_json(j)::text from txonce.job j`
	for label, end := range lateEnds {
		t.Run(label, func(t *testing.T) {
			t.Parallel()
			for _, last := range []bool{false, true} {
				opts := &Options{}
				if last { // attempts are counted when they begin, so that A's end may look like the job's
					opts.MaxAttempts = 2
				}
				c := newContest(t, opts)
				before := get[string](c.fixture, row)
				end(c.fixture, c.a)
				if err := receive(c.fixture, "A", c.bellA); err == nil || isCancel(err) {
					t.Errorf("A's doorbell is taken down, of a job that has not ended: %v", err)
				}
				if behind := get[string](c.fixture, row); behind != before {
					t.Errorf("the row was\n%s, it is\n%s", before, behind)
				}
				c.b.goesOn(c.fixture)
				c.hears("B", c.bellB, isNil)
				c.ended(c.id, toolcall.StateSucceeded, 2, "")
				c.effectsBy(map[string][]string{"a": {"2"}})
			}
		})
	}
}

// TestFence_J02_AttemptOfAJobThatHasEndedChangesNothing: A was taken for dead, and its job was ended, with A's token in its row.
func TestFence_J02_AttemptOfAJobThatHasEndedChangesNothing(t *testing.T) {
	t.Parallel()
	const row = `select row_to_json(j)::text from txonce.job j`
	for label, end := range lateEnds {
		t.Run(label, func(t *testing.T) {
			t.Parallel()
			for _, attempts := range []int{1, 5} {
				d, visits := stepwise(t, "stepwise", &Options{MaxAttempts: attempts})
				f := setup(t, still(), d)
				id := submit(f, d, in{Label: "a"}, nil)
				bell := ring(f, f.Runner, d, id)
				a := begun(f, visits)
				f.lapse(id)
				if attempts > 1 { // it has another end
					f.exec(`update txonce.job set deadline = now()`)
				}
				f.sweeps(f.Runner)
				before := get[string](f, row)
				end(f, a)
				if err := receive(f, "the doorbell", bell); err == nil {
					t.Error("the doorbell of an attempt that lost its job is taken down")
				}
				if behind := get[string](f, row); behind != before {
					t.Errorf("the row was\n%s, it is\n%s", before, behind)
				}
				f.ended(id, toolcall.StateFailed, 1, map[bool]string{true: CodeAttemptsExhausted, false: CodeDeadline}[attempts == 1])
				f.effectsBy(map[string][]string{})
			}
		})
	}
}

// TestFence_J02_DoorbellsOfAJobThatIsWorkedAreWrong: one that rings while the job is computed, and while it is committed.
func TestFence_J02_DoorbellsOfAJobThatIsWorkedAreWrong(t *testing.T) {
	t.Parallel()
	d, visits := stepwise(t, "stepwise", nil)
	f := setup(t, still(), d)
	other := f.another(still(), d)
	id := submit(f, d, in{Label: "a"}, nil)
	bell := ring(f, f.Runner, d, id)
	v := begun(f, visits)
	f.hears("one while it computes", ring(f, other, d, id), isSnooze)
	v.enters(f)
	f.hears("one while it commits", ring(f, other, d, id), isSnooze)
	v.commits(nil)
	f.hears("the first one", bell, isNil)
	f.hears("one behind the end", ring(f, other, d, id), isNil)
	nobody(f, visits)
	f.ended(id, toolcall.StateSucceeded, 1, "")
	f.effectsBy(map[string][]string{"a": {"1"}})
}

// TestFence_J02_DoorbellThatWaitsForTheCommitFindsTheEnd: the lease has run out, and A is committing when B's doorbell rings.
func TestFence_J02_DoorbellThatWaitsForTheCommitFindsTheEnd(t *testing.T) {
	t.Parallel()
	d, visits := stepwise(t, "stepwise", nil)
	f := setup(t, still(), d)
	id := submit(f, d, in{Label: "a"}, nil)
	bell := ring(f, f.Runner, d, id)
	v := begun(f, visits)
	f.lapse(id)
	v.enters(f)
	late := ring(f, f.another(still(), d), d, id)
	f.blocked()
	v.commits(nil)
	f.hears("A", bell, isNil)
	f.hears("B", late, func(err error) bool { return err == nil || isSnooze(err) }) // a slow machine makes it leave earlier
	nobody(f, visits)
	f.ended(id, toolcall.StateSucceeded, 1, "")
	f.effectsBy(map[string][]string{"a": {"1"}})
}

// TestFence_J02_LeaseThatRanOutIsGoodUntilSomebodyTakesOver: the token is the fence, and not the clock.
func TestFence_J02_LeaseThatRanOutIsGoodUntilSomebodyTakesOver(t *testing.T) {
	t.Parallel()
	d, visits := stepwise(t, "stepwise", &Options{MaxAttempts: 1})
	f := setup(t, still(), d)
	id := submit(f, d, in{Label: "a"}, nil)
	bell := ring(f, f.Runner, d, id)
	v := begun(f, visits)
	f.lapse(id)
	v.enters(f)
	f.sweeps(f.another(still(), d)) // the row is locked: nobody takes the job for dead
	v.commits(nil)
	f.hears("the doorbell", bell, isNil)
	f.ended(id, toolcall.StateSucceeded, 1, "")
	f.effectsBy(map[string][]string{"a": {"1"}})
}

// TestFence_J02_RowThatIsLockedIsNoReasonToLose: a doorbell rings while the sweeper, or anyone else, has the row.
func TestFence_J02_RowThatIsLockedIsNoReasonToLose(t *testing.T) {
	t.Parallel()
	d, visits := stepwise(t, "stepwise", nil)
	f := setup(t, still(), d)
	id := submit(f, d, in{Label: "a"}, nil)
	tx, err := f.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	f.due(id)
	if err := f.lookAfter(t.Context(), tx, toolcall.StateQueued); err != nil {
		t.Fatal(err)
	}
	f.hears("one that waits for too long", ring(f, f.Runner, d, id), isSnooze)
	short := ring(f, f.Runner, d, id)
	f.blocked()
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case v := <-visits:
		v.goesOn(f)
		f.hears("one that waits", short, isNil)
	case err := <-short: // the machine is slow
		if !isSnooze(err) {
			t.Errorf("one that waits: %v", err)
		}
		short = ring(f, f.Runner, d, id)
		begun(f, visits).goesOn(f)
		f.hears("the next", short, isNil)
	}
	f.ended(id, toolcall.StateSucceeded, 1, "")
	f.effectsBy(map[string][]string{"a": {"1"}})
}

// TestFence_J07_CancelledOrOverdueBetweenTheHalvesHasNoEffect: the commit half looks once more, with the row in its hands.
func TestFence_J07_CancelledOrOverdueBetweenTheHalvesHasNoEffect(t *testing.T) {
	t.Parallel()
	for label, c := range map[string]struct {
		between func(f *fixture, id toolcall.ID)
		state   toolcall.State
		code    string
	}{
		"cancelled": {func(f *fixture, id toolcall.ID) {
			s, err := f.Cancel(f.t.Context(), scope, id)
			if err != nil || s.State != toolcall.StateRunning || !s.Job.CancelRequested {
				f.t.Errorf("Cancel gives %+v, %v", s, err)
			}
		}, toolcall.StateCancelled, ""},
		"overdue": {func(f *fixture, id toolcall.ID) {
			f.exec(`update txonce.job set deadline = clock_timestamp() where id = $1`, uuidOf(id))
		}, toolcall.StateFailed, CodeDeadline},
	} {
		t.Run(label, func(t *testing.T) {
			t.Parallel()
			d, visits := stepwise(t, "stepwise", nil)
			f := setup(t, still(), d)
			id := submit(f, d, in{Label: "a"}, nil)
			bell := ring(f, f.Runner, d, id)
			v := begun(f, visits)
			c.between(f, id)
			v.computes(nil)
			f.hears("the doorbell", bell, isCancel)
			f.ended(id, c.state, 1, c.code)
			f.effectsBy(map[string][]string{})
			f.hears("another one", ring(f, f.Runner, d, id), isNil)
			nobody(f, visits)
		})
	}
}

// TestFence_J07_CancelWaitsForACommitThatIsUnderWay: it is ended then, or goes back to be cancelled, or takes too long.
func TestFence_J07_CancelWaitsForACommitThatIsUnderWay(t *testing.T) {
	t.Parallel()
	type answer struct {
		toolcall.Status
		err error
	}
	begin := func(t *testing.T) (*fixture, toolcall.ID, *visit, <-chan error, <-chan answer) {
		d, visits := stepwise(t, "stepwise", nil)
		f := setup(t, still(), d)
		id := submit(f, d, in{Label: "a"}, nil)
		bell := ring(f, f.Runner, d, id)
		v := begun(f, visits)
		v.enters(f)
		cancelled := make(chan answer, 1)
		go func() {
			s, err := f.Cancel(t.Context(), scope, id)
			cancelled <- answer{s, err}
		}()
		f.blocked()
		return f, id, v, bell, cancelled
	}
	t.Run("it commits", func(t *testing.T) {
		t.Parallel()
		f, id, v, bell, cancelled := begin(t)
		v.commits(nil)
		f.hears("the doorbell", bell, isNil)
		if got := receive(f, "Cancel", cancelled); !errors.Is(got.err, ErrFinished) && !errors.Is(got.err, ErrBusy) || errors.Is(got.err, ErrFinished) && got.State != toolcall.StateSucceeded {
			t.Errorf("Cancel gives %+v, want ErrFinished", got)
		}
		f.ended(id, toolcall.StateSucceeded, 1, "")
		f.effectsBy(map[string][]string{"a": {"1"}})
	})
	t.Run("it fails", func(t *testing.T) {
		t.Parallel()
		f, id, v, bell, cancelled := begin(t)
		v.commits(errors.New("no luck"))
		got := receive(f, "Cancel", cancelled)
		if got.err != nil {
			t.Fatalf("Cancel gives %+v", got)
		}
		receive(f, "the doorbell", bell)
		f.await(id, toolcall.StateCancelled)
		f.effectsBy(map[string][]string{})
	})
	t.Run("it takes long", func(t *testing.T) {
		t.Parallel()
		f, id, v, bell, cancelled := begin(t)
		if got := receive(f, "Cancel", cancelled); !errors.Is(got.err, ErrBusy) {
			t.Errorf("Cancel gives %+v, want ErrBusy", got)
		}
		v.commits(nil)
		f.hears("the doorbell", bell, isNil)
		f.ended(id, toolcall.StateSucceeded, 1, "")
		f.effectsBy(map[string][]string{"a": {"1"}})
	})
}

// TestFence_J07_CancelledAttemptThatLostItsLeaseIsOver: its worker is taken for dead, and what it does later is of no account.
func TestFence_J07_CancelledAttemptThatLostItsLeaseIsOver(t *testing.T) {
	t.Parallel()
	d, visits := stepwise(t, "stepwise", nil)
	f := setup(t, still(), d)
	id := submit(f, d, in{Label: "a"}, nil)
	bell := ring(f, f.Runner, d, id)
	v := begun(f, visits)
	f.lapse(id)
	if s, err := f.Cancel(t.Context(), scope, id); err != nil || s.State != toolcall.StateCancelled {
		t.Errorf("Cancel gives %+v, %v", s, err)
	}
	v.computes(nil)
	f.hears("the doorbell", bell, isSnooze)
	f.ended(id, toolcall.StateCancelled, 1, "")
	f.effectsBy(map[string][]string{})
}

// TestFence_J02_EndIsTheAttempts: should the row be another's when the job is to end, whoever changed it, nothing commits.
func TestFence_J02_EndIsTheAttempts(t *testing.T) {
	t.Parallel()
	for _, sql := range []string{`attempt = gen_random_uuid()`, `state = 'queued'`, `state = 'cancelled', finished_at = now()`} {
		t.Run(sql, func(t *testing.T) {
			t.Parallel()
			d, visits := stepwise(t, "stepwise", nil)
			f := setup(t, still(), d)
			id := submit(f, d, in{Label: "a"}, nil)
			bell := ring(f, f.Runner, d, id)
			v := begun(f, visits)
			v.enters(f)
			v.committed <- func(ctx context.Context, tx pgx.Tx) error {
				_, err := tx.Exec(ctx, `update txonce.job set `+sql)
				return err
			}
			f.hears("the doorbell", bell, isSnooze)
			f.effectsBy(map[string][]string{})
			f.ended(id, toolcall.StateRunning, 1, "")
		})
	}
}

// TestFence_J02_DefaultIsolationDoesNotMatter: where transactions are stricter by default, to wait for a row is no error.
func TestFence_J02_DefaultIsolationDoesNotMatter(t *testing.T) {
	t.Parallel()
	dbtest.SkipPooled(t, "a pooler takes no such setting from a client")
	begin := func(t *testing.T) (*fixture, toolcall.ID, *visit, <-chan error) {
		d, visits := stepwise(t, "stepwise", nil)
		f := setup(t, still(), d)
		f.pool = dbtest.PoolAt(t, f.pool.Config().ConnString(), func(cfg *pgxpool.Config) {
			cfg.ConnConfig.RuntimeParams["default_transaction_isolation"] = "serializable"
			cfg.MaxConns = 10
		})
		f.Runner = f.another(still(), d)
		id := submit(f, d, in{Label: "a"}, nil)
		bell := ring(f, f.Runner, d, id)
		return f, id, begun(f, visits), bell
	}
	t.Run("cancel", func(t *testing.T) {
		t.Parallel()
		f, id, v, bell := begin(t)
		v.enters(f)
		cancelled := make(chan error, 1)
		go func() {
			_, err := f.Cancel(t.Context(), scope, id)
			cancelled <- err
		}()
		f.blocked()
		v.commits(nil)
		f.hears("the doorbell", bell, isNil)
		if err := receive(f, "Cancel", cancelled); !errors.Is(err, ErrFinished) && !errors.Is(err, ErrBusy) {
			t.Errorf("Cancel gives %v", err)
		}
		f.effectsBy(map[string][]string{"a": {"1"}})
	})
	t.Run("an attempt fails", func(t *testing.T) {
		t.Parallel()
		f, id, v, bell := begin(t)
		tx, err := f.pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
		if _, err := tx.Exec(t.Context(), `update txonce.job set message = 'renewed'`); err != nil {
			t.Fatal(err)
		}
		v.computes(errors.New("no luck"))
		f.blocked()
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.hears("the doorbell", bell, isError)
		f.ended(id, toolcall.StateQueued, 1, "")
	})
}

// TestFence_J07_CancelledJobWhoseAttemptFailsWaitsForNoOther: nobody asks, and the pause would be long.
func TestFence_J07_CancelledJobWhoseAttemptFailsWaitsForNoOther(t *testing.T) {
	t.Parallel()
	d, visits := stepwise(t, "stepwise", nil)
	f := setup(t, still(), d)
	id := submit(f, d, in{Label: "a"}, nil)
	bell := ring(f, f.Runner, d, id)
	v := begun(f, visits)
	if _, err := f.Cancel(t.Context(), scope, id); err != nil {
		t.Fatal(err)
	}
	v.computes(errors.New("no luck"))
	receive(f, "the doorbell", bell)
	f.exec(`truncate txonce_river.river_job`) // where it was cancelled as well
	f.sweeps(f.Runner)
	if state := get[string](f, `select state from txonce.job`); state != string(toolcall.StateCancelled) {
		t.Errorf("the job is %s", state)
	}
	nobody(f, visits)
	f.effectsBy(map[string][]string{})
}
