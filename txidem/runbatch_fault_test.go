package txidem

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/internal/dbtest"
	"github.com/txonce/txonce/internal/faultconn"
)

func TestRunBatch_R01_R18_ConcurrentDuplicatesHaveOneEffect(t *testing.T) {
	t.Parallel()
	for _, level := range isolationLevels {
		t.Run(name(level), func(t *testing.T) {
			t.Parallel()
			const n = 64
			f := setup(t, &Policy{Isolation: level, Wait: 20 * time.Second}, func(cfg *pgxpool.Config) { cfg.MaxConns = 16 })
			var fresh atomic.Int64
			var wg sync.WaitGroup
			for range n {
				wg.Go(func() {
					got, err := RunBatch(t.Context(), f.store, request("k"), queues("k"))
					if err != nil || got.Value != "done k" {
						t.Errorf("a duplicate got %+v, %v", got, err)
					}
					count(&fresh, !got.Replayed)
				})
			}
			wg.Wait()
			if e := f.effects("k"); e != 1 || fresh.Load() != 1 || f.records() != 1 {
				t.Errorf("effects = %d, first answers = %d, records = %d", e, fresh.Load(), f.records())
			}
			f.clean()
		})
	}
}

// TestRunBatch_R18_DuplicateOfABatchUnderWayIsAnsweredAtOnce has a batch wait in the server, until its duplicates have been
// answered: with the pool's second connection, which each of them gives back.
func TestRunBatch_R18_DuplicateOfABatchUnderWayIsAnsweredAtOnce(t *testing.T) {
	t.Parallel()
	for _, level := range isolationLevels {
		f := setup(t, &Policy{Isolation: level, Wait: NoWait}, func(cfg *pgxpool.Config) { cfg.MaxConns = 2 })
		other := f.other(nil) // holds the barrier, with a pool of its own
		lower := other.raise()
		ended := make(chan error)
		go func() {
			_, err := RunBatch(t.Context(), f.store, request("k"), queuesSQL("k", `select pg_advisory_xact_lock(42)`))
			ended <- err
		}()
		other.atBarrier()
		for range 5 {
			if _, err := RunBatch(t.Context(), f.store, request("k"), queues("k")); !errors.Is(err, ErrInProgress) || !Retryable(err) {
				t.Errorf("%s: a duplicate got %v", level, err)
			}
			if n := f.pool.Stat().AcquiredConns(); n != 1 {
				t.Errorf("%s: %d connections are in use, want the batch's", level, n)
			}
			other.atBarrier() // it still is
			f.fast()
		}
		waiting := request("k")
		waiting.Policy = &Policy{Wait: 20 * time.Second}
		waited := make(chan Result[string])
		go func() {
			got, err := RunBatch(t.Context(), f.store, waiting, queues("k"))
			if err != nil {
				t.Errorf("%s: who waits got %v", level, err)
			}
			waited <- got
		}()
		eventually(t, "it waits", func() bool { return f.store.waits.waiting(waiting) == 1 })
		lower()
		if err := <-ended; err != nil {
			t.Errorf("%s: the batch: %v", level, err)
		}
		if got := <-waited; !got.Replayed || got.Value != "done" {
			t.Errorf("%s: who waits got %+v", level, got)
		}
		f.effectsAre(map[string]int{"k": 2})
		f.clean()
	}
}

// queueRun queues an effect that says which sending of the batch made it. The first one meets the fault.
func queueRun(key string, sent *atomic.Int64) func(context.Context, *Batch) (string, error) {
	return func(_ context.Context, b *Batch) (string, error) {
		b.Queue(sqlWriteRun, key, int(sent.Add(1)))
		return "done", nil
	}
}

// TestRunBatch_R08_CutsAtTheRoundTrip cuts the wire under the one round trip, before and after the server has seen COMMIT.
func TestRunBatch_R08_CutsAtTheRoundTrip(t *testing.T) {
	t.Parallel()
	for label, c := range map[string]struct {
		cuts        []aCut
		loseCancels bool
	}{
		"before":                   {cuts: cutsBefore},
		"after":                    {cuts: cutsAfter, loseCancels: true},
		"after, racing the cancel": {cuts: cutsAfter},
	} {
		t.Run(name(label), func(t *testing.T) {
			t.Parallel()
			n := cuts(60)
			f, wire, events := wired(t, &Policy{Wait: 20 * time.Second}, 4, func(cfg *pgxpool.Config) {
				cfg.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
			})
			wire.LoseCancels(c.loseCancels)
			f.slowCommits(`perform pg_sleep(0.002 * random())`)
			known := 0
			for i := range n {
				key := name("k", i)
				cut := c.cuts[i%len(c.cuts)]
				f.fast()
				f.armNext(cut.fault)
				var sent atomic.Int64
				req := request(key)
				req.Policy = &Policy{Isolation: isolationLevels[i/4%3]}
				got, err := RunBatch(t.Context(), f.store, req, queueRun(key, &sent))
				event := events.last(got.ID)
				if err != nil || got.Value != "done" || got.Replayed && label == "before" || event.Runs != 1 && !got.Replayed {
					t.Errorf("%s: %+v, %v, event %+v", cut.name, got, err, event)
				}
				if event.Resolved || got.Replayed {
					known++
				}
				f.answerStays(key, got)
				if runs := f.ranLike(key)[key]; len(runs) != 1 {
					t.Errorf("%s: effects of the runs %v, want one", cut.name, runs)
				}
			}
			// Who asks for the outcome may come before the server has read the batch: then the call runs once more, and wins or
			// finds the batch done. That is rare.
			if label == "before" && known > 0 || label == "after" && known < n/2 {
				t.Errorf("of %d outcomes %d were found out", n, known)
			}
			if r := f.records(); r != n {
				t.Errorf("%d records, want %d", r, n)
			}
			f.clean()
		})
	}
}

// armNext has the next write that executes something meet the fault, on whichever connection that is.
func (f *fixture) armNext(fault faultconn.Fault) {
	f.t.Helper()
	var once sync.Once
	match := fault.Write
	fault.Write = func(b []byte) (meets bool) {
		if match(b) {
			once.Do(func() { meets = true })
		}
		return meets
	}
	conns := f.pool.AcquireAllIdle(f.t.Context())
	for _, conn := range conns {
		faultconn.Of(conn.Conn().PgConn().Conn()).Arm(fault)
		conn.Release()
	}
	if len(conns) == 0 {
		conn, err := f.pool.Acquire(f.t.Context())
		if err != nil {
			f.t.Fatal(err)
		}
		faultconn.Of(conn.Conn().PgConn().Conn()).Arm(fault)
		conn.Release()
	}
}

// TestRunBatch_R02_BackendTerminatedUnderWay ends the backend while it executes the batch, and while it commits.
func TestRunBatch_R02_BackendTerminatedUnderWay(t *testing.T) {
	t.Parallel()
	for _, atCommit := range []bool{false, true} {
		f, _, events := wired(t, &Policy{Wait: 20 * time.Second, CommitTimeout: 30 * time.Second}, 8)
		if atCommit {
			f.slowCommits(`perform pg_advisory_xact_lock(42)`)
		}
		lower := f.raise()
		ended := make(chan Result[string])
		go func() {
			got, err := RunBatch(t.Context(), f.store, request("k"), func(_ context.Context, b *Batch) (string, error) {
				if b.Queue(sqlWriteRun, "k", 1); !atCommit {
					b.Queue(`select pg_advisory_xact_lock(42)`)
				}
				return "1", nil
			})
			if err != nil {
				t.Error(err)
			}
			ended <- got
		}()
		f.terminate(f.atBarrier())
		f.atBarrier() // once more, by Run
		lower()
		if got := <-ended; got.Replayed || got.Value != "1" || events.last(got.ID).Runs != 1 {
			t.Errorf("at COMMIT %v: %+v, event %+v", atCommit, got, events.last(got.ID))
		}
		f.oneEffectEach(1)
		f.clean()
	}
}

// TestRunBatch_R11_RepeatsGoThroughRun has Postgres ask for a repeat, and things that make a first try void.
func TestRunBatch_R11_RepeatsGoThroughRun(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, func(cfg *pgxpool.Config) {
		cfg.MaxConns = 1
		cfg.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	})
	f.exec(`create sequence tried`)
	failsOnce := func(code string) string {
		return `do $$ begin if nextval('tried') < 2 then raise sqlstate '` + code + `'; end if; end $$`
	}
	reset := func() { f.fast(); f.exec(`alter sequence tried restart`) }
	for _, code := range []string{codeSerialization, codeDeadlock} {
		reset()
		if got, err := RunBatch(t.Context(), f.store, request(code), queuesSQL(code, failsOnce(code))); err != nil || got.Value != "done" {
			t.Errorf("%s: %+v, %v", code, got, err)
		}
		reset()
		if _, err := RunBatch(t.Context(), f.store, request(code+" always"), queuesSQL("x", `do $$ begin raise sqlstate '`+code+`'; end $$`)); !hasCode(err, code) || !Retryable(err) {
			t.Errorf("%s always: %v", code, err)
		}
	}
	reset()
	if _, err := RunBatch(t.Context(), f.store, request("before"), queues("plan")); err != nil {
		t.Fatal(err)
	}
	f.exec(`alter table txonce.call alter column canon type integer`) // stale plans of ours, and of the user's
	f.exec(`alter table effect alter column intent type varchar(1000)`)
	if got, err := RunBatch(t.Context(), f.store, request("altered"), queues("plan")); err != nil || got.Replayed {
		t.Errorf("altered: %+v, %v", got, err)
	}
	f.fast()
	if dbtest.Pooled() { // which idle backend is whose is the pooler's to say
		t.Log("through a pooler: no idle backend is cut")
	} else {
		var pid int32
		if err := f.pool.QueryRow(t.Context(), `select pg_backend_pid()`).Scan(&pid); err != nil {
			t.Fatal(err)
		}
		f.other(nil).terminate(uint32(pid)) // idle in the pool
	}
	if got, err := RunBatch(t.Context(), f.store, request("eof"), queues("plan")); err != nil || got.Replayed {
		t.Errorf("cut while idle: %+v, %v", got, err)
	}
	f.effectsAre(map[string]int{codeSerialization: 2, codeDeadlock: 2, "x": 0, "plan": 3})
	f.clean()
}

// TestRunBatch_Q01_R18_CostsOneRoundTrip, a replay three, and two while its tool goes the way of Run. After that the tool
// tries one round trip again.
func TestRunBatch_Q01_R18_CostsOneRoundTrip(t *testing.T) {
	t.Parallel()
	w := &turns{}
	f := setup(t, nil, w.counted)
	for i := range 4 { // the first ones describe the statements
		w.take()
		if _, err := RunBatch(t.Context(), f.store, request(strconv.Itoa(i)), queues("k")); err != nil {
			t.Fatal(err)
		}
		if n := w.take(); i == 3 && n != 1 {
			t.Errorf("%d round trips, want 1", n)
		}
	}
	if _, err := RunBatch(t.Context(), f.store, request("0"), queues("k")); err != nil || f.store.slow.free("issue_refund") {
		t.Fatalf("a replay: %v, and its tool is free %v; want it to go the way of Run", err, f.store.slow.free("issue_refund"))
	}
	if !f.store.slow.free("another") {
		t.Error("another tool goes the way of Run")
	}
	w.take()
	for i := range 3 {
		f.store.slow.block("issue_refund")
		if _, err := RunBatch(t.Context(), f.store, request(name("by Run", i)), queues("k")); err != nil {
			t.Fatal(err)
		}
		if n := w.take(); i == 2 && n != 2 {
			t.Errorf("by Run: %d round trips, want 2", n)
		}
	}
	eventually(t, "the tool is free again", func() bool { return f.store.slow.free("issue_refund") })
	for i := range 2 {
		w.take()
		if _, err := RunBatch(t.Context(), f.store, request(name("free", i)), queues("k")); err != nil {
			t.Fatal(err)
		}
	}
	if n := w.take(); n != 1 {
		t.Errorf("free again: %d round trips, want 1", n)
	}
}
