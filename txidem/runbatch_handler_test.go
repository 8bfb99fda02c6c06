package txidem

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txonce/txonce/toolcall"
)

// TestRunBatch_R10_R05_HandlersThatEndBadly has no effect where the call is new, and gets the replay where it is recorded: the
// handler runs before anybody has looked.
func TestRunBatch_R10_R05_HandlersThatEndBadly(t *testing.T) {
	t.Parallel()
	f := setup(t, &Policy{MaxAnswer: 1000}, nil)
	queued := func(end func() (any, error)) func(context.Context, *Batch) (any, error) {
		return func(_ context.Context, b *Batch) (any, error) {
			b.Queue(`insert into effect (intent) values ('k')`)
			return end()
		}
	}
	for label, c := range map[string]struct {
		handler func(context.Context, *Batch) (any, error)
		is      func(error) bool
	}{
		"panic":             {queued(func() (any, error) { panic("oh no") }), isError(ErrHandlerPanicked)},
		"plain error":       {queued(func() (any, error) { return nil, errOfTheTool }), isError(errOfTheTool)},
		"too large":         {queued(func() (any, error) { return strings.Repeat("x", 2000), nil }), isError(ErrAnswerTooLarge)},
		"no JSON":           {queued(func() (any, error) { return make(chan int), nil }), isError(ErrAnswer)},
		"failure too large": {queued(func() (any, error) { return nil, Fail("no", strings.Repeat("x", 2000)) }), isError(ErrAnswerTooLarge)},
		"panic at finish": {func(ctx context.Context, b *Batch) (any, error) {
			return "", queueAtFinish(ctx, func(*pgx.Batch) { panic("oh no") })
		}, isError(ErrHandlerPanicked)},
	} {
		got, err := RunBatch(t.Context(), f.store, request(label), c.handler)
		if !c.is(err) || got.Raw != nil || f.records() != 0 {
			t.Errorf("%s: %+v, %v, %d records", label, got, err, f.records())
		}
		if _, err := Run(t.Context(), f.store, request(label), writes(label)); err != nil {
			t.Errorf("%s: the next call: %v", label, err)
		}
		if got, err := RunBatch(t.Context(), f.store, request(label), c.handler); err != nil || !got.Replayed || got.Value != "done "+label {
			t.Errorf("%s, recorded: %+v, %v; want the replay", label, got, err)
		}
		f.exec(`truncate txonce.call`)
	}
	f.effectsAre(map[string]int{"k": 0})
	f.clean()
}

func TestRunBatch_R10_GoexitSendsNothing(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = RunBatch(t.Context(), f.store, request("k"), func(_ context.Context, b *Batch) (string, error) {
			b.Queue(`insert into effect (intent) values ('k')`)
			runtime.Goexit()
			return "", nil
		})
	}()
	<-ended
	f.clean()
	if got, err := RunBatch(t.Context(), f.store, request("k"), queues("k")); err != nil || got.Replayed || f.effects("k") != 1 {
		t.Errorf("afterwards: %+v, %v, %d effects", got, err, f.effects("k"))
	}
}

func TestRunBatch_R10_KeptBatchAndNestedCalls(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	var kept *Batch
	var inner error
	for i := range 2 {
		if _, err := RunBatch(t.Context(), f.store, request(name("k", i)), func(ctx context.Context, b *Batch) (string, error) {
			if kept != nil {
				kept.Queue(`insert into effect (intent) values ('late')`)
				kept.MustAffect(1, `insert into effect (intent) values ('late')`)
			}
			kept = b
			_, inner = RunBatch(ctx, f.store, request("inner"), queues("inner"))
			return "", nil
		}); err != nil || !errors.Is(inner, ErrNested) {
			t.Errorf("%v, inside %v; want ErrNested", err, inner)
		}
	}
	if kept.Queue(`select 1`); !errors.Is(kept.err, ErrBatchSQL) {
		t.Errorf("a kept batch took a statement: %v", kept.err)
	}
	f.effectsAre(map[string]int{"late": 0, "inner": 0})
	f.clean()
}

// TestRunBatch_AtFinishTravelsBehindTheBatch is in one round trip and in a fall-back, where it is queued once more.
func TestRunBatch_AtFinishTravelsBehindTheBatch(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	for _, slow := range []bool{false, true} {
		key := name("k", slow)
		if f.fast(); slow {
			f.store.slow.block("issue_refund")
		}
		var late *toolcall.Call
		told := 0
		got, err := RunBatch(t.Context(), f.store, request(key), func(ctx context.Context, b *Batch) (string, error) {
			late, _ = toolcall.FromContext(ctx)
			err := queueAtFinish(ctx, func(b *pgx.Batch) {
				b.Queue(`update effect set intent = intent || ' finished' where intent = $1`, key).Exec(func(tag pgconn.CommandTag) error {
					told = int(tag.RowsAffected())
					return errOfTheTool // cannot fail the call
				})
			})
			b.Queue(`insert into effect (intent) values ($1)`, key)
			return "done", err
		})
		if err != nil || got.Replayed || told != 1 || f.effects(key+" finished") != 1 {
			t.Errorf("slow %v: %+v, %v, %d rows, %d effects", slow, got, err, told, f.effects(key+" finished"))
		}
		if err := late.AtFinish(func(*pgx.Batch) {}); !errors.Is(err, toolcall.ErrCallOver) {
			t.Errorf("AtFinish behind the call: %v", err)
		}
	}
	f.clean()
}

// TestRunBatch_R07_Sizes replays a large answer whole.
func TestRunBatch_R07_Sizes(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	for label, size := range map[string]int{"inline": 60 << 10, "behind a pointer": 70 << 10, "the largest": 1 << 20} {
		handler := func(_ context.Context, b *Batch) (string, error) {
			b.Queue(`insert into effect (intent) values ($1)`, label)
			return strings.Repeat("x", size), nil
		}
		for i := range 2 {
			got, err := RunBatch(t.Context(), f.store, request(label), handler)
			if err != nil || len(got.Value) != size || got.Replayed != (i > 0) {
				t.Errorf("%s: replayed %v, %d bytes, %v", label, got.Replayed, len(got.Value), err)
			}
		}
		f.effectsAre(map[string]int{label: 1})
	}
	f.clean()
}

// TestRunBatch_K07_R13_R16_RecordsAreJudgedAsByRun has a record that is another payload's, expired, or not to be shown.
func TestRunBatch_K07_R13_R16_RecordsAreJudgedAsByRun(t *testing.T) {
	t.Parallel()
	for _, level := range isolationLevels {
		f := setup(t, &Policy{Isolation: level}, nil)
		if _, err := RunBatch(t.Context(), f.store, request("k"), queues("k")); err != nil {
			t.Fatal(err)
		}
		other := request("k")
		other.Args = []byte(`{"order":"A-1","cents":1051}`)
		_, err := RunBatch(t.Context(), f.store, other, queues("k"))
		var reused *KeyReusedError
		if !errors.As(err, &reused) || len(reused.Paths) != 1 || reused.Paths[0] != "/cents" {
			t.Errorf("%s: %v; want a mismatch at /cents", level, err)
		}
		f.store.authorize = func(context.Context, Recorded) error { return errOfTheTool }
		if _, err := RunBatch(t.Context(), f.store, request("k"), queues("k")); !errors.Is(err, ErrNotAllowed) {
			t.Errorf("%s: %v; want ErrNotAllowed", level, err)
		}
		f.store.authorize = nil
		f.exec(`update txonce.call set expires_at = clock_timestamp()`)
		f.fast()
		refuse := request("k")
		refuse.Policy = &Policy{OnExpired: Refuse}
		if _, err := RunBatch(t.Context(), f.store, refuse, queues("k")); !errors.Is(err, ErrExpired) {
			t.Errorf("%s: %v; want ErrExpired", level, err)
		}
		f.fast()
		if got, err := RunBatch(t.Context(), f.store, request("k"), queues("k")); err != nil || got.Replayed {
			t.Errorf("%s, expired: %+v, %v; want a new run", level, got, err)
		}
		f.effectsAre(map[string]int{"k": 2})
		f.clean()
	}
}

// TestRunBatch_ObserverHearsOneDecisionPerCall says how each call was made, and how often its effects were sent.
func TestRunBatch_ObserverHearsOneDecisionPerCall(t *testing.T) {
	t.Parallel()
	f := setup(t, &Policy{Wait: NoWait}, nil)
	l := &listener{}
	f.store.observer = l
	running := f.hold(request("running"), "running")
	fails := func(err error) func(context.Context, *Batch) (string, error) {
		return func(context.Context, *Batch) (string, error) { return "", err }
	}
	disabled := request("disabled")
	disabled.Policy = &Policy{Disabled: true}
	for _, c := range []struct {
		req     Request
		handler func(context.Context, *Batch) (string, error)
		want    Decision
		runs    int
	}{
		{request("ran"), queues("x"), DecidedRan, 1},
		{request("ran"), queues("x"), DecidedReplayed, 0},
		{request("running"), queues("x"), DecidedInProgress, 0},
		{request("slow"), queues("x"), DecidedRan, 1},
		{request("failed"), fails(Fail("a", "b")), DecidedFailed, 1},
		{request("failed"), queues("x"), DecidedReplayed, 0},
		{request("released"), fails(errOfTheTool), DecidedReleased, 1},
		{request("bad"), queuesSQL("x", "commit"), DecidedRefused, 0},
		{Request{Tool: "t"}, queues("x"), DecidedRefused, 0},
		{disabled, queues("x"), DecidedUnprotected, 1},
	} {
		l.events = nil
		_, err := RunBatch(t.Context(), f.store, c.req, c.handler)
		if len(l.events) != 1 {
			t.Fatalf("%s: %d events", c.want, len(l.events))
		}
		e := l.events[0]
		if e.Way != WayBatch || e.Decision != c.want || e.Runs != c.runs || !errors.Is(e.Err, err) || (c.runs > 0) != (e.Handler > 0) && c.runs > 0 {
			t.Errorf("want %s and %d runs, got %+v", c.want, c.runs, e)
		}
	}
	if err := running.end(nil); err != nil {
		t.Error(err)
	}
	f.clean()
}

func TestRunBatch_R15_KillSwitchRunsUnprotectedAndSaysSo(t *testing.T) {
	t.Parallel()
	f := setup(t, &Policy{Disabled: true}, nil)
	var log strings.Builder
	f.store.log = slog.New(slog.NewTextHandler(&log, nil))
	f.exec(`drop table txonce.call`)
	for range 2 {
		if got, err := RunBatch(t.Context(), f.store, request("k"), queues("k")); err != nil || got.Replayed || got.Value != "done k" {
			t.Errorf("got %+v, %v", got, err)
		}
	}
	for label, handler := range map[string]func(context.Context, *Batch) (string, error){
		"error": func(_ context.Context, b *Batch) (string, error) {
			b.Queue(`insert into effect (intent) values ('k')`)
			return "", errOfTheTool
		},
		"commit": queuesSQL("k", "commit"),
	} {
		if _, err := RunBatch(t.Context(), f.store, request("k"), handler); err == nil {
			t.Errorf("%s: no error", label)
		}
	}
	f.effectsAre(map[string]int{"k": 2})
	if n := strings.Count(log.String(), "unprotected=true"); n != 4 {
		t.Errorf("%d log lines say so", n)
	}
	f.clean()
}

// TestRunBatch_R09_CancelledContexts has the caller leave before the handler, in it, and while the batch is under way.
func TestRunBatch_R09_CancelledContexts(t *testing.T) {
	t.Parallel()
	f := setup(t, &Policy{CommitTimeout: 20 * time.Second}, nil)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := RunBatch(gone, f.store, request("k"), queues("k")); !errors.Is(err, context.Canceled) || errors.Is(err, ErrUnavailable) {
		t.Errorf("before: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := RunBatch(ctx, f.store, request("k"), func(_ context.Context, b *Batch) (string, error) {
		cancel()
		return queues("k")(ctx, b)
	}); !errors.Is(err, context.Canceled) {
		t.Errorf("in the handler: %v", err)
	}
	f.effectsAre(map[string]int{"k": 0})
	lower := f.raise()
	ctx, cancel = context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := RunBatch(ctx, f.store, request("k"), queuesSQL("k", `select pg_advisory_xact_lock(42)`, `select pg_sleep(0.3)`)) // long enough for pgx to break it off
		ended <- err
	}()
	f.atBarrier()
	cancel()
	lower()
	if err := <-ended; err != nil {
		t.Errorf("under way: %v; want it committed", err)
	}
	if got, err := RunBatch(t.Context(), f.store, request("k"), queues("k")); err != nil || !got.Replayed {
		t.Errorf("afterwards: %+v, %v", got, err)
	}
	f.effectsAre(map[string]int{"k": 2})
	f.clean()
}
