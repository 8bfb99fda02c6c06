package txidem

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
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

// long is a lease that no test waits for the end of.
const long = time.Hour

type doFunc = func(context.Context) (string, error)

type askFunc = func(context.Context) (string, bool, error)

// provider stands for the system that leased calls have their effects in. It remembers by which keys it was called.
type provider struct {
	mu   sync.Mutex
	keys []string
}

// pay has an effect and answers with "paid".
func (p *provider) pay(ctx context.Context) (string, error) {
	p.note(ctx)
	return "paid", nil
}

func (p *provider) note(ctx context.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keys = append(p.keys, downstream(ctx))
}

// paid returns the keys of the effects so far.
func (p *provider) paid() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.keys)
}

func downstream(ctx context.Context) string {
	call, ok := toolcall.FromContext(ctx)
	if !ok {
		return "no call in the context"
	}
	return call.DownstreamKey("pay")
}

// neverDo is a handler that must not run.
func neverDo(t testing.TB) doFunc {
	return func(context.Context) (string, error) {
		t.Error("the handler ran")
		return "never", nil
	}
}

// neverAsk is the same for what asks.
func neverAsk(t testing.TB) askFunc {
	return func(context.Context) (string, bool, error) {
		t.Error("it was asked")
		return "", false, nil
	}
}

// fails returns a handler that has an effect and returns err.
func (p *provider) fails(err error) doFunc {
	return func(ctx context.Context) (string, error) {
		p.note(ctx)
		return "", err
	}
}

// heldLease is a call whose handler waits.
type heldLease struct {
	t     testing.TB
	there chan context.Context // the handler's
	goOn  chan doFunc
	ended chan leasedEnd
}

type leasedEnd struct {
	Result[string]
	err error
}

// holdLeased starts a call whose handler waits, and returns with its context when the handler is there.
func (f *fixture) holdLeased(ctx context.Context, req Request, ask askFunc) (*heldLease, context.Context) {
	f.t.Helper()
	h := &heldLease{t: f.t, there: make(chan context.Context, 1), goOn: make(chan doFunc, 1), ended: make(chan leasedEnd, 1)}
	go func() {
		r, err := RunLeased(ctx, f.store, req, func(ctx context.Context) (string, error) {
			h.there <- ctx
			return (<-h.goOn)(ctx)
		}, ask)
		h.ended <- leasedEnd{r, err}
	}()
	f.t.Cleanup(func() { // a test that failed leaves nobody waiting
		select {
		case h.goOn <- func(context.Context) (string, error) { return "", errors.New("the test has ended") }:
		default:
		}
	})
	select {
	case inside := <-h.there:
		return h, inside
	case end := <-h.ended:
		f.t.Fatalf("the call ended before its handler ran: %v", end.err)
		return nil, nil
	}
}

// end lets the handler end with do, and returns what became of the call.
func (h *heldLease) end(do doFunc) leasedEnd {
	h.t.Helper()
	h.goOn <- do
	return h.wait()
}

// wait returns what became of the call.
func (h *heldLease) wait() leasedEnd {
	h.t.Helper()
	select {
	case end := <-h.ended:
		return end
	case <-time.After(time.Minute):
		h.t.Fatal("the call did not end")
		return leasedEnd{}
	}
}

func doAnswers(s string) doFunc { return func(context.Context) (string, error) { return s, nil } }

// lapse lets the leases run out, as if their owners had gone.
func (f *fixture) lapse(key string) {
	f.t.Helper()
	f.exec(`update txonce.call set lease_until = clock_timestamp() where key = $1`, "x:"+key)
}

// abandon leaves behind what a process leaves that is killed inside its handler: a claim that nobody renews. It returns
// the downstream key that the handler had.
func (f *fixture) abandon(req Request) string {
	f.t.Helper()
	id, err := f.store.identify(req)
	if err != nil {
		f.t.Fatal(err)
	}
	id.leased = true
	l, _, err := f.store.claimLease(f.t.Context(), id, nil)
	if err != nil || l == nil {
		f.t.Fatalf("no claim: %v", err)
	}
	f.lapse(req.Key)
	return (&toolcall.Call{ID: id.ID, Epoch: l.epoch}).DownstreamKey("pay")
}

// withOtherArgs is the request with arguments that differ in "cents".
func withOtherArgs(req Request) Request {
	req.Args = []byte(`{"order":"A-1","cents":1051}`)
	return req
}

// wantReused checks that the request with other arguments is refused, with the path that differs.
func (f *fixture) wantReused(req Request) {
	f.t.Helper()
	_, err := RunLeased(f.t.Context(), f.store, withOtherArgs(req), neverDo(f.t), neverAsk(f.t))
	var reused *KeyReusedError
	if !errors.As(err, &reused) || cmp.Diff([]string{"/cents"}, reused.Paths) != "" {
		f.t.Errorf("other arguments: got %v, want ErrKeyReused at /cents", err)
	}
}

func TestRunLeased_R14_R05_OneEffectOneAnswer(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	raw := json.RawMessage(`{ "b":1e2,  "a":[null,"\u0000"] }`)
	first, err := RunLeased(t.Context(), f.store, request("a"), func(context.Context) (json.RawMessage, error) { return raw, nil }, nil)
	if err != nil || first.Replayed || string(first.Value) != string(raw) || first.FinishedAt.IsZero() || first.ID.IsZero() {
		t.Fatalf("first: %+v, %v", first, err)
	}
	for range 2 {
		again, err := RunLeased(t.Context(), f.store, request("a"), func(context.Context) (json.RawMessage, error) {
			t.Error("the handler ran")
			return nil, nil
		}, nil)
		if err != nil || !again.Replayed || string(again.Raw) != string(raw) || string(again.Value) != string(raw) || !again.FinishedAt.Equal(first.FinishedAt) {
			t.Fatalf("again: %+v, %v", again, err)
		}
	}
	f.wantReused(request("a"))
	f.idle()
}

// TestRunLeased_R14_R03_K07_ClaimIsCommittedBeforeTheEffect looks at a call while its handler runs: everyone sees the claim,
// so nobody waits, whatever Policy.Wait says (the test would not end), and other arguments are told apart.
func TestRunLeased_R14_R03_K07_ClaimIsCommittedBeforeTheEffect(t *testing.T) {
	t.Parallel()
	f := setup(t, &Policy{Wait: long, Lease: long}, nil)
	held, _ := f.holdLeased(t.Context(), request("k"), nil)
	var state string
	var leased, live, finished bool
	if err := f.pool.QueryRow(t.Context(), `select state, leased, lease_until > clock_timestamp(), finished_at is not null from txonce.call`).Scan(&state, &leased, &live, &finished); err != nil {
		t.Fatal(err)
	}
	if state != stateRunning || !leased || !live || finished {
		t.Errorf("the claim is %q, leased %v, live %v, finished %v", state, leased, live, finished)
	}
	for _, ask := range []askFunc{nil, neverAsk(t)} {
		_, err := RunLeased(t.Context(), f.store, request("k"), neverDo(t), ask)
		var running *InProgressError
		if !errors.As(err, &running) || running.ID.IsZero() || running.RetryAfter <= 0 {
			t.Errorf("a duplicate got %v, want ErrInProgress", err)
		}
	}
	f.wantReused(request("k"))
	f.idle() // no transaction is open meanwhile
	if end := held.end(doAnswers("done")); end.err != nil || end.Value != "done" {
		t.Errorf("got %+v", end)
	}
}

func TestRunLeased_R14_R01_ConcurrentDuplicatesHaveOneEffect(t *testing.T) {
	t.Parallel()
	const n, rounds = 64, 2
	f := setup(t, nil, nil)
	for round := range rounds {
		p, req := &provider{}, request(name("k", round))
		var ran, replayed atomic.Int64
		start := make(chan struct{})
		var wg sync.WaitGroup
		for range n {
			wg.Go(func() {
				<-start
				switch got, err := RunLeased(t.Context(), f.store, req, p.pay, nil); {
				case errors.Is(err, ErrInProgress):
				case err != nil || got.Value != "paid":
					t.Errorf("got %+v, %v", got, err)
				case got.Replayed:
					replayed.Add(1)
				default:
					ran.Add(1)
				}
			})
		}
		close(start)
		wg.Wait()
		if keys := p.paid(); len(keys) != 1 || ran.Load() != 1 {
			t.Errorf("%d effects, %d calls say that they ran", len(keys), ran.Load())
		}
		t.Logf("%d of %d duplicates were replayed, the others in progress", replayed.Load(), n-1)
	}
	f.idle()
}

// TestRunLeased_R14_CostsTwoRoundTrips: the claim, and the answer.
func TestRunLeased_R14_CostsTwoRoundTrips(t *testing.T) {
	t.Parallel()
	w := &turns{}
	f := setup(t, nil, func(cfg *pgxpool.Config) {
		cfg.MaxConns = 1
		cfg.ConnConfig.DialFunc = w.dial(cfg.ConnConfig.DialFunc)
		cfg.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	})
	for i := range 4 { // the first ones describe the statements
		w.take()
		if _, err := RunLeased(t.Context(), f.store, request(name("k", i)), doAnswers("done"), nil); err != nil {
			t.Fatal(err)
		}
		if n := w.take(); i == 3 && n != 2 {
			t.Errorf("a first call took %d round trips, want 2", n)
		}
		if _, err := RunLeased(t.Context(), f.store, request(name("k", i)), neverDo(t), nil); err != nil {
			t.Fatal(err)
		}
		if n := w.take(); i == 3 && n != 1 {
			t.Errorf("a replay took %d round trips, want 1", n)
		}
	}
}

func TestRunLeased_R14_BadPoliciesNameTheField(t *testing.T) {
	t.Parallel()
	store := unreachable(t)
	for field, policies := range map[string][]Policy{
		"Policy.Lease":       {{Lease: 99 * time.Millisecond}, {Lease: 25 * time.Hour}, {Lease: -time.Second}},
		"Policy.Renew":       {{Lease: time.Second, Renew: 501 * time.Millisecond}, {Renew: 9 * time.Millisecond}, {Renew: -time.Second}, {Renew: 16 * time.Second}},
		"Policy.OnLeaseLost": {{OnLeaseLost: 3}, {OnLeaseLost: -1}},
	} {
		for _, policy := range policies {
			req := request("k")
			req.Policy = &policy
			_, err := RunLeased(t.Context(), store, req, neverDo(t), nil)
			if !errors.Is(err, ErrPolicy) || !strings.Contains(err.Error(), field) || Retryable(err) {
				t.Errorf("%+v: got %v, want ErrPolicy that names %s", policy, err, field)
			}
		}
	}
}

func TestRunLeased_R10_NestedCallsAreRefused(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	if _, err := Run(t.Context(), f.store, request("outer"), func(ctx context.Context, _ pgx.Tx) (string, error) {
		_, err := RunLeased(ctx, f.store, request("inner"), neverDo(t), nil)
		return "", err
	}); !errors.Is(err, ErrNested) {
		t.Errorf("inside Run: %v", err)
	}
	if _, err := RunLeased(t.Context(), f.store, request("leased"), func(ctx context.Context) (string, error) {
		_, leased := RunLeased(ctx, f.store, request("inner"), neverDo(t), nil)
		_, plain := Run(ctx, f.store, request("inner"), writes("inner"))
		if !errors.Is(leased, ErrNested) || !errors.Is(plain, ErrNested) {
			t.Errorf("inside RunLeased: %v, %v", leased, plain)
		}
		return "", nil
	}, nil); err != nil {
		t.Error(err)
	}
	if n := f.effects("inner"); n != 0 {
		t.Errorf("%d effects", n)
	}
}
