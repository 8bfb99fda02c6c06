package txidem

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// TestRunTx_R01_ConcurrentDuplicatesHaveOneEffect has 64 callers with transactions of their own, that repeat them until they
// have an answer. What they hear until then is true, and at READ COMMITTED each transaction commits all the same.
func TestRunTx_R01_ConcurrentDuplicatesHaveOneEffect(t *testing.T) {
	t.Parallel()
	for _, level := range isolationLevels {
		t.Run(name(level), func(t *testing.T) {
			t.Parallel()
			const n = 64
			f := setup(t, nil, func(cfg *pgxpool.Config) { cfg.MaxConns = 16 })
			var fresh, commits atomic.Int64
			var wg sync.WaitGroup
			for range n {
				wg.Go(func() {
					for !t.Failed() {
						got, err, commitErr := f.callAndWrite(level)
						if commitErr == nil {
							commits.Add(1)
						} else if level == pgx.ReadCommitted {
							t.Errorf("after %v the caller's transaction ends with %v", err, commitErr)
						}
						if err == nil && commitErr == nil {
							count(&fresh, !got.Replayed)
							return
						}
						f.heardTheTruth(level, err, commitErr)
					}
				})
			}
			wg.Wait()
			if e, a := f.effects("k"), f.effects("after"); e != 1 || fresh.Load() != 1 || int64(a) != commits.Load() || f.records() != 1 {
				t.Errorf("effects = %d, first answers = %d, the callers' own = %d of %d, records = %d", e, fresh.Load(), a, commits.Load(), f.records())
			}
			f.clean()
		})
	}
}

// callAndWrite makes the call and, whatever it returns, writes and commits.
func (f *fixture) callAndWrite(level pgx.TxIsoLevel) (got Result[string], err, commitErr error) {
	ctx := f.t.Context()
	commitErr = pgx.BeginTxFunc(ctx, f.pool, pgx.TxOptions{IsoLevel: level}, func(tx pgx.Tx) error {
		got, err = RunTx(ctx, tx, f.store, request("k"), writes("k"))
		if err == nil && got.Value != "done k" {
			f.t.Errorf("a duplicate got %+v", got)
		}
		return write(ctx, tx, "after")
	})
	return got, err, commitErr
}

func (f *fixture) heardTheTruth(level pgx.TxIsoLevel, err, commitErr error) {
	f.t.Helper()
	repeat := hasCode(err, codeSerialization) || errors.Is(err, ErrStaleSnapshot) || err == nil && hasCode(commitErr, codeSerialization)
	if !errors.Is(err, ErrInProgress) && (level == pgx.ReadCommitted || !repeat) {
		f.t.Errorf("%s: a duplicate heard %v, and at its commit %v", level, err, commitErr)
	}
	if err != nil && !Retryable(err) {
		f.t.Errorf("%v is not retryable", err)
	}
}

// TestRunTx_R01_StaleSnapshotIsNamed has a transaction that is older than the call that it repeats.
func TestRunTx_R01_StaleSnapshotIsNamed(t *testing.T) {
	t.Parallel()
	for _, level := range isolationLevels {
		for _, expired := range []bool{false, true} { // there was a record, which a rival has replaced
			f := setup(t, nil, nil)
			ctx := t.Context()
			if expired {
				recordedBefore(f)
				f.exec(`update txonce.call set expires_at = clock_timestamp()`)
			}
			tx, err := f.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: level})
			if err != nil {
				t.Fatal(err)
			}
			if err := write(ctx, tx, "before"); err != nil { // takes the snapshot
				t.Fatal(err)
			}
			if _, err := Run(ctx, f.store, request("k"), writes("k")); err != nil {
				t.Fatal(err)
			}
			got, err := RunTx(ctx, tx, f.store, request("k"), writes("k"))
			switch {
			case level == pgx.ReadCommitted && (err != nil || !got.Replayed):
				t.Errorf("%s: %+v, %v; want a replay", level, got, err)
			case level != pgx.ReadCommitted && (!errors.Is(err, ErrStaleSnapshot) && !hasCode(err, codeSerialization) || !Retryable(err)):
				t.Errorf("%s, expired %v: %v; want ErrStaleSnapshot or 40001", level, expired, err)
			}
			_ = tx.Rollback(ctx)
			if got, err := f.callTx(ctx, level, request("k"), writes("k")); err != nil || !got.Replayed {
				t.Errorf("%s, repeated: %+v, %v", level, got, err)
			}
			f.effectsAre(map[string]int{"k": 1, "before": 0})
			f.clean()
		}
	}
}

// TestRunTx_R11_LostRaceOnOurKeyIsAReplay has a rival that does not hold the lock, as behind a failover.
func TestRunTx_R11_LostRaceOnOurKeyIsAReplay(t *testing.T) {
	t.Parallel()
	for _, level := range append([]pgx.TxIsoLevel{pgx.ReadUncommitted}, isolationLevels...) {
		for _, fails := range []bool{false, true} {
			f := setup(t, nil, nil)
			runs := 0
			handler := func(ctx context.Context, tx pgx.Tx) (string, error) {
				runs++
				id, _ := f.store.identify(request("k"))
				if level != pgx.Serializable { // there the row is reserved, and the rival would wait
					f.exec(`insert into txonce.call select $1, 'alice', 'issue_refund', 'x:k', $2, 1, null, 'succeeded', gen_random_uuid(), '"rival"', now(), now(), now() + interval '1 h'`,
						uuidOf(id), id.fingerprint[:])
				}
				if fails {
					return "", errors.Join(write(ctx, tx, "k"), Fail("no", "no"))
				}
				return "mine", write(ctx, tx, "k")
			}
			err := pgx.BeginTxFunc(t.Context(), f.pool, pgx.TxOptions{IsoLevel: level}, func(tx pgx.Tx) error {
				got, err := RunTx(t.Context(), tx, f.store, request("k"), handler)
				switch {
				case readsFreshSnapshots(level) && (err != nil || !got.Replayed || got.Value != "rival"):
					t.Errorf("%s, fails %v: %+v, %v; want the rival's answer", level, fails, got, err)
				case level == pgx.RepeatableRead && !errors.Is(err, ErrStaleSnapshot) && !hasCode(err, codeSerialization):
					t.Errorf("%s, fails %v: %+v, %v; want ErrStaleSnapshot", level, fails, got, err)
				}
				return nil
			})
			if level == pgx.Serializable {
				continue
			}
			if level == pgx.ReadCommitted && err != nil || runs != 1 {
				t.Errorf("%s, fails %v: %d runs, the caller's commit: %v", level, fails, runs, err)
			}
			f.effectsAre(map[string]int{"k": 0})
			f.clean()
		}
	}
}

// TestRunTx_R11_SerializableCallsDoNotFailEachOther is TestRun_R11_SerializableCallsDoNotFailEachOther for callers' own
// transactions. The same calls with the record read first show that the test would tell.
func TestRunTx_R11_SerializableCallsDoNotFailEachOther(t *testing.T) {
	t.Parallel()
	const workers = 16
	for label, c := range map[string]struct {
		calls  int64
		right  func(share float64) bool // of the transactions that Postgres failed
		before string                   // what each does first
	}{
		"reserved":   {600, func(share float64) bool { return share <= 0.01 }, `select`},
		"read first": {100, func(share float64) bool { return share > 0.02 }, `select from txonce.call where id = $1::text::uuid`},
	} {
		t.Run(name(label), func(t *testing.T) {
			t.Parallel()
			f := setup(t, nil, func(cfg *pgxpool.Config) { cfg.MaxConns = workers })
			var failed, next atomic.Int64
			var wg sync.WaitGroup
			for range workers {
				wg.Go(func() {
					for i := next.Add(1); i <= c.calls && !t.Failed(); i = next.Add(1) {
						for f.serializableOnce(name("k", i), c.before) {
							failed.Add(1)
						}
					}
				})
			}
			wg.Wait()
			share := float64(failed.Load()) / float64(c.calls)
			t.Logf("%d calls: %.2f %% failed once", c.calls, 100*share)
			if !c.right(share) {
				t.Errorf("%.2f %% of the calls were failed", 100*share)
			}
			if n := f.records(); int64(n) != c.calls {
				t.Errorf("%d records, want %d", n, c.calls)
			}
			f.clean()
		})
	}
}

// serializableOnce makes a call, and reports whether Postgres wants it repeated.
func (f *fixture) serializableOnce(key, before string) (again bool) {
	ctx := f.t.Context()
	id, err := f.store.identify(request(key))
	if err != nil {
		f.t.Error(err)
		return false
	}
	var args []any
	if before != `select` {
		args = []any{id.ID.String()}
	}
	err = pgx.BeginTxFunc(ctx, f.pool, pgx.TxOptions{IsoLevel: pgx.Serializable}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, before, args...); err != nil {
			return err
		}
		_, err := RunTx(ctx, tx, f.store, request(key), writes(key))
		return err
	})
	if err != nil && !hasCode(err, codeSerialization) {
		f.t.Error(err)
		return false
	}
	return err != nil
}

// TestRunTx_R11_SerializationFailureIsTheCallers has the handler hear 40001 or 40P01: a new transaction is the caller's to
// begin.
func TestRunTx_R11_SerializationFailureIsTheCallers(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	for _, code := range []string{codeSerialization, codeDeadlock} {
		runs := 0
		_, err := f.callTx(t.Context(), pgx.ReadCommitted, request(code), func(ctx context.Context, tx pgx.Tx) (string, error) {
			runs++
			return "", errors.Join(write(ctx, tx, "k"), raise(ctx, tx, code))
		})
		if !hasCode(err, code) || !Retryable(err) || runs != 1 {
			t.Errorf("%s: %v, %d runs", code, err, runs)
		}
	}
	f.effectsAre(map[string]int{"k": 0})
	f.clean()
}
