package txidem

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txonce/txonce/toolcall"
)

// scriptTx is a transaction as a user's unit test would write one.
type scriptTx struct {
	pgx.Tx
	did *[]string
}

func (tx scriptTx) Exec(_ context.Context, sql string, _ ...any) (pgconn.CommandTag, error) {
	*tx.did = append(*tx.did, sql)
	return pgconn.NewCommandTag("INSERT 0 1"), nil
}

func (tx scriptTx) Commit(context.Context) error { *tx.did = append(*tx.did, "commit"); return nil }

func (tx scriptTx) Rollback(context.Context) error { *tx.did = append(*tx.did, "rollback"); return nil }

func memory(t *testing.T, cfg *Config, m *MemoryConfig) *Store {
	t.Helper()
	s, err := NewMemory(cfg, m)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestMemory_R22_HandlerRunsOnceInTheTestsTransaction(t *testing.T) {
	t.Parallel()
	var did []string
	s := memory(t, nil, &MemoryConfig{Begin: func(context.Context) (pgx.Tx, error) { return scriptTx{did: &did}, nil }})
	broken := errors.New("broken")
	for _, c := range []struct {
		key  string
		err  error
		want []string // of the first call; the second one replays, or runs again
		runs int
	}{
		{"a", nil, []string{"insert", "commit"}, 1},
		{"b", Fail("no", "no"), []string{"insert", "rollback"}, 1},
		{"c", broken, []string{"insert", "rollback", "insert", "rollback"}, 2},
	} {
		did = nil
		runs := 0
		for i := range 2 {
			r, err := Run(t.Context(), s, request(c.key), func(ctx context.Context, tx pgx.Tx) (string, error) {
				runs++
				if err := tx.Commit(ctx); !errors.Is(err, ErrTxManaged) {
					t.Errorf("Commit gives %v", err)
				}
				call, ok := toolcall.FromContext(ctx)
				if !ok || call.Tool != "issue_refund" {
					t.Errorf("the call is %+v", call)
				}
				_, err := tx.Exec(ctx, "insert")
				return "done", errors.Join(err, c.err)
			})
			if c.err == nil && (err != nil || r.Value != "done") || c.err != nil && err == nil || r.Replayed != (i > 0 && c.runs == 1) {
				t.Errorf("%s, call %d: %+v, %v", c.key, i, r, err)
			}
		}
		if runs != c.runs || !slices.Equal(did, c.want) {
			t.Errorf("%s: %d runs did %q, want %d and %q", c.key, runs, did, c.runs, c.want)
		}
	}
}

func TestMemory_R22_WithoutATransactionTheHandlerIsToldSo(t *testing.T) {
	t.Parallel()
	s := memory(t, nil, nil)
	for label, use := range map[string]func(context.Context, pgx.Tx) error{
		"exec":     func(ctx context.Context, tx pgx.Tx) error { return write(ctx, tx, "a") },
		"query":    func(ctx context.Context, tx pgx.Tx) error { _, err := tx.Query(ctx, "select 1"); return err },
		"queryrow": func(ctx context.Context, tx pgx.Tx) error { return tx.QueryRow(ctx, "select 1").Scan(nil) },
		"batch":    func(ctx context.Context, tx pgx.Tx) error { return tx.SendBatch(ctx, &pgx.Batch{}).Close() },
		"begin":    func(ctx context.Context, tx pgx.Tx) error { _, err := tx.Begin(ctx); return err },
		"copy": func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.CopyFrom(ctx, pgx.Identifier{"a"}, nil, pgx.CopyFromRows(nil))
			return err
		},
		"prepare": func(ctx context.Context, tx pgx.Tx) error { _, err := tx.Prepare(ctx, "a", "select 1"); return err },
	} {
		_, err := Run(t.Context(), s, request(label), func(ctx context.Context, tx pgx.Tx) (string, error) { return "", use(ctx, tx) })
		if !errors.Is(err, errNoTx) {
			t.Errorf("%s: %v, want an error that says what to give", label, err)
		}
	}
}

// TestMemory_R22_IsLikeAStoreOnPostgres goes through what a call may meet.
func TestMemory_R22_IsLikeAStoreOnPostgres(t *testing.T) {
	t.Parallel()
	now := time.Now()
	var events []Decision
	refused := errors.New("no longer")
	var deny error
	s := memory(t, &Config{
		Observer:  observerFunc(func(e Event) { events = append(events, e.Decision) }),
		Authorize: func(context.Context, Recorded) error { return deny },
		Codec:     &mirror{version: 1, reads: []byte{1}},
	}, &MemoryConfig{Now: func() time.Time { return now }})
	call := func(req Request) (Result[string], error) {
		return Run(t.Context(), s, req, func(context.Context, pgx.Tx) (string, error) { return "done", nil })
	}
	first, err := call(request("k"))
	if err != nil || string(first.Raw) != `"done"` || first.FinishedAt != now.UTC().Round(0) {
		t.Fatal(first, err)
	}
	other := request("k")
	other.Args = []byte(`{"order":"A-1","cents":1}`)
	var reused *KeyReusedError
	if _, err := call(other); !errors.As(err, &reused) || !slices.Equal(reused.Paths, []string{"/cents"}) {
		t.Errorf("other arguments: %v", err)
	}
	deny = refused
	if _, err := call(request("k")); !errors.Is(err, ErrNotAllowed) {
		t.Errorf("a caller who lost the right: %v", err)
	}
	deny = nil
	if status, err := s.Status(t.Context(), request("k")); err != nil || status.State != toolcall.StateSucceeded || string(status.Answer) != `"done"` {
		t.Errorf("the status is %+v, %v", status, err)
	}
	now = now.Add(24 * time.Hour)
	refuse := request("k")
	refuse.Policy = &Policy{OnExpired: Refuse}
	if _, err := call(refuse); !errors.Is(err, ErrExpired) {
		t.Errorf("expired, and refused: %v", err)
	}
	if status, err := s.Resolve(t.Context(), request("k")); err != nil || status.State != toolcall.StateExpired {
		t.Errorf("the status is %+v, %v", status, err)
	}
	if r, err := call(refuse); !errors.Is(err, ErrExpired) {
		t.Error(r, err)
	}
	if r, err := call(request("k")); err != nil || r.Replayed {
		t.Errorf("expired: %+v, %v", r, err)
	}
	if ok, err := s.Forget(t.Context(), "bob", first.ID); ok || err != nil {
		t.Errorf("another scope forgets it: %v, %v", ok, err)
	}
	if ok, err := s.Forget(t.Context(), "alice", first.ID); !ok || err != nil {
		t.Errorf("Forget: %v, %v", ok, err)
	}
	if status, err := s.Status(t.Context(), request("k")); err != nil || status.State != toolcall.StateNone {
		t.Errorf("the status is %+v, %v", status, err)
	}
	if _, err := call(refuse); err != nil {
		t.Error(err)
	}
	if _, err := call(request("l")); err != nil {
		t.Error(err)
	}
	now = now.Add(24 * time.Hour)
	if done, err := s.Sweep(t.Context()); err != nil || done.Deleted != 1 {
		t.Errorf("Sweep: %+v, %v; want one, for the other must never run again", done, err)
	}
	if n, err := s.ForgetScope(t.Context(), "alice"); err != nil || n != 1 {
		t.Errorf("ForgetScope: %d, %v", n, err)
	}
	if _, err := call(Request{Tool: "t"}); !errors.Is(err, ErrScope) {
		t.Errorf("no scope: %v", err)
	}
	want := []Decision{DecidedRan, DecidedKeyReused, DecidedNotAllowed, DecidedExpired, DecidedExpired, DecidedRan, DecidedRan, DecidedRan, DecidedRefused}
	if !slices.Equal(events, want) {
		t.Errorf("decisions %q, want %q", events, want)
	}
}

type observerFunc func(Event)

func (f observerFunc) Observe(_ context.Context, e Event) { f(e) }

func TestMemory_R22_DuplicatesWaitOrAreToldSo(t *testing.T) {
	t.Parallel()
	s := memory(t, &Config{Policy: &Policy{Wait: 20 * time.Second}}, nil)
	there, goOn := make(chan struct{}), make(chan struct{})
	var runs atomic.Int32
	work := func(context.Context, pgx.Tx) (string, error) {
		if runs.Add(1) == 1 {
			close(there)
			<-goOn
		}
		return "done", nil
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if r, err := Run(t.Context(), s, request("k"), work); err != nil || r.Value != "done" {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
	<-there
	now := request("k")
	now.Policy = &Policy{Wait: NoWait}
	if _, err := Run(t.Context(), s, now, work); !errors.Is(err, ErrInProgress) {
		t.Errorf("without waiting: %v", err)
	}
	if status, err := s.Status(t.Context(), now); err != nil || status.State != toolcall.StateRunning {
		t.Errorf("the status is %+v, %v", status, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, s, request("k"), work); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	close(goOn)
	wg.Wait()
	if runs.Load() != 1 {
		t.Errorf("%d runs, want 1", runs.Load())
	}
}

func TestMemory_R22_OtherWaysToRun(t *testing.T) {
	t.Parallel()
	s := memory(t, nil, nil)
	var did []string
	for label, call := range map[string]func() (Result[string], error){
		"tx": func() (Result[string], error) {
			return RunTx(t.Context(), scriptTx{did: &did}, s, request("tx"), func(ctx context.Context, tx pgx.Tx) (string, error) {
				_, err := tx.Exec(ctx, "insert")
				return "done", err
			})
		},
		"batch": func() (Result[string], error) { return RunBatch(t.Context(), s, request("batch"), queues("a")) },
		"leased": func() (Result[string], error) {
			return RunLeased(t.Context(), s, request("leased"), func(context.Context) (string, error) { return "done", nil }, nil)
		},
	} {
		first, err := call()
		again, againErr := call()
		if err != nil || againErr != nil || first.Replayed || !again.Replayed || first.Value != again.Value {
			t.Errorf("%s: %+v, %v; again %+v, %v", label, first, err, again, againErr)
		}
	}
	if !slices.Equal(did, []string{"insert"}) {
		t.Errorf("the caller's transaction got %q, want no end", did)
	}
	if _, err := RunBatch(t.Context(), s, request("bad"), func(_ context.Context, b *Batch) (string, error) {
		b.Queue("commit")
		return "", nil
	}); !errors.Is(err, ErrBatchSQL) {
		t.Errorf("a batch that commits: %v", err)
	}
}

func TestMemory_R10_R22_PanicAndGoexitFreeTheKey(t *testing.T) {
	t.Parallel()
	var did []string
	s := memory(t, nil, &MemoryConfig{Begin: func(context.Context) (pgx.Tx, error) { return scriptTx{did: &did}, nil }})
	if _, err := Run(t.Context(), s, request("k"), func(context.Context, pgx.Tx) (string, error) { panic("no") }); !errors.Is(err, ErrHandlerPanicked) {
		t.Errorf("a panic: %v", err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		_, _ = Run(t.Context(), s, request("k"), func(context.Context, pgx.Tx) (string, error) {
			(&testing.T{}).SkipNow() // ends the goroutine
			return "", nil
		})
	})
	wg.Wait()
	if r, err := Run(t.Context(), s, request("k"), func(context.Context, pgx.Tx) (string, error) { return "done", nil }); err != nil || r.Replayed {
		t.Errorf("the next call: %+v, %v", r, err)
	}
	if !slices.Equal(did, []string{"rollback", "rollback", "commit"}) {
		t.Errorf("the transactions got %q", did)
	}
}

func TestMemory_R22_R05_CallersMayWriteToWhatTheyGot(t *testing.T) {
	t.Parallel()
	s := memory(t, nil, nil)
	call := func() Result[string] {
		r, err := Run(t.Context(), s, request("a"), func(context.Context, pgx.Tx) (string, error) { return "first", nil })
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	copy(call().Raw, `"other`)
	if again := call(); again.Value != "first" {
		t.Errorf("the replay says %q", again.Value)
	}
	status, err := s.Status(t.Context(), request("a"))
	if err != nil {
		t.Fatal(err)
	}
	copy(status.Answer, `"third`)
	if again := call(); again.Value != "first" {
		t.Errorf("the replay behind Status says %q", again.Value)
	}
}

func TestMemory_R22_R21_Quota(t *testing.T) {
	t.Parallel()
	now := time.Now()
	s := memory(t, &Config{Policy: &Policy{Quota: 1}}, &MemoryConfig{Now: func() time.Time { return now }})
	call := func(key string) error {
		_, err := Run(t.Context(), s, request(key), func(context.Context, pgx.Tx) (string, error) { return "x", nil })
		return err
	}
	if first, again, other := call("a"), call("a"), call("b"); first != nil || again != nil || !errors.Is(other, ErrQuota) {
		t.Errorf("first %v, again %v, other %v; want nil, nil and ErrQuota", first, again, other)
	}
	now = now.Add(25 * time.Hour)
	if err := call("b"); err != nil {
		t.Errorf("once the record has expired: %v", err)
	}
}
