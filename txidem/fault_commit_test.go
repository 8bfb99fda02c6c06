package txidem

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/internal/dbtest"
	"github.com/txonce/txonce/internal/faultconn"
	"github.com/txonce/txonce/toolcall"
)

// cuts is n, or less in a short run.
func cuts(n int) int {
	if testing.Short() {
		return min(n, 16)
	}
	return n
}

// aCut is a way to cut the wire at the last round trip of a call.
type aCut struct {
	name  string
	fault faultconn.Fault
}

// beforeSync passes the round trip without the Sync that ends it. The simple protocol has none, and one message in all.
func beforeSync(b []byte) int {
	if n := faultconn.AllBut(1)(b); n > 0 {
		return n
	}
	return len(b)
}

// somewhereBefore passes any part of the round trip that leaves COMMIT incomplete, whoever is on the way. pgbouncer tells
// the server of a client that vanished by a message of five bytes, and Postgres reads these as the rest of the message that
// was cut: see TestRun_R08_R17_CutsInsideCommit. In the simple protocol no COMMIT comes of it, for it is not the end of a text.
func somewhereBefore(b []byte) int {
	end := beforeSync(b)
	if dbtest.Pooled() && end < len(b) {
		end = faultconn.AllBut(2)(b)
	}
	return 1 + rand.N(end-1)
}

// The server has not seen COMMIT: the attempt is rolled back, and Run makes another.
var cutsBefore = []aCut{
	{"nothing is written", faultconn.Fault{Write: faultconn.Executes, Pass: faultconn.Nothing, Told: true}},
	{"nothing arrives", atFinish(faultconn.Nothing, faultconn.Cut)},
	{"a part is written", faultconn.Fault{Write: faultconn.Executes, Pass: somewhereBefore, Told: true}},
	{"a part arrives", atFinish(somewhereBefore, faultconn.Cut)},
	{"all but COMMIT arrives", atFinish(faultconn.AllBut(2), faultconn.Cut)},
}

// The server has seen COMMIT: it commits, and the first run's answer is the answer.
var cutsAfter = []aCut{
	{"all but the end of the round trip arrives", atFinish(beforeSync, faultconn.Cut)},
	{"everything arrives", atFinish(nil, faultconn.Cut)},
	{"everything arrives, and the write fails", faultconn.Fault{Write: faultconn.Executes, Told: true}},
	{"the answer is lost", atFinish(nil, faultconn.CutAtAnswer)},
}

// TestRun_R08_CutsAtCommit cuts the connection of a call at its last round trip, and compares the answer with what the
// database holds: each effect says which run made it.
func TestRun_R08_CutsAtCommit(t *testing.T) {
	t.Parallel()
	for label, c := range map[string]struct {
		n           int
		cuts        []aCut
		loseCancels bool // the server is not asked to stop what it is doing
		runs        int  // that each call takes; 0 where it depends on who is faster
	}{
		"before":                   {n: cuts(1000), cuts: cutsBefore, runs: 2},
		"after":                    {n: cuts(1000), cuts: cutsAfter, loseCancels: true, runs: 1},
		"after, racing the cancel": {n: cuts(200), cuts: cutsAfter},
	} {
		t.Run(name(label), func(t *testing.T) {
			t.Parallel()
			f, wire, events := wired(t, &Policy{Wait: 20 * time.Second}, 8)
			wire.LoseCancels(c.loseCancels)
			f.slowCommits(`perform pg_sleep(0.002 * random())`) // so that resolvers come while it lasts
			var runs, resolved atomic.Int64
			f.cutEach(c.n, func(key string, i int) {
				cut := c.cuts[i%len(c.cuts)]
				got, err := f.cutOnce(t.Context(), key, cut.fault, i%2 == 0, nil)
				event := events.last(got.ID)
				if err != nil || got.Replayed || got.Value != strconv.Itoa(event.Runs) || event.Decision != DecidedRan {
					t.Errorf("%s: got %+v, %v, %d runs; want the answer of the last run", cut.name, got, err, event.Runs)
				}
				if c.runs != 0 && (event.Runs != c.runs || event.Resolved != (c.runs == 1)) {
					t.Errorf("%s: %d runs, resolved %v; want %d runs", cut.name, event.Runs, event.Resolved, c.runs)
				}
				count(&resolved, event.Resolved)
				runs.Add(int64(event.Runs))
				f.answerStays(key, got)
			})
			f.oneEffectEach(c.n)
			f.clean()
			t.Logf("%d cuts: %d outcomes found to be committed, %d runs", c.n, resolved.Load(), runs.Load())
		})
	}
}

// TestRun_R08_R17_CutsInsideCommit cuts within the last message, byte by byte. Whether Postgres commits is then for the
// network to say: behind pgbouncer it does where the rest of the message has the length of another. What the caller is told
// must be so.
func TestRun_R08_R17_CutsInsideCommit(t *testing.T) {
	t.Parallel()
	f, _, events := wired(t, &Policy{Wait: 20 * time.Second}, 4)
	const missing = 12 // bytes: more than the message has
	committed := 0
	for n := 1; n <= missing; n++ {
		key := name("k", n)
		got, err := f.cutOnce(t.Context(), key, atFinish(func(b []byte) int { return beforeSync(b) - n }, faultconn.Cut), false, nil)
		event := events.last(got.ID)
		if err != nil || got.Replayed || got.Value != strconv.Itoa(event.Runs) || event.Runs > 2 || event.Resolved != (event.Runs == 1) {
			t.Errorf("without %d bytes: got %+v, %v, event %+v; want the answer of the run that committed", n, got, err, event)
		}
		if event.Resolved {
			committed++
		}
		if event.Resolved && !dbtest.Pooled() {
			t.Errorf("without %d bytes: Postgres has committed", n)
		}
		f.answerStays(key, got)
	}
	f.oneEffectEach(missing)
	f.clean()
	t.Logf("%d of %d cuts inside the last message were committed", committed, missing)
}

// oneEffectEach checks that n calls have left one effect each, of the run whose answer is recorded.
func (f *fixture) oneEffectEach(n int) {
	f.t.Helper()
	effects := f.ran()
	for intent, runs := range effects {
		if got := f.answerOf(intent); len(runs) != 1 || got != strconv.Quote(strconv.Itoa(runs[0])) {
			f.t.Errorf("%s: effects of the runs %v, answer %s; want one effect, of the run that was answered", intent, runs, got)
		}
	}
	if r := f.records(); len(effects) != n || r != n {
		f.t.Errorf("%d intents have effects, there are %d records; want %d of both", len(effects), r, n)
	}
}

// TestRun_R08_CutsAtTheStoringOfAFailure is the same for a handler that fails: no effect, and the failure that was told is
// the one that is kept. Where the roll-back and the storing are under way, the resolver may come between the two and find
// nothing: then the handler runs again, which is as right, for nothing of the first run is left.
func TestRun_R08_CutsAtTheStoringOfAFailure(t *testing.T) {
	t.Parallel()
	for label, c := range map[string]struct {
		cuts        []aCut
		loseCancels bool
		runs        int
	}{
		"before":            {cuts: cutsBefore, runs: 2},
		"after":             {cuts: cutsAfter[3:], loseCancels: true, runs: 1},
		"under way":         {cuts: cutsAfter[:3], loseCancels: true},
		"racing the cancel": {cuts: cutsAfter},
	} {
		t.Run(name(label), func(t *testing.T) {
			t.Parallel()
			n := cuts(150)
			f, wire, events := wired(t, &Policy{Wait: 20 * time.Second}, 8)
			wire.LoseCancels(c.loseCancels)
			var runs, resolved, replayed atomic.Int64
			f.cutEach(n, func(key string, i int) {
				cut := c.cuts[i%len(c.cuts)]
				got, err := f.cutOnce(t.Context(), key, cut.fault, i%2 == 0, func(run int) error { return Fail("no", strconv.Itoa(run)) })
				event := events.last(got.ID)
				failure, ok := failureIn(err)
				if !ok || got.FinishedAt.IsZero() {
					t.Errorf("%s: got %+v, %v; want a recorded failure", cut.name, got, err)
					return
				}
				if told, _ := strconv.Atoi(failure.Message); told < 1 || told > event.Runs || !got.Replayed && told != event.Runs {
					t.Errorf("%s: told run %d of %d, replayed %v", cut.name, told, event.Runs, got.Replayed)
				}
				if c.runs != 0 && (got.Replayed || event.Runs != c.runs || event.Resolved != (c.runs == 1)) {
					t.Errorf("%s: %d runs, resolved %v, replayed %v; want %d runs", cut.name, event.Runs, event.Resolved, got.Replayed, c.runs)
				}
				count(&resolved, event.Resolved)
				count(&replayed, got.Replayed)
				runs.Add(int64(event.Runs))
				again, err := Run(t.Context(), f.store, request(key), writes("never"))
				if kept, ok := failureIn(err); !ok || !again.Replayed || *kept != *failure {
					t.Errorf("%s: told %v, kept %v", cut.name, failure, err)
				}
			})
			if e, r := len(f.ran()), f.records(); e != 0 || r != n {
				t.Errorf("%d effects, %d records; want none and %d", e, r, n)
			}
			f.clean()
			t.Logf("%d cuts: %d outcomes found to be stored, %d replayed, %d runs", n, resolved.Load(), replayed.Load(), runs.Load())
		})
	}
}

func count(n *atomic.Int64, yes bool) {
	if yes {
		n.Add(1)
	}
}

// cutEach calls fn with n keys, a few at a time.
func (f *fixture) cutEach(n int, fn func(key string, i int)) {
	const workers = 4
	var wg sync.WaitGroup
	var next atomic.Int64
	for range workers {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n || f.t.Failed() {
					return
				}
				fn(name("k", i), i)
			}
		})
	}
	wg.Wait()
}

// cutOnce makes a call whose first run ends with the fault. Its effect, which is queued for the last round trip or written
// at once, and its answer or its failure name the run. fails, if not nil, is what a run ends with.
func (f *fixture) cutOnce(ctx context.Context, key string, fault faultconn.Fault, queued bool, fails func(run int) error) (Result[string], error) {
	run := 0
	return Run(ctx, f.store, request(key), func(ctx context.Context, tx pgx.Tx) (string, error) {
		run++
		if err := writeOrQueue(ctx, tx, key, run, queued); err != nil {
			return "", err
		}
		if run == 1 {
			wireOf(tx).Arm(fault)
		}
		if fails != nil {
			if err := fails(run); err != nil {
				return "", err
			}
		}
		return strconv.Itoa(run), nil
	})
}

func writeOrQueue(ctx context.Context, tx pgx.Tx, intent string, run int, queued bool) error {
	if !queued {
		return writeRun(ctx, tx, intent, run)
	}
	call, _ := toolcall.FromContext(ctx)
	return call.AtFinish(func(b *pgx.Batch) { b.Queue(sqlWriteRun, intent, run) })
}

// answerStays repeats the call: the answer is the one that was given, and nothing runs.
func (f *fixture) answerStays(key string, first Result[string]) {
	f.t.Helper()
	again, err := Run(f.t.Context(), f.store, request(key), writes("never"))
	if err != nil || !again.Replayed || string(again.Raw) != string(first.Raw) || !again.FinishedAt.Equal(first.FinishedAt) {
		f.t.Errorf("%s: first %+v, then %+v, %v; want a replay", key, first, again, err)
	}
}

// answerOf is the answer in the record of request(key).
func (f *fixture) answerOf(key string) (answer string) {
	f.t.Helper()
	id := toolcall.NewID("alice", "issue_refund", "x:"+key)
	if err := f.pool.QueryRow(f.t.Context(), `select convert_from(answer, 'UTF8') from txonce.call where id = $1`, id.String()).Scan(&answer); err != nil && !errors.Is(err, pgx.ErrNoRows) {
		f.t.Fatal(err)
	}
	return answer
}

// slowCommits has each COMMIT of an effect execute sql.
func (f *fixture) slowCommits(sql string) {
	f.t.Helper()
	f.exec(`create function slow() returns trigger language plpgsql as $$ begin ` + sql + `; return null; end $$`)
	f.exec(`create constraint trigger slow after insert on ran deferrable initially deferred for each row execute function slow()`)
}
