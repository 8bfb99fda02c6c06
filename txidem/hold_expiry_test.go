package txidem

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/toolcall"
)

// TestHold_J01_KeepIsTheRecords: of a derived key, it is the window; without a record, nothing.
func TestHold_J01_KeepIsTheRecords(t *testing.T) {
	t.Parallel()
	f := setup(t, &Policy{Window: time.Minute, Retention: time.Hour}, nil)
	h := &holder{}
	if _, err := Run(t.Context(), f.store, request(""), h.inTx(nil)); err != nil || h.keep != time.Minute {
		t.Errorf("a derived key: %v, Keep %v; want the window", err, h.keep)
	}
	off := request("off")
	off.Policy = &Policy{Disabled: true}
	unprotected := func(ctx context.Context) error {
		call, _ := toolcall.FromContext(ctx)
		if err := call.Hold(); err != nil || call.Keep != 0 || call.Held() {
			t.Errorf("without a record: Keep %v, Hold gives %v, held %v; want nothing at all", call.Keep, err, call.Held())
		}
		return nil
	}
	handler := func(ctx context.Context, _ pgx.Tx) (string, error) { return "", unprotected(ctx) }
	_, byRun := Run(t.Context(), f.store, off, handler)
	_, byTx := f.callTx(t.Context(), pgx.ReadCommitted, off, handler)
	_, byBatch := RunBatch(t.Context(), f.store, off, func(ctx context.Context, _ *Batch) (string, error) { return "", unprotected(ctx) })
	_, leased := RunLeased(t.Context(), f.store, off, func(ctx context.Context) (string, error) { return "", unprotected(ctx) }, nil)
	if err := errors.Join(byRun, byTx, byBatch, leased); err != nil || f.records() != 1 {
		t.Errorf("unprotected: %v, %d records", err, f.records())
	}
}

// TestHold_J01_R13_ReleasedTombstoneRefuses: the record of a call that must not run twice is held like others, and stays.
func TestHold_J01_R13_ReleasedTombstoneRefuses(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	for way, call := range holding(f, &Policy{OnExpired: Refuse}, nil) {
		key := name(way)
		h, first, err := call(t.Context(), key)
		if err != nil || !f.held(key) || !f.release(first.ID, h.token, 0) {
			t.Fatalf("%s: %+v, %v", way, first, err)
		}
		refused := func(when string) {
			t.Helper()
			if again, err := onceMore(t.Context(), call, key); !errors.Is(err, ErrExpired) {
				t.Errorf("%s %s: %+v, %v; want ErrExpired", way, when, again, err)
			}
		}
		refused("expired")
		if swept, err := f.store.Sweep(t.Context()); err != nil || swept != (Swept{Emptied: 1}) {
			t.Errorf("%s: swept %+v, %v; want one emptied", way, swept, err)
		}
		refused("swept")
	}
}

// TestHold_J01_R12_ReleasedRecordIsSwept: of those that are held, released and released long ago, the last ones go.
func TestHold_J01_R12_ReleasedRecordIsSwept(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	for key, keep := range map[string]time.Duration{"held": -1, "kept": time.Hour, "over": 0} {
		h := &holder{}
		r, err := Run(t.Context(), f.store, request(key), h.inTx(nil))
		if err != nil || keep >= 0 && !f.release(r.ID, h.token, keep) {
			t.Fatalf("%s: %+v, %v", key, r, err)
		}
	}
	if swept, err := f.store.Sweep(t.Context()); err != nil || swept != (Swept{Deleted: 1}) {
		t.Errorf("swept %+v, %v; want one", swept, err)
	}
	for key, want := range map[string]toolcall.State{"held": toolcall.StateSucceeded, "kept": toolcall.StateSucceeded, "over": toolcall.StateNone} {
		if status, err := f.store.Status(t.Context(), request(key)); err != nil || status.State != want {
			t.Errorf("%s: %v, %v; want %v", key, status.State, err, want)
		}
	}
}

// TestHold_J01_R21_HeldRecordsCountAndCanBeForgotten: a hold is no way around the quota, nor around an erasure.
func TestHold_J01_R21_HeldRecordsCountAndCanBeForgotten(t *testing.T) {
	t.Parallel()
	f := setup(t, &Policy{Quota: 2}, nil)
	f.exec(`create index call_scope_idx on txonce.call (scope, expires_at)`)
	var last toolcall.ID
	for _, key := range []string{"a", "b"} {
		r, err := Run(t.Context(), f.store, request(key), (&holder{}).inTx(nil))
		if err != nil {
			t.Fatal(err)
		}
		last = r.ID
	}
	f.store.quotas.stale()
	if _, err := Run(t.Context(), f.store, request("c"), writes("c")); !errors.Is(err, ErrQuota) {
		t.Errorf("beside two that are held: %v, want ErrQuota", err)
	}
	if r, err := Run(t.Context(), f.store, request("a"), writes("a")); err != nil || !r.Replayed {
		t.Errorf("a replay with the scope full: %+v, %v", r, err)
	}
	if ok, err := f.store.Forget(t.Context(), "alice", last); err != nil || !ok || f.records() != 1 {
		t.Errorf("Forget: %v, %v, %d left", ok, err, f.records())
	}
	if n, err := f.store.ForgetScope(t.Context(), "alice"); err != nil || n != 1 || f.records() != 0 {
		t.Errorf("ForgetScope: %d, %v, %d left", n, err, f.records())
	}
}

// TestHold_J01_R22_StoreInMemory: there, nothing but Forget ends a hold.
func TestHold_J01_R22_StoreInMemory(t *testing.T) {
	t.Parallel()
	now := time.Now()
	s := memory(t, nil, &MemoryConfig{Now: func() time.Time { return now }})
	holds := func(ctx context.Context, _ pgx.Tx) (string, error) { return "held", (&holder{}).hold(ctx) }
	fails := func(ctx context.Context, tx pgx.Tx) (string, error) {
		_, err := holds(ctx, tx)
		return "", errors.Join(err, Fail("no", "not this one"))
	}
	calls := map[string]func(key string) (Result[string], error){
		"run":  func(key string) (Result[string], error) { return Run(t.Context(), s, request(key), holds) },
		"tx":   func(key string) (Result[string], error) { return RunTx(t.Context(), noTx{}, s, request(key), holds) },
		"fail": func(key string) (Result[string], error) { return Run(t.Context(), s, request(key), fails) },
		"not": func(key string) (Result[string], error) {
			return Run(t.Context(), s, request(key), func(context.Context, pgx.Tx) (string, error) { return "", nil })
		},
		"batch": func(key string) (Result[string], error) {
			return RunBatch(t.Context(), s, request(key), func(ctx context.Context, _ *Batch) (string, error) { return holds(ctx, nil) })
		},
		"leased": func(key string) (Result[string], error) {
			return RunLeased(t.Context(), s, request(key), func(ctx context.Context) (string, error) { return holds(ctx, nil) }, nil)
		},
	}
	for key, call := range calls {
		if r, err := call(key); r.Replayed || err != nil && key != "fail" {
			t.Fatalf("%s: %+v, %v", key, r, err)
		}
	}
	now = now.Add(100 * 24 * time.Hour)
	if swept, err := s.Sweep(t.Context()); err != nil || swept != (Swept{Deleted: 2}) {
		t.Errorf("swept %+v, %v; want the two that are not held", swept, err)
	}
	if n := s.memory.live("alice"); n != 4 {
		t.Errorf("%d live records, want the four that are held", n)
	}
	for key, call := range calls {
		held := key != "fail" && key != "not"
		if r, err := call(key); r.Replayed != held {
			t.Errorf("%s, much later: %+v, %v", key, r, err)
		}
	}
	if n, err := s.ForgetScope(t.Context(), "alice"); err != nil || n != 6 {
		t.Errorf("ForgetScope: %d, %v", n, err)
	}
}
