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
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/internal/dbtest"
)

// TestRun_R01_R08_R09_DuplicatesAmongFaults lets several callers, in two processes, make the same call at the same time,
// each with a handler or a network that may do anything, and with callers that leave at any moment. They repeat it until
// they have an answer. All of one call must have the same one, and its effect must be there once.
func TestRun_R01_R08_R09_DuplicatesAmongFaults(t *testing.T) {
	t.Parallel()
	keys, callers := 300, 4
	if testing.Short() {
		keys = 50
	}
	f, wire, _ := wired(t, &Policy{Wait: 200 * time.Millisecond}, 8)
	wire.LoseCancels(true)
	second, err := New(dbtest.PoolAt(t, f.pool.Config().ConnString(), func(cfg *pgxpool.Config) { cfg.ConnConfig.DialFunc = wire.DialFunc }),
		&Config{Policy: &Policy{Wait: 200 * time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	stores := []*Store{f.store, second}
	faults := make([]behaviour, 0, len(behaviours))
	for _, b := range behaviours {
		if b.end == answered || b.end == failed || b.end == released {
			faults = append(faults, b)
		}
	}
	var runs, calls atomic.Int64
	// once makes a call, and returns what was told, or "" if it has to be made again.
	once := func(store *Store, key string) string {
		calls.Add(1)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if rand.N(4) == 0 {
			ctx, cancel = context.WithTimeout(ctx, rand.N(10*time.Millisecond))
			defer cancel()
		}
		b, n := faults[rand.N(len(faults))], 0
		got, err := Run(ctx, store, request(key), func(ctx context.Context, tx pgx.Tx) (string, error) {
			n++
			run := int(runs.Add(1))
			if err := writeRun(ctx, tx, key, run); err != nil {
				return "", err
			}
			return strconv.Itoa(run), b.do(&handlerRun{ctx: ctx, cancel: cancel, tx: tx, run: run}, n)
		})
		failure, isFailure := failureIn(err)
		switch {
		case err == nil:
			return got.Value
		case isFailure:
			return "failure " + failure.Message
		case errors.Is(err, ErrOutcomeUnknown), errors.Is(err, ErrKeyReused), errors.Is(err, ErrRecord):
			t.Errorf("%s: got %v", b.name, err)
		}
		return ""
	}
	f.cutEach(keys, func(key string, _ int) {
		told := make([]string, callers)
		var wg sync.WaitGroup
		for n := range callers {
			wg.Go(func() {
				eventually(t, "the caller has an answer", func() bool {
					told[n] = once(stores[n%2], key)
					return told[n] != "" || t.Failed()
				})
			})
		}
		wg.Wait()
		for _, answer := range told {
			if answer != told[0] {
				t.Errorf("%s: the callers were told %q", key, told)
			}
		}
		kept, isFailure := f.kept(key)
		if kept != told[0] {
			t.Errorf("%s: told %q, recorded %q", key, told[0], kept)
		}
		switch effects := f.ran()[key]; {
		case isFailure && len(effects) != 0, !isFailure && (len(effects) != 1 || strconv.Itoa(effects[0]) != kept):
			t.Errorf("%s: told %q, effects of the runs %v", key, kept, effects)
		}
	})
	f.clean()
	t.Logf("%d keys, %d calls, %d runs", keys, calls.Load(), runs.Load())
}

// kept is what is told of a recorded call, by Status.
func (f *fixture) kept(key string) (told string, failure bool) {
	f.t.Helper()
	status, err := f.store.Status(f.t.Context(), request(key))
	if err != nil {
		f.t.Error(err)
	}
	if status.Failure != nil {
		return "failure " + status.Failure.Message, true
	}
	told, err = strconv.Unquote(string(status.Answer))
	if err != nil {
		f.t.Errorf("%s: %+v, %v", key, status, err)
	}
	return told, false
}
