package txidem

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/internal/faultconn"
	"github.com/txonce/txonce/toolcall"
)

// armLeased sets a fault on the only connection of the pool, for the nth round trip from now.
func (f *fixture) armLeased(fault faultconn.Fault, nth int) {
	f.t.Helper()
	conn, err := f.pool.Acquire(f.t.Context())
	if err != nil {
		f.t.Error(err)
		return
	}
	fault.Write = func(b []byte) bool {
		if faultconn.Executes(b) {
			nth--
		}
		return nth == 0
	}
	faultconn.Of(conn.Conn().PgConn().Conn()).Arm(fault)
	conn.Release()
}

// leavesRun has the handler leave a row that says which run left it.
func leavesRun(ctx context.Context, intent string, run int) error {
	call, _ := toolcall.FromContext(ctx)
	return call.AtFinish(func(b *pgx.Batch) { b.Queue(sqlWriteRun, intent, run) })
}

// TestRunLeased_R14_R08_Cuts cuts each round trip of a leased call, before and after the server has seen COMMIT. The handler
// has its effect once, and its caller gets the answer.
func TestRunLeased_R14_R08_Cuts(t *testing.T) {
	t.Parallel()
	for label, lose := range map[string]bool{"cancels arrive": false, "cancels are lost": true} {
		t.Run(name(label), func(t *testing.T) {
			t.Parallel()
			f, wire, events := wired(t, &Policy{Lease: long, OnLeaseLost: RerunLost}, 1, func(cfg *pgxpool.Config) {
				cfg.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
			})
			wire.LoseCancels(lose)
			for _, cut := range append(append([]aCut{}, cutsBefore...), cutsAfter...) {
				for _, at := range []string{"claim", "take-over", "finish", "failure", "not done", "cut off"} {
					f.cutLeased(events, at, cut)
				}
			}
			f.clean()
		})
	}
}

// cutLeased makes a call that is cut at one of its round trips, and looks at what became of it.
func (f *fixture) cutLeased(events *lastEvents, at string, cut aCut) {
	f.t.Helper()
	key := at + ", " + cut.name
	var downstreams []string
	if at == "take-over" {
		f.abandon(request(key + " before")) // what is sent is prepared by then
		if _, err := RunLeased(f.t.Context(), f.store, request(key+" before"), doAnswers("done"), nil); err != nil {
			f.t.Error(err)
		}
		downstreams = append(downstreams, f.abandon(request(key)))
		f.armLeased(cut.fault, 2)
	}
	if at == "claim" {
		f.armLeased(cut.fault, 1)
	}
	runs := 0
	do := func(ctx context.Context) (string, error) {
		runs++
		downstreams = append(downstreams, downstream(ctx))
		err := leavesRun(ctx, key, runs)
		if at == "claim" || at == "take-over" {
			return "done", err
		}
		f.armLeased(cut.fault, 1)
		return "done", map[string]error{"failure": Fail("no", "no"), "not done": NotDone(errCutOff), "cut off": errCutOff}[at]
	}
	got, err := RunLeased(f.t.Context(), f.store, request(key), do, nil)
	event := events.last(got.ID)
	_, failure := failureIn(err)
	switch at {
	case "failure":
		if !failure || got.FinishedAt.IsZero() || !event.Resolved {
			f.t.Errorf("%s: got %+v, %v, event %+v; want the failure", key, got, err, event)
		}
	case "not done":
		if !errors.Is(err, errCutOff) || f.callRow(key) != "" {
			f.t.Errorf("%s: got %v; it left %q", key, err, f.callRow(key))
		}
	case "cut off":
		if state := f.state(request(key)); !errors.Is(err, ErrOutcomeUnknown) || state != toolcall.StateUnknown {
			f.t.Errorf("%s: got %v; the call is %s", key, err, state)
		}
	default:
		if err != nil || got.Value != "done" || got.Replayed || event.Resolved != (at == "finish") {
			f.t.Errorf("%s: got %+v, %v, event %+v; want the answer", key, got, err, event)
		}
		again, err := RunLeased(f.t.Context(), f.store, request(key), neverDo(f.t), nil)
		if err != nil || !again.Replayed || !again.FinishedAt.Equal(got.FinishedAt) {
			f.t.Errorf("%s: repeated, got %+v, %v; first %+v", key, again, err, got)
		}
	}
	left := len(f.ranLike(key)[key])
	if want := map[bool]int{true: 1}[err == nil]; runs != 1 || left != want {
		f.t.Errorf("%s: %d runs, %d of what they left was committed; want 1 and %d", key, runs, left, want)
	}
	for _, key := range downstreams[min(1, len(downstreams)):] { // none where the call did not run: said above
		if key != downstreams[0] {
			f.t.Errorf("%s: the downstream keys are %q", at, downstreams)
		}
	}
}

// TestRunLeased_R14_R08_NobodyToAsk loses the server behind the effect: the caller is told that it is open, and who repeats the
// call finds what the server has.
func TestRunLeased_R14_R08_NobodyToAsk(t *testing.T) {
	t.Parallel()
	for label, c := range map[string]struct {
		cut      aCut
		recorded bool
		ask      bool
	}{
		"before":        {cut: cutsBefore[1]},
		"after, asking": {cut: cutsAfter[3], recorded: true, ask: true},
	} {
		t.Run(name(label), func(t *testing.T) {
			t.Parallel()
			f, wire, _ := wired(t, &Policy{Lease: long, CommitTimeout: 400 * time.Millisecond}, 1, func(cfg *pgxpool.Config) {
				cfg.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
			})
			var ask askFunc
			if c.ask {
				ask = func(context.Context) (string, bool, error) { return "asked", true, nil }
			}
			got, err := RunLeased(t.Context(), f.store, request("k"), func(ctx context.Context) (string, error) {
				err := leavesRun(ctx, "k", 1)
				f.armLeased(c.cut.fault, 1)
				wire.Down(true)
				return "done", err
			}, ask)
			if got.Raw != nil || errors.Is(err, ErrOutcomeUnknown) != c.ask || errors.Is(err, ErrBlocked) == c.ask {
				t.Errorf("got %+v, %v", got, err)
			}
			wire.Down(false)
			f.lapse("k")
			again, err := RunLeased(t.Context(), f.store, request("k"), neverDo(t), ask)
			switch {
			case c.recorded && (err != nil || !again.Replayed || again.Value != "done"),
				!c.recorded && c.ask && (err != nil || again.Value != "asked"),
				!c.recorded && !c.ask && !errors.Is(err, ErrBlocked):
				t.Errorf("repeated, got %+v, %v", again, err)
			}
			if n := len(f.ran()["k"]); (n == 1) != c.recorded {
				t.Errorf("%d of what the handler left were committed", n)
			}
		})
	}
}

// onBatch calls a function when a batch is sent.
type onBatch struct {
	asked
	call func()
}

func (o *onBatch) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	if o.call != nil {
		o.call()
	}
	return ctx
}

// TestRunLeased_R14_R09_CallerWhoLeavesDuringTheClaim has done nothing: neither a first attempt nor one that takes over.
func TestRunLeased_R14_R09_CallerWhoLeavesDuringTheClaim(t *testing.T) {
	t.Parallel()
	tracer := &onBatch{}
	f := setup(t, &Policy{Lease: long}, func(cfg *pgxpool.Config) { cfg.ConnConfig.Tracer = tracer })
	ctx, cancel := context.WithCancel(t.Context())
	tracer.call = cancel
	_, err := RunLeased(ctx, f.store, request("first"), neverDo(t), neverAsk(t))
	tracer.call = nil
	if !errors.Is(err, context.Canceled) || errors.Is(err, ErrBlocked) || f.callRow("first") != "" {
		t.Errorf("got %v; it left %q", err, f.callRow("first"))
	}
	f.abandon(request("cut off"))
	ctx, cancel = context.WithCancel(t.Context())
	turn := 0
	tracer.call = func() {
		if turn++; turn == 2 {
			cancel()
		}
	}
	_, err = RunLeased(ctx, f.store, request("cut off"), neverDo(t), neverAsk(t))
	tracer.call = nil
	if state := f.state(request("cut off")); !errors.Is(err, context.Canceled) || state != toolcall.StateUnknown {
		t.Errorf("got %v; the call is %s", err, state)
	}
	f.staysBlocked(request("cut off"))
}

// TestRunLeased_R14_R08_ClaimSlowerThanItsLease: a claim whose answer took longer to find out than its lease lasts is renewed
// before it is used.
func TestRunLeased_R14_R08_ClaimSlowerThanItsLease(t *testing.T) {
	t.Parallel()
	f, wire, _ := wired(t, &Policy{Lease: time.Second, CommitTimeout: 20 * time.Second}, 1, func(cfg *pgxpool.Config) {
		cfg.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	})
	if _, err := RunLeased(t.Context(), f.store, request("warm"), doAnswers("done"), nil); err != nil {
		t.Fatal(err)
	}
	wire.Down(true) // until the lease is over
	f.armLeased(cutsAfter[3].fault, 1)
	over := make(chan struct{})
	go func() {
		defer close(over)
		<-time.After(1500 * time.Millisecond)
		wire.Down(false)
	}()
	runs := 0
	got, err := RunLeased(t.Context(), f.store, request("k"), func(ctx context.Context) (string, error) {
		runs++
		if !says(t, f.pool, `select lease_until > clock_timestamp() from txonce.call where key = 'x:k'`) {
			t.Error("it runs without a lease")
		}
		return "done", ctx.Err()
	}, nil)
	<-over
	if err != nil || got.Replayed || runs != 1 {
		t.Errorf("got %+v, %v, %d runs", got, err, runs)
	}
}

// TestRunLeased_R14_R15_NoDatabase says why, in each case.
func TestRunLeased_R14_R15_NoDatabase(t *testing.T) {
	t.Parallel()
	if _, err := RunLeased(t.Context(), unreachable(t), request("k"), neverDo(t), nil); !errors.Is(err, ErrUnavailable) || !Retryable(err) {
		t.Errorf("unreachable: %v", err)
	}
	f, wire, _ := wired(t, &Policy{Lease: long, OnLeaseLost: RerunLost, CommitTimeout: 300 * time.Millisecond}, 1, func(cfg *pgxpool.Config) {
		cfg.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	})
	f.abandon(request("k"))
	f.armLeased(cutsBefore[1].fault, 2)
	wire.Down(true)
	_, err := RunLeased(t.Context(), f.store, request("k"), neverDo(t), nil)
	if !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrOutcomeUnknown) || !Retryable(err) || !strings.Contains(err.Error(), "network is down") {
		t.Errorf("lost at the take-over: %v", err)
	}
	wire.Down(false)
	f.exec(`drop table txonce.call`)
	if _, err := RunLeased(t.Context(), f.store, request("k"), neverDo(t), nil); !errors.Is(err, ErrNotMigrated) {
		t.Errorf("not migrated: %v", err)
	}
}
