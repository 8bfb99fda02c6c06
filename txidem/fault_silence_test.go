package txidem

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/internal/faultconn"
)

// TestRun_R08_NoWayToAskIsUnknown cuts the connection at COMMIT and lets no other one come up.
func TestRun_R08_NoWayToAskIsUnknown(t *testing.T) {
	t.Parallel()
	f, wire, events := wired(t, &Policy{Wait: 20 * time.Second, CommitTimeout: 300 * time.Millisecond}, 8)
	for _, c := range []struct {
		aCut
		replays bool
	}{{cutsBefore[1], false}, {cutsAfter[1], true}, {cutsAfter[3], true}} {
		run := 0
		handler := func(ctx context.Context, tx pgx.Tx) (string, error) {
			run++
			err := writeRun(ctx, tx, c.name, run)
			if run == 1 {
				wireOf(tx).Arm(c.fault)
				wire.Down(true)
			}
			return strconv.Itoa(run), err
		}
		got, err := Run(t.Context(), f.store, request(c.name), handler)
		if !errors.Is(err, ErrOutcomeUnknown) || !Retryable(err) || got.Raw != nil || events.last(got.ID).Decision != DecidedUnknown {
			t.Errorf("%s: got %+v, %v; want ErrOutcomeUnknown", c.name, got, err)
		}
		if status, err := f.store.Resolve(t.Context(), request(c.name)); !errors.Is(err, ErrOutcomeUnknown) {
			t.Errorf("%s: Resolve says %+v, %v", c.name, status, err)
		}
		wire.Down(false)
		got, err = Run(t.Context(), f.store, request(c.name), handler)
		if effects := f.ran()[c.name]; err != nil || got.Replayed != c.replays || len(effects) != 1 || strconv.Itoa(effects[0]) != got.Value {
			t.Errorf("%s: repeated: %+v, %v, effects of the runs %v", c.name, got, err, effects)
		}
	}
	f.clean()
}

// TestRun_R08_ResolverOutlastsARestart lets the database refuse the first connections after the cut, as one does that
// starts again.
func TestRun_R08_ResolverOutlastsARestart(t *testing.T) {
	t.Parallel()
	var refusals atomic.Int64
	f, _, events := wired(t, nil, 4, func(cfg *pgxpool.Config) {
		cfg.BeforeConnect = func(context.Context, *pgx.ConnConfig) error {
			if refusals.Add(-1) >= 0 {
				return &pgconn.PgError{Code: "57P03", Message: "the database system is starting up"}
			}
			return nil
		}
	})
	for _, c := range []struct {
		aCut
		runs int
	}{{cutsBefore[1], 2}, {cutsAfter[3], 1}} {
		run := 0
		got, err := Run(t.Context(), f.store, request(c.name), func(ctx context.Context, tx pgx.Tx) (string, error) {
			run++
			err := writeRun(ctx, tx, c.name, run)
			if run == 1 {
				wireOf(tx).Arm(c.fault)
				refusals.Store(3)
			}
			return strconv.Itoa(run), err
		})
		if e := events.last(got.ID); err != nil || e.Runs != c.runs || e.Resolved != (c.runs == 1) || refusals.Load() >= 0 {
			t.Errorf("%s: got %+v, %v, event %+v; want the outcome", c.name, got, err, e)
		}
	}
	f.oneEffectEach(2)
	f.clean()
}

// TestRun_R08_SilenceAtCommit has the network go silent at COMMIT: nobody tells the client, and it gives up.
func TestRun_R08_SilenceAtCommit(t *testing.T) {
	t.Parallel()
	for label, c := range map[string]struct {
		pass   func([]byte) int
		policy Policy
		want   error
		runs   int
	}{
		// The server commits, and nobody hears of it.
		"behind": {nil, Policy{CommitTimeout: time.Second}, nil, 1},
		// The server waits for more, and holds the lock.
		"in front": {faultconn.Nothing, Policy{CommitTimeout: time.Second}, ErrOutcomeUnknown, 1},
		// The same, but by then it has lost patience.
		"in front, for longer than IdleInTx": {faultconn.Nothing, Policy{CommitTimeout: 2 * time.Second, IdleInTx: 300 * time.Millisecond}, nil, 2},
		"half-way":                           {somewhereBefore, Policy{CommitTimeout: time.Second}, ErrOutcomeUnknown, 1},
	} {
		t.Run(name(label), func(t *testing.T) {
			t.Parallel()
			f, wire, events := wired(t, &c.policy, 8)
			got, err := f.cutOnce(t.Context(), "k", atFinish(c.pass, faultconn.Stall), false, nil)
			event := events.last(got.ID)
			if !errors.Is(err, c.want) || event.Runs != c.runs || event.Resolved != (c.want == nil && c.runs == 1) {
				t.Errorf("got %+v, %v, event %+v; want %v", got, err, event, c.want)
			}
			wire.CutStalled() // now the server hears of it
			again, err := Run(t.Context(), f.store, request("k"), func(ctx context.Context, tx pgx.Tx) (string, error) {
				return "9", writeRun(ctx, tx, "k", 9)
			})
			if err != nil || again.Replayed != (c.want == nil) || c.want == nil && again.Value != got.Value {
				t.Errorf("first %+v, repeated %+v, %v", got, again, err)
			}
			f.oneEffectEach(1)
			f.clean()
		})
	}
}
