package txidem

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/toolcall"
)

var isolationLevels = []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable}

func TestRun_R02_FirstCallCommitsEffectAndRecordTogether(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	got, err := Run(t.Context(), f.store, request("k1"), writes("a"))
	if err != nil {
		t.Fatal(err)
	}
	if got.Value != "done a" || string(got.Raw) != `"done a"` || got.Replayed || got.FinishedAt.IsZero() || got.ID.IsZero() {
		t.Errorf("unexpected result: %+v", got)
	}
	if e, r := f.effects("a"), f.records(); e != 1 || r != 1 {
		t.Errorf("effects = %d, records = %d; want 1 and 1", e, r)
	}
	again, err := Run(t.Context(), f.store, request("k1"), writes("a"))
	if err != nil {
		t.Fatal(err)
	}
	got.Replayed = true
	if diff := cmp.Diff(got, again); diff != "" {
		t.Errorf("the replay is another answer (-first +replay):\n%s", diff)
	}
	if e := f.effects("a"); e != 1 {
		t.Errorf("effects after the replay = %d, want 1", e)
	}
	f.idle()
}

func TestRun_K01_OtherScopeOrToolIsAnotherCall(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	for _, c := range []struct{ scope, tool, key string }{
		{"alice", "refund", "k"},
		{"bob", "refund", "k"},
		{"alice", "ticket", "k"},
		{"alicerefund", "k", "k"},
		{"alice", "refundk", "k"},
		{"ali", "cerefund", "k"},
	} {
		intent := c.scope + "/" + c.tool
		got, err := Run(t.Context(), f.store, Request{Scope: c.scope, Tool: c.tool, Key: c.key}, writes(intent))
		if err != nil || got.Replayed || got.Value != "done "+intent {
			t.Errorf("%v: got %+v, %v; want a first run", c, got, err)
		}
	}
}

func TestRun_K02_ExplicitAndDerivedKeysAreTwoIdentities(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	derived := Request{Scope: "alice", Tool: "refund", Args: []byte(`{"a":1}`)}
	first, err := Run(t.Context(), f.store, derived, writes("x"))
	if err != nil {
		t.Fatal(err)
	}
	var key string
	if err := f.pool.QueryRow(t.Context(), `select key from txonce.call`).Scan(&key); err != nil {
		t.Fatal(err)
	}
	explicit := derived
	explicit.Key = strings.TrimPrefix(key, "h:") // as crafted as can be
	second, err := Run(t.Context(), f.store, explicit, writes("x"))
	if err != nil || second.Replayed || second.ID == first.ID {
		t.Errorf("an explicit key met a derived one: %+v, %v", second, err)
	}
}

func TestRun_K02_BadKeysAreRefusedBeforeAnythingIsSent(t *testing.T) {
	t.Parallel()
	store := unreachable(t)
	for name, req := range map[string]struct {
		Request
		want error
	}{
		"no scope":           {Request{Tool: "t", Key: "k"}, ErrScope},
		"scope with NUL":     {Request{Scope: "a\x00", Tool: "t", Key: "k"}, ErrScope},
		"long scope":         {Request{Scope: strings.Repeat("s", 256), Tool: "t"}, ErrScope},
		"no tool":            {Request{Scope: "a", Key: "k"}, ErrTool},
		"long key":           {Request{Scope: "a", Tool: "t", Key: strings.Repeat("k", 256)}, ErrKey},
		"key with newline":   {Request{Scope: "a", Tool: "t", Key: "a\nb"}, ErrKey},
		"key not UTF-8":      {Request{Scope: "a", Tool: "t", Key: "a\xff"}, ErrKey},
		"arguments cut off":  {Request{Scope: "a", Tool: "t", Key: "k", Args: []byte(`{"a":`)}, ErrArgs},
		"duplicate argument": {Request{Scope: "a", Tool: "t", Args: []byte(`{"a":1,"a":2}`)}, ErrArgs},
	} {
		_, err := Run(t.Context(), store, req.Request, writes("never"))
		if !errors.Is(err, req.want) {
			t.Errorf("%s: got %v, want %v", name, err, req.want)
		}
		if Retryable(err) {
			t.Errorf("%s: %v is said to be retryable", name, err)
		}
	}
	longest := Request{Scope: "a", Tool: "t", Key: strings.Repeat("k", 255)}
	if _, err := Run(t.Context(), store, longest, writes("never")); !errors.Is(err, ErrUnavailable) {
		t.Errorf("a key of 255 bytes: got %v, want to get as far as the database", err)
	}
}

func TestRun_K03_DerivedKeysAreKeptForTheWindowAndExplicitOnesForTheRetention(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	for _, c := range []struct {
		key    string
		policy *Policy
		want   time.Duration
	}{
		{"", nil, 10 * time.Minute},
		{"k", nil, 24 * time.Hour},
		{"", &Policy{Window: time.Minute}, time.Minute},
		{"k", &Policy{Retention: time.Hour}, time.Hour},
	} {
		f.exec(`delete from txonce.call`)
		if _, err := Run(t.Context(), f.store, Request{Scope: "a", Tool: "t", Key: c.key, Policy: c.policy}, writes("x")); err != nil {
			t.Fatal(err)
		}
		var kept float64 // counted from the end of the call, not from the start of its transaction
		if err := f.pool.QueryRow(t.Context(), `select extract(epoch from expires_at - finished_at)::float8 from txonce.call`).Scan(&kept); err != nil {
			t.Fatal(err)
		}
		if got := time.Duration(kept * float64(time.Second)).Round(time.Second); got != c.want {
			t.Errorf("key %q, policy %+v: kept for %v, want %v", c.key, c.policy, got, c.want)
		}
	}
}

func TestRun_K03_DerivedKeyIgnoresSpelling(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	req := func(args string) Request { return Request{Scope: "a", Tool: "t", Args: json.RawMessage(args)} }
	first, err := Run(t.Context(), f.store, req(`{"order":"A-1","cents":1050}`), writes("x"))
	if err != nil {
		t.Fatal(err)
	}
	again, err := Run(t.Context(), f.store, req(` { "cents" : 1.05e3 , "order" : "\u0041-1" } `), writes("x"))
	if err != nil || !again.Replayed || again.ID != first.ID {
		t.Errorf("another spelling of the same arguments: %+v, %v; want a replay", again, err)
	}
	other, err := Run(t.Context(), f.store, req(`{"order":"A-1","cents":1051}`), writes("x"))
	if err != nil || other.Replayed {
		t.Errorf("other arguments: %+v, %v; want a first run", other, err)
	}
}

func TestRun_K07_SameKeyOtherArguments(t *testing.T) {
	t.Parallel()
	f := setup(t, &Policy{Wait: NoWait}, nil)
	other := func(key string) Request {
		req := request(key)
		req.Args = []byte(`{"order":"A-1","cents":99}`)
		return req
	}
	mismatch := func(state, key string) {
		t.Helper()
		got, err := Run(t.Context(), f.store, other(key), writes("other"))
		if !errors.Is(err, ErrKeyReused) || Retryable(err) {
			t.Errorf("%s: got %v, want ErrKeyReused", state, err)
		}
		if got.Raw != nil || got.Value != "" {
			t.Errorf("%s: the mismatch shows an answer: %+v", state, got)
		}
	}

	running := f.hold(request("running"), "first")
	if _, err := Run(t.Context(), f.store, other("running"), writes("other")); !errors.Is(err, ErrInProgress) {
		t.Errorf("while the winner runs: got %v, want ErrInProgress", err)
	}
	if err := running.end(nil); err != nil {
		t.Fatal(err)
	}
	mismatch("done", "running")

	if _, err := Run(t.Context(), f.store, request("failed"), func(context.Context, pgx.Tx) (string, error) {
		return "", Fail("bad", "no")
	}); err == nil {
		t.Fatal("Fail gave no error")
	}
	mismatch("failed", "failed")
	if n := f.effects("other"); n != 0 {
		t.Errorf("a call with other arguments ran %d times", n)
	}
}

func TestRun_K07_WaitingDuplicateWithOtherArgumentsHearsMismatch(t *testing.T) {
	t.Parallel()
	f := setup(t, &Policy{Wait: 20 * time.Second}, nil)
	winner := f.hold(request("k"), "first")
	ended := make(chan error)
	go func() {
		req := request("k")
		req.Args = []byte(`{"order":"B-2"}`)
		_, err := Run(t.Context(), f.store, req, writes("other"))
		ended <- err
	}()
	eventually(t, "the duplicate waits", func() bool { return f.store.waits.len() == 1 })
	if err := winner.end(nil); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, ErrKeyReused) {
		t.Errorf("got %v, want ErrKeyReused", err)
	}
}

func TestRun_R01_ConcurrentDuplicatesHaveOneEffect(t *testing.T) {
	t.Parallel()
	for _, level := range isolationLevels {
		t.Run(name(level), func(t *testing.T) {
			t.Parallel()
			const n = 64
			f := setup(t, &Policy{Isolation: level, Wait: 20 * time.Second}, func(cfg *pgxpool.Config) { cfg.MaxConns = 16 })
			var fresh, runs atomic.Int64
			var wg sync.WaitGroup
			for range n {
				wg.Go(func() {
					got, err := Run(t.Context(), f.store, request("k"), func(ctx context.Context, tx pgx.Tx) (string, error) {
						runs.Add(1)
						return "done", write(ctx, tx, "k")
					})
					if err != nil || got.Value != "done" {
						t.Errorf("a duplicate got %+v, %v", got, err)
					}
					if !got.Replayed {
						fresh.Add(1)
					}
				})
			}
			wg.Wait()
			if e := f.effects("k"); e != 1 || fresh.Load() != 1 {
				t.Errorf("effects = %d, first answers = %d; want 1 and 1", e, fresh.Load())
			}
			if readsFreshSnapshots(level) && runs.Load() != 1 {
				t.Errorf("the handler ran %d times; the lock should have kept it to 1", runs.Load())
			}
			f.idle()
			if n := f.store.waits.len(); n != 0 {
				t.Errorf("%d waits are left behind", n)
			}
		})
	}
}

// TestRun_R01_LockKeepsTheHandlerFromRunningTwice is about the order of lock and read: the primary key would keep the
// effect single all the same, but a handler that ran for nothing may have sent something.
func TestRun_R01_LockKeepsTheHandlerFromRunningTwice(t *testing.T) {
	t.Parallel()
	const keys, duplicates = 150, 12
	f := setup(t, &Policy{Wait: 20 * time.Second}, func(cfg *pgxpool.Config) { cfg.MaxConns = duplicates })
	var runs atomic.Int64
	for i := range keys {
		var wg sync.WaitGroup
		for range duplicates {
			wg.Go(func() {
				if _, err := Run(t.Context(), f.store, request(name(i)), func(ctx context.Context, tx pgx.Tx) (string, error) {
					runs.Add(1)
					return "", nil
				}); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
	if n := runs.Load(); n != keys {
		t.Errorf("%d runs for %d keys", n, keys)
	}
}

func TestRun_R03_InProgressIsAnsweredAtOnceAndSaysWhatToDo(t *testing.T) {
	t.Parallel()
	f := setup(t, &Policy{Wait: NoWait}, nil)
	winner := f.hold(request("k"), "k")
	_, err := Run(t.Context(), f.store, request("k"), writes("k"))
	var running *InProgressError
	if !errors.As(err, &running) || !Retryable(err) {
		t.Fatalf("got %v, want an InProgressError that is retryable", err)
	}
	if want := toolcall.NewID("alice", "issue_refund", "x:k"); running.ID != want || running.Tool != "issue_refund" || running.RetryAfter < time.Second {
		t.Errorf("got %+v, want id %s, the tool and at least a second", running, want)
	}
	if err := winner.end(nil); err != nil {
		t.Fatal(err)
	}
	if got, err := Run(t.Context(), f.store, request("k"), writes("k")); err != nil || !got.Replayed {
		t.Errorf("afterwards: got %+v, %v; want a replay", got, err)
	}
}

func TestRun_R04_DuplicatesWaitWithoutAConnection(t *testing.T) {
	t.Parallel()
	f := setup(t, &Policy{Wait: 20 * time.Second}, func(cfg *pgxpool.Config) { cfg.MaxConns = 4 })
	winner := f.hold(request("k"), "k")
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if got, err := Run(t.Context(), f.store, request("k"), writes("k")); err != nil || !got.Replayed {
				t.Errorf("a duplicate got %+v, %v; want a replay", got, err)
			}
		})
	}
	eventually(t, "all 50 wait", func() bool { return f.store.waits.waiting(request("k")) == 50 })
	for range 3 { // the winner's handler needs further connections: they must be there
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		conn, err := f.pool.Acquire(ctx)
		cancel()
		if err != nil {
			t.Fatalf("the duplicates hold the pool's connections: %v", err)
		}
		defer conn.Release()
	}
	if err := winner.end(nil); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	if n := f.store.waits.len(); n != 0 {
		t.Errorf("%d waits are left behind", n)
	}
}

func TestRun_R04_DuplicateRunsWhenTheWinnerRollsBack(t *testing.T) {
	t.Parallel()
	f := setup(t, &Policy{Wait: 20 * time.Second}, nil)
	winner := f.hold(request("k"), "winner")
	type answer struct {
		Result[string]
		err error
	}
	answers := make(chan answer)
	const n = 8
	for range n {
		go func() {
			got, err := Run(t.Context(), f.store, request("k"), writes("duplicate"))
			answers <- answer{got, err}
		}()
	}
	eventually(t, "all wait", func() bool { return f.store.waits.waiting(request("k")) == n })
	gone := errors.New("the card reader is gone")
	if err := winner.end(gone); !errors.Is(err, gone) {
		t.Fatalf("the winner got %v, want its own error", err)
	}
	fresh := 0
	for range n {
		a := <-answers
		if a.err != nil || a.Value != "done duplicate" {
			t.Errorf("a duplicate got %+v, %v", a.Result, a.err)
		}
		if !a.Replayed {
			fresh++
		}
	}
	if w, d := f.effects("winner"), f.effects("duplicate"); fresh != 1 || w != 0 || d != 1 {
		t.Errorf("first answers = %d, effects: winner %d, duplicate %d; want 1, 0, 1", fresh, w, d)
	}
}

func TestRun_R04_WaitEndsWithInProgressOrTheContext(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	winner := f.hold(request("k"), "k")
	req := request("k")
	req.Policy = &Policy{Wait: 30 * time.Millisecond}
	var wg sync.WaitGroup
	for range 3 { // the one who asks, and those who wait for it
		wg.Go(func() {
			if _, err := Run(t.Context(), f.store, req, writes("k")); !errors.Is(err, ErrInProgress) {
				t.Errorf("got %v, want ErrInProgress", err)
			}
		})
	}
	wg.Wait()

	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	req.Policy = &Policy{Wait: time.Minute}
	go func() {
		_, err := Run(ctx, f.store, req, writes("k"))
		ended <- err
	}()
	eventually(t, "it waits", func() bool { return f.store.waits.len() == 1 })
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	if err := winner.end(nil); err != nil {
		t.Fatal(err)
	}
	if n := f.store.waits.len(); n != 0 {
		t.Errorf("%d waits are left behind", n)
	}
}

func TestRun_R04_WhoeverAsksHandsThatOnWhenItLeaves(t *testing.T) {
	t.Parallel()
	f := setup(t, &Policy{Wait: 15 * time.Second}, nil)
	elsewhere, err := New(f.pool, nil) // another process: nobody in this one is told when its call ends
	if err != nil {
		t.Fatal(err)
	}
	winner := (&fixture{t: t, pool: f.pool, store: elsewhere}).hold(request("k"), "k")
	ctx, leave := context.WithCancel(t.Context())
	first, second := make(chan error, 1), make(chan error, 1)
	call := func(ctx context.Context, ended chan error) {
		_, err := Run(ctx, f.store, request("k"), writes("k"))
		ended <- err
	}
	go call(ctx, first)
	eventually(t, "the first one waits and asks", func() bool { return f.store.waits.waiting(request("k")) == 1 })
	go call(t.Context(), second)
	eventually(t, "the second one waits for it", func() bool { return f.store.waits.waiting(request("k")) == 2 })
	leave()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("the first one got %v", err)
	}
	if err := winner.end(nil); err != nil {
		t.Fatal(err)
	}
	if err := <-second; err != nil {
		t.Errorf("the second one got %v, want the answer", err)
	}
}

func TestRun_R05_ReplaysAreTheFirstAnswerByteForByte(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	answers := map[string]any{
		"null":              nil,
		"zero":              0,
		"empty":             "",
		"list":              []int{},
		"nil list":          []int(nil),
		"NUL":               "a\u0000b",
		"html":              "<a href='x'>&</a>\u2028",
		"spaced":            json.RawMessage(" { \"b\" : 1e2 ,\n\t\"a\" : 1.0, \"a\":2 } "),
		"lone surrogate":    json.RawMessage(`"\ud800"`),
		"big number":        json.RawMessage(`123456789012345678901234567890.10`),
		"empty RawMessage":  json.RawMessage(nil),
		"struct":            struct{ B, A int }{1, 2},
		"large":             strings.Repeat("x", 70_000),
		"bytes":             []byte{0, 255},
		"pointer to struct": &struct{ A *int }{},
	}
	for label, answer := range answers {
		req := Request{Scope: "a", Tool: "t", Key: label}
		first, err := Run(t.Context(), f.store, req, func(context.Context, pgx.Tx) (any, error) { return answer, nil })
		if err != nil {
			t.Errorf("%s: %v", label, err)
			continue
		}
		again, err := Run(t.Context(), f.store, req, func(context.Context, pgx.Tx) (json.RawMessage, error) {
			t.Errorf("%s: ran again", label)
			return nil, nil
		})
		if err != nil || !again.Replayed || string(again.Raw) != string(first.Raw) || string(again.Value) != string(first.Raw) {
			t.Errorf("%s: first %q, replay %q (%v)", label, first.Raw, again.Raw, err)
		}
		if raw, ok := answer.(json.RawMessage); ok && raw != nil && string(first.Raw) != string(raw) {
			t.Errorf("%s: %q became %q", label, raw, first.Raw)
		}
	}
}

func TestRun_R06_FailIsRecordedAndReplayed(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	runs := 0
	call := func() (Result[string], error) {
		return Run(t.Context(), f.store, request("k"), func(ctx context.Context, tx pgx.Tx) (string, error) {
			runs++
			if err := write(ctx, tx, "k"); err != nil {
				return "", err
			}
			return "", Fail("bad_amount", "amount must be positive")
		})
	}
	first, err := call()
	var failure *toolcall.Failure
	if !errors.As(err, &failure) || failure.Code != "bad_amount" || first.Replayed || first.FinishedAt.IsZero() || Retryable(err) {
		t.Fatalf("first: %+v, %v", first, err)
	}
	again, err := call()
	if !errors.As(err, &failure) || failure.Message != "amount must be positive" || !again.Replayed || !again.FinishedAt.Equal(first.FinishedAt) {
		t.Errorf("replay: %+v, %v", again, err)
	}
	if e := f.effects("k"); e != 0 || runs != 1 {
		t.Errorf("effects = %d, runs = %d; want 0 and 1", e, runs)
	}
	f.idle()
}

func TestRun_R06_FailAfterAFailedStatementIsRecordedToo(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	_, err := Run(t.Context(), f.store, request("k"), func(ctx context.Context, tx pgx.Tx) (string, error) {
		if _, err := tx.Exec(ctx, `select 1/0`); err != nil {
			return "", Fail("bad_divisor", "the divisor is zero")
		}
		return "", nil
	})
	if failure, ok := failureIn(err); !ok || failure.Code != "bad_divisor" {
		t.Fatalf("got %v", err)
	}
	if again, err := Run(t.Context(), f.store, request("k"), writes("k")); !again.Replayed || err == nil {
		t.Errorf("replay: %+v, %v; want the failure", again, err)
	}
}

func TestRun_R06_RivalBetweenRollbackAndRecordWins(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	id, err := f.store.identify(request("k"))
	if err != nil {
		t.Fatal(err)
	}
	claimed := func() *claim {
		c, err := f.store.claim(t.Context(), id)
		if err != nil || !c.won {
			t.Fatalf("claim: %+v, %v", c, err)
		}
		if err := c.tx.Rollback(t.Context()); err != nil { // what fail does first; now anybody may come
			t.Fatal(err)
		}
		return c
	}

	c := claimed()
	rival := f.hold(request("k"), "rival")
	if rec, err := f.store.fail(t.Context(), id, c, []byte(`{"code":"late"}`)); !errors.Is(err, errLost) {
		t.Errorf("beside a running rival: %+v, %v; want errLost", rec, err)
	}
	c.giveBack(t.Context())
	if err := rival.end(nil); err != nil {
		t.Fatalf("the rival: %v", err)
	}

	f.exec(`delete from txonce.call`)
	c = claimed()
	if _, err := Run(t.Context(), f.store, request("k"), writes("finished")); err != nil {
		t.Fatal(err)
	}
	if rec, err := f.store.fail(t.Context(), id, c, []byte(`{"code":"late"}`)); !errors.Is(err, errLost) {
		t.Errorf("after a finished rival: %+v, %v; want errLost", rec, err)
	}
	c.giveBack(t.Context())
	if got, err := Run(t.Context(), f.store, request("k"), writes("never")); err != nil || got.Value != "done finished" {
		t.Errorf("got %+v, %v; want the rival's answer", got, err)
	}
}

func TestRun_R06_OtherErrorsRollBackAndRelease(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	down := errors.New("the printer is on fire")
	_, err := Run(t.Context(), f.store, request("k"), func(ctx context.Context, tx pgx.Tx) (string, error) {
		if err := write(ctx, tx, "k"); err != nil {
			return "", err
		}
		return "", down
	})
	if !errors.Is(err, down) || !Retryable(err) {
		t.Fatalf("got %v, want the handler's error, retryable", err)
	}
	if e, r := f.effects("k"), f.records(); e != 0 || r != 0 {
		t.Fatalf("effects = %d, records = %d; want none", e, r)
	}
	if got, err := Run(t.Context(), f.store, request("k"), writes("k")); err != nil || got.Replayed {
		t.Errorf("the next call: %+v, %v; want it to run", got, err)
	}
}

func TestRun_R12_ExpiredRecordNeverWins(t *testing.T) {
	t.Parallel()
	for _, level := range isolationLevels {
		t.Run(name(level), func(t *testing.T) {
			t.Parallel()
			f := setup(t, &Policy{Isolation: level}, nil)
			for i, handler := range []func(context.Context, pgx.Tx) (string, error){
				writes("first"), writes("second"),
				func(context.Context, pgx.Tx) (string, error) { return "", Fail("third", "third") },
				writes("fourth"),
			} {
				got, err := Run(t.Context(), f.store, request("k"), handler)
				if _, failed := failureIn(err); got.Replayed || failed != (i == 2) {
					t.Errorf("call %d: %+v, %v; want a first run", i, got, err)
				}
				if n := f.records(); n != 1 {
					t.Errorf("call %d: %d records, want 1", i, n)
				}
				f.exec(`update txonce.call set expires_at = clock_timestamp()`)
			}
		})
	}
}
