package txidem

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/toolcall"
)

// TestRunTx_R05_ReplaysAreTheFirstAnswerByteForByte is true in the transaction of the first call and in a later one.
func TestRunTx_R05_ReplaysAreTheFirstAnswerByteForByte(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	ctx := t.Context()
	for _, level := range isolationLevels {
		for i, raw := range []string{
			`null`, `0`, `""`, `[]`, `1e2`, `{"b":1,"a":2}`, `"\u0000"`, `"\ud800"`, " { \"a\" :\n 1.0 } ", `"` + string(make([]byte, 0)) + `ä"`,
		} {
			key := name(level, i)
			answers := func(ctx context.Context, tx pgx.Tx) (json.RawMessage, error) {
				return json.RawMessage(raw), write(ctx, tx, key)
			}
			err := pgx.BeginTxFunc(ctx, f.pool, pgx.TxOptions{IsoLevel: level}, func(tx pgx.Tx) error {
				first, err := RunTx(ctx, tx, f.store, request(key), answers)
				if err != nil || first.Replayed || string(first.Raw) != raw {
					t.Errorf("%q: %+v, %v", raw, first, err)
				}
				again, err := RunTx(ctx, tx, f.store, request(key), answers)
				if err != nil || !again.Replayed || string(again.Raw) != raw || !again.FinishedAt.Equal(first.FinishedAt) {
					t.Errorf("%q, in the same transaction: %+v, %v", raw, again, err)
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
			later, err := Run(ctx, f.store, request(key), answers)
			if err != nil || !later.Replayed || string(later.Raw) != raw || f.effects(key) != 1 {
				t.Errorf("%q, later: %+v, %v, %d effects", raw, later, err, f.effects(key))
			}
		}
	}
	f.clean()
}

// TestRunTx_R06_FailuresReplayInTheSameTransaction too.
func TestRunTx_R06_FailuresReplayInTheSameTransaction(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	ctx := t.Context()
	for _, level := range isolationLevels {
		err := pgx.BeginTxFunc(ctx, f.pool, pgx.TxOptions{IsoLevel: level}, func(tx pgx.Tx) error {
			for i := range 3 {
				got, err := RunTx(ctx, tx, f.store, request(name(level)), func(ctx context.Context, tx pgx.Tx) (string, error) {
					return "", errors.Join(write(ctx, tx, "k"), Fail("no", "no"))
				})
				if !isFailure(err) || got.Replayed != (i > 0) {
					t.Errorf("%s, %d: %+v, %v", level, i, got, err)
				}
			}
			return nil
		})
		if err != nil || f.effects("k") != 0 {
			t.Errorf("%s: %v, %d effects", level, err, f.effects("k"))
		}
	}
	f.clean()
}

// TestRunTx_R07_LargeAnswerOfTheSameTransaction is read through the transaction: nobody else can see it.
func TestRunTx_R07_LargeAnswerOfTheSameTransaction(t *testing.T) {
	t.Parallel()
	f := setup(t, &Policy{InlineAnswer: 3}, func(cfg *pgxpool.Config) { cfg.MaxConns = 1 })
	ctx := t.Context()
	if err := pgx.BeginFunc(ctx, f.pool, func(tx pgx.Tx) error {
		for i := range 2 {
			if got, err := RunTx(ctx, tx, f.store, request("k"), writes("k")); err != nil || got.Replayed != (i > 0) || got.Value != "done k" {
				t.Errorf("%d: %+v, %v", i, got, err)
			}
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	f.effectsAre(map[string]int{"k": 1})
}

// TestRunTx_R05_R10_InsideRun makes calls with the tx of another call's handler: both are recorded, or neither.
func TestRunTx_R05_R10_InsideRun(t *testing.T) {
	t.Parallel()
	for _, level := range isolationLevels {
		f := setup(t, &Policy{Isolation: level}, func(cfg *pgxpool.Config) { cfg.MaxConns = 1 })
		for _, rollBack := range []bool{true, false} {
			_, err := Run(t.Context(), f.store, request("outer"), func(ctx context.Context, tx pgx.Tx) (string, error) {
				before, _, _ := seen(ctx, tx)
				for _, c := range []struct {
					key string
					end error
				}{{"inner", nil}, {"fails", Fail("no", "no")}, {"breaks", errOfTheTool}} {
					_, err := RunTx(ctx, tx, f.store, request(c.key), func(ctx context.Context, tx pgx.Tx) (string, error) {
						return "", errors.Join(write(ctx, tx, c.key), c.end)
					})
					if !errors.Is(err, c.end) && !isFailure(err) {
						t.Errorf("%s: %v", c.key, err)
					}
					if after, _, err := seen(ctx, tx); after != before || err != nil {
						t.Errorf("%s: the outer call's token %q has become %q, %v", c.key, before, after, err)
					}
				}
				if rollBack {
					return "", errOfTheTool
				}
				return "", write(ctx, tx, "outer")
			})
			want := 3 // outer, inner, fails
			if rollBack {
				want = 0
			}
			if rollBack != errors.Is(err, errOfTheTool) || f.records() != want {
				t.Errorf("%s, rolled back %v: %v, %d records", level, rollBack, err, f.records())
			}
		}
		for key, state := range map[string]toolcall.State{
			"outer": toolcall.StateSucceeded, "inner": toolcall.StateSucceeded, "fails": toolcall.StateFailed, "breaks": toolcall.StateNone,
		} {
			if got := f.state(request(key)); got != state {
				t.Errorf("%s: %s is %s", level, key, got)
			}
		}
		f.effectsAre(map[string]int{"outer": 1, "inner": 1, "fails": 0, "breaks": 0})
		f.clean()
	}
}

// TestRunTx_R10_CallInsideItselfIsRefused at any depth.
func TestRunTx_R10_CallInsideItselfIsRefused(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	var errs []error
	var down func(keys ...string) func(context.Context, pgx.Tx) (string, error)
	down = func(keys ...string) func(context.Context, pgx.Tx) (string, error) {
		return func(ctx context.Context, tx pgx.Tx) (string, error) {
			if len(keys) > 0 {
				_, err := RunTx(ctx, tx, f.store, request(keys[0]), down(keys[1:]...))
				errs = append(errs, err)
			}
			return "", write(ctx, tx, "k")
		}
	}
	for _, c := range []struct {
		keys    []string
		effects int
	}{{[]string{"a", "a"}, 1}, {[]string{"b", "c", "b"}, 2}, {[]string{"d", "e", "f", "e"}, 3}, {[]string{"g", "h", "i", "g"}, 3}} {
		errs = nil
		f.exec(`truncate effect`)
		if _, err := f.callTx(t.Context(), pgx.ReadCommitted, request(c.keys[0]), down(c.keys[1:]...)); err != nil {
			t.Error(err)
		}
		for i, err := range errs { // the innermost comes first
			if (i == 0) != errors.Is(err, ErrNested) {
				t.Errorf("%v: %v", c.keys, errs)
			}
		}
		f.effectsAre(map[string]int{"k": c.effects})
	}
	f.clean()
}

// TestRunTx_Q01_AddsTwoRoundTripsToTheCallersTransaction where the call is new, and three under SERIALIZABLE.
func TestRunTx_Q01_AddsTwoRoundTripsToTheCallersTransaction(t *testing.T) {
	t.Parallel()
	w := &turns{}
	f := setup(t, nil, w.counted)
	ctx := t.Context()
	for level, want := range map[pgx.TxIsoLevel]int{pgx.ReadCommitted: 2, pgx.RepeatableRead: 2, pgx.Serializable: 3} {
		for i := range 4 { // the first ones describe the statements
			err := pgx.BeginTxFunc(ctx, f.pool, pgx.TxOptions{IsoLevel: level}, func(tx pgx.Tx) error {
				w.take()
				_, err := RunTx(ctx, tx, f.store, request(name(level, i)), func(context.Context, pgx.Tx) (string, error) { return "", nil })
				if n := w.take(); i == 3 && n != want {
					t.Errorf("%s: %d round trips, want %d", level, n, want)
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
		}
	}
}
