package txidem

import (
	"context"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// stale makes the store count again.
func (q *quotas) stale() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for scope, u := range q.of {
		u.at = u.at.Add(-quotaFresh)
		q.of[scope] = u
	}
}

func TestQuota_R21_FullScopeIsRefusedAndItsReplaysGoOn(t *testing.T) {
	t.Parallel()
	f := setup(t, &Policy{Quota: 3}, nil)
	f.exec(`create index call_scope_idx on txonce.call (scope, expires_at)`)
	for _, key := range []string{"a", "b", "c"} {
		if _, err := Run(t.Context(), f.store, request(key), writes(key)); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // from memory, and counted
		for way, call := range everyWay(f, f.store, "d", "d", nil) {
			if _, err := call(t.Context()); !errors.Is(err, ErrQuota) || !Retryable(err) || !strings.Contains(err.Error(), "3 are allowed") {
				t.Errorf("%s: %v, want ErrQuota", way, err)
			}
		}
		if again, err := Run(t.Context(), f.store, request("a"), writes("a")); err != nil || !again.Replayed {
			t.Errorf("a replay: %+v, %v", again, err)
		}
		other := request("a")
		other.Scope = "bob"
		other.Policy = &Policy{Retention: time.Hour}
		if _, err := Run(t.Context(), f.store, other, writes("bob")); err != nil {
			t.Errorf("another scope: %v", err)
		}
		f.store.quotas.stale()
	}
	f.exec(`update txonce.call set expires_at = clock_timestamp() where key = 'x:a'`)
	f.store.quotas.stale()
	if _, err := Run(t.Context(), f.store, request("d"), writes("d")); err != nil {
		t.Errorf("once a record has expired: %v", err)
	}
	if _, err := Run(t.Context(), f.store, request("a"), writes("a")); !errors.Is(err, ErrQuota) {
		t.Errorf("over the expired record, with the scope full again: %v, want ErrQuota", err)
	}
	f.effectsAre(map[string]int{"a": 1, "bob": 1, "d": 1})
}

// TestQuota_R21_CallersTransactionIsAskedItself: a second connection of a pool of one would never come.
func TestQuota_R21_CallersTransactionIsAskedItself(t *testing.T) {
	t.Parallel()
	f := setup(t, &Policy{Quota: 3}, func(cfg *pgxpool.Config) { cfg.MaxConns = 1 })
	f.exec(`create index call_scope_idx on txonce.call (scope, expires_at)`)
	for range 2 {
		if _, err := f.callTx(t.Context(), pgx.ReadCommitted, request("a"), writes("a")); err != nil {
			t.Fatal(err)
		}
	}
}

// TestQuota_R21_WithoutTheIndexNothingIsCounted: counting would read the table with each call.
func TestQuota_R21_WithoutTheIndexNothingIsCounted(t *testing.T) {
	t.Parallel()
	f := setup(t, &Policy{Quota: 3}, nil)
	_, err := Run(t.Context(), f.store, request("a"), writes("a"))
	const remedy = "create index concurrently call_scope_idx on txonce.call (scope, expires_at)"
	if !errors.Is(err, ErrPolicy) || !strings.Contains(err.Error(), remedy) {
		t.Fatalf("%v, want ErrPolicy with the remedy", err)
	}
	rows, err := f.pool.Query(t.Context(), `explain analyze `+strings.NewReplacer("$1", "'alice'", "$2", "3").Replace(f.store.sql.live))
	if err != nil {
		t.Fatal(err)
	}
	plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || !regexp.MustCompile(`on call .*\(never executed\)`).MatchString(strings.Join(plan, "\n")) {
		t.Errorf("%v; without the index the count is not left out:\n%s", err, strings.Join(plan, "\n"))
	}
	f.exec(remedy)
	if _, err := Run(t.Context(), f.store, request("a"), writes("a")); err != nil {
		t.Fatalf("with the remedy: %v", err)
	}
}

func TestForgetScope_R21_RemovesWhatTheScopeHasAndNothingElse(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	f.exec(`insert into txonce.call (id, scope, tool, key, fingerprint, canon, state, attempt, answer, started_at, finished_at, expires_at)
	        select gen_random_uuid(), case when i % 7 = 0 then 'alice' else 'bob' end, 't', 'x:' || i, '', 1, 'succeeded', gen_random_uuid(),
	               convert_to(repeat('x', 1500), 'UTF8'), now(), now(), now() + interval '1 h'
	          from generate_series(1, 21000) i`)
	if _, err := Run(t.Context(), f.store, request("refused"), func(context.Context, pgx.Tx) (string, error) { return "", Fail("no", "no") }); err == nil {
		t.Fatal("no failure")
	}
	var blocks int64
	if err := f.pool.QueryRow(t.Context(), f.store.sql.blocks).Scan(&blocks); err != nil || blocks <= 2*forgetBlocks {
		t.Fatalf("the table has %d blocks, %v; the test wants several rounds", blocks, err)
	}
	removed, err := f.store.ForgetScope(t.Context(), "alice")
	if err != nil || removed != 3001 {
		t.Errorf("removed %d, %v; want 3001", removed, err)
	}
	if n := f.records(); n != 18000 {
		t.Errorf("%d records are left, want bob's 18000", n)
	}
	if removed, err := f.store.ForgetScope(t.Context(), "alice"); err != nil || removed != 0 {
		t.Errorf("again: %d, %v", removed, err)
	}
	if _, err := f.store.ForgetScope(t.Context(), ""); !errors.Is(err, ErrScope) {
		t.Errorf("no scope: %v, want ErrScope", err)
	}
}

// TestQuota_R21_SmallerQuotaHidesNothingFromALargerOne: two tools of one scope may have two quotas.
func TestQuota_R21_SmallerQuotaHidesNothingFromALargerOne(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	f.exec(`create index call_scope_idx on txonce.call (scope, expires_at)`)
	for i := range 5 {
		key := strconv.Itoa(i)
		if _, err := Run(t.Context(), f.store, request(key), writes(key)); err != nil {
			t.Fatal(err)
		}
	}
	for _, quota := range []int{2, 5} {
		req := request("one more")
		req.Policy = &Policy{Quota: quota}
		if _, err := Run(t.Context(), f.store, req, writes("more")); !errors.Is(err, ErrQuota) {
			t.Errorf("quota %d: %v, want ErrQuota", quota, err)
		}
	}
}

func TestQuota_R21_CallersTransactionThatCannotBeAsked(t *testing.T) {
	t.Parallel()
	f := setup(t, &Policy{Quota: 3}, nil)
	f.exec(`create index call_scope_idx on txonce.call (scope, expires_at)`)
	tx, err := f.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	_, _ = tx.Exec(t.Context(), "select 1/0")
	if _, err := RunTx(t.Context(), tx, f.store, request("a"), writes("a")); !errors.Is(err, ErrTxNotOpen) || Retryable(err) {
		t.Errorf("aborted: %v, retryable %v", err, Retryable(err))
	}
	_ = tx.Rollback(t.Context())
	if _, err := RunTx(t.Context(), tx, f.store, request("a"), writes("a")); !errors.Is(err, ErrTxNotOpen) || Retryable(err) {
		t.Errorf("ended: %v, retryable %v", err, Retryable(err))
	}
}

func TestQuota_R21_CallersTransactionStaysUsable(t *testing.T) {
	t.Parallel()
	f := setup(t, &Policy{Quota: 3}, nil)
	f.exec(`create index call_scope_idx on txonce.call (scope, expires_at)`)
	f.exec(`revoke select on txonce.call from current_user`)
	err := pgx.BeginFunc(t.Context(), f.pool, func(tx pgx.Tx) error {
		if _, err := RunTx(t.Context(), tx, f.store, request("a"), writes("a")); !errors.Is(err, ErrPermission) {
			t.Errorf("got %v, want ErrPermission", err)
		}
		_, err := tx.Exec(t.Context(), `select 1`)
		return err
	})
	if err != nil {
		t.Errorf("the transaction behind it: %v", err)
	}
}

// TestQuota_R21_R13_RefusedCallIsToldSoInAFullScope: it makes no record, and waiting does not help it.
func TestQuota_R21_R13_RefusedCallIsToldSoInAFullScope(t *testing.T) {
	t.Parallel()
	f := setup(t, &Policy{Quota: 1, OnExpired: Refuse}, nil)
	f.exec(`create index call_scope_idx on txonce.call (scope, expires_at)`)
	if _, err := Run(t.Context(), f.store, request("a"), writes("a")); err != nil {
		t.Fatal(err)
	}
	f.exec(`update txonce.call set expires_at = clock_timestamp()`)
	f.store.quotas.stale()
	if _, err := Run(t.Context(), f.store, request("b"), writes("b")); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), f.store, request("a"), writes("a")); !errors.Is(err, ErrExpired) {
		t.Errorf("%v, want ErrExpired", err)
	}
}
