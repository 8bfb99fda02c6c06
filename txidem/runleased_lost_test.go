package txidem

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/toolcall"
)

// leaves has the handler leave a statement for the end of the call, in front of do.
func leaves(intent string, do doFunc) doFunc {
	return func(ctx context.Context) (string, error) {
		call, _ := toolcall.FromContext(ctx)
		if err := call.AtFinish(func(b *pgx.Batch) { b.Queue(`insert into effect (intent) values ($1)`, intent) }); err != nil {
			return "", err
		}
		return do(ctx)
	}
}

// callRow is the record as text, to see whether it changed.
func (f *fixture) callRow(key string) (row string) {
	f.t.Helper()
	if err := f.pool.QueryRow(f.t.Context(), `select call::text from txonce.call where key = $1`, "x:"+key).Scan(&row); err != nil && !errors.Is(err, pgx.ErrNoRows) {
		f.t.Fatal(err)
	}
	return row
}

// zombieEnds are the ends of an attempt that has lost its call, and what its caller hears: never "done", never "failed".
var zombieEnds = map[string]struct {
	do    doFunc
	wants error
	ask   bool
}{
	"answer":          {leaves("zombie", doAnswers("zombie")), ErrLeaseLost, false},
	"answer, can ask": {leaves("zombie", doAnswers("zombie")), ErrLeaseLost, true},
	"failure":         {leaves("zombie", func(context.Context) (string, error) { return "", Fail("zombie", "no") }), ErrLeaseLost, false},
	"error":           {leaves("zombie", func(context.Context) (string, error) { return "", errZombie }), errZombie, false},
	"panic":           {leaves("zombie", func(context.Context) (string, error) { panic(errZombie) }), ErrHandlerPanicked, false},
	"not done":        {leaves("zombie", func(context.Context) (string, error) { return "", NotDone(errZombie) }), errZombie, false},
}

var errZombie = errors.New("the zombie's error")

// TestRunLeased_R14_ZombiesChangeNothing lets an attempt end whose call another one has taken over: while that one runs, and
// after it has ended.
func TestRunLeased_R14_ZombiesChangeNothing(t *testing.T) {
	t.Parallel()
	f := setup(t, &Policy{Lease: long, OnLeaseLost: RerunLost}, nil)
	for label, z := range zombieEnds {
		for _, ended := range []bool{false, true} {
			key := name(label, " ended ", ended)
			var ask askFunc
			if z.ask {
				ask = neverAsk(t)
			}
			zombie, _ := f.holdLeased(t.Context(), request(key), ask)
			f.lapse(key)
			second, _ := f.holdLeased(t.Context(), request(key), nil)
			var end leasedEnd
			if ended {
				end = second.end(doAnswers("second"))
			}
			before := f.callRow(key)
			heard := zombie.end(z.do)
			if after := f.callRow(key); after != before || after == "" {
				t.Errorf("%s: the zombie changed\n%s\ninto\n%s", key, before, after)
			}
			_, failure := failureIn(heard.err)
			if !errors.Is(heard.err, z.wants) || failure || heard.Raw != nil || !heard.FinishedAt.IsZero() {
				t.Errorf("%s: the zombie's caller got %+v, want an error that is neither", key, heard)
			}
			if open := errors.Is(heard.err, ErrOutcomeUnknown); open != (label != "not done") {
				t.Errorf("%s: the zombie's caller got %v", key, heard.err)
			}
			if !ended {
				end = second.end(doAnswers("second"))
			}
			again, err := RunLeased(t.Context(), f.store, request(key), neverDo(t), neverAsk(t))
			if end.err != nil || err != nil || !again.Replayed || again.Value != "second" {
				t.Errorf("%s: the second got %+v, and then %+v, %v", key, end, again, err)
			}
		}
	}
	if n := f.effects("zombie"); n != 0 {
		t.Errorf("%d statements of zombies were committed", n)
	}
	f.idle()
}

// leasedCutOffs are what leaves open whether the effect happened.
var leasedCutOffs = map[string]struct {
	do    doFunc
	wants error // beside ErrBlocked
}{
	"error":     {func(context.Context) (string, error) { return "", errCutOff }, errCutOff},
	"panic":     {func(context.Context) (string, error) { panic("at the disco") }, ErrHandlerPanicked},
	"too large": {func(context.Context) (string, error) { return strings.Repeat("x", 200), nil }, ErrAnswerTooLarge},
	"codec":     {doAnswers("not for the codec"), ErrCodec},
	"queued":    {leavesOn(func(b *pgx.Batch) { b.Queue(`select 1/0`) }), nil},
	"queuing":   {leavesOn(func(*pgx.Batch) { panic("while queuing") }), ErrHandlerPanicked},
	"failure that is too large": {func(context.Context) (string, error) {
		return "", Fail("no", strings.Repeat("x", 200))
	}, ErrAnswerTooLarge},
}

var errCutOff = errors.New("broken")

// leavesOn returns a handler that leaves something for the end of the call.
func leavesOn(queue func(*pgx.Batch)) doFunc {
	return func(ctx context.Context) (string, error) {
		call, _ := toolcall.FromContext(ctx)
		return "", call.AtFinish(queue)
	}
}

// noCodec refuses one answer.
type noCodec struct{ Codec }

func (noCodec) Encode(_ context.Context, _ Recorded, answer []byte) ([]byte, error) {
	if string(answer) == `"not for the codec"` {
		return nil, errCutOff
	}
	return answer, nil
}

func (noCodec) Decode(_ context.Context, _ Recorded, stored []byte) ([]byte, error) {
	return stored, nil
}

// staysBlocked checks that the call does not run, until Forget has freed it.
func (f *fixture) staysBlocked(req Request) {
	f.t.Helper()
	before := f.callRow(req.Key)
	for range 2 {
		if _, err := RunLeased(f.t.Context(), f.store, req, neverDo(f.t), nil); !errors.Is(err, ErrBlocked) || Retryable(err) {
			f.t.Errorf("%s: repeated, got %v, want ErrBlocked", req.Key, err)
		}
	}
	f.wantReused(req)
	if after := f.callRow(req.Key); after != before {
		f.t.Errorf("%s: a blocked call changed\n%s\ninto\n%s", req.Key, before, after)
	}
	id := toolcall.NewID(req.Scope, req.Tool, "x:"+req.Key)
	if was, err := f.store.Forget(f.t.Context(), "another", id); was || err != nil {
		f.t.Errorf("another scope may forget it: %v, %v", was, err)
	}
	if was, err := f.store.Forget(f.t.Context(), req.Scope, id); !was || err != nil {
		f.t.Errorf("Forget: %v, %v", was, err)
	}
	if got, err := RunLeased(f.t.Context(), f.store, req, doAnswers("freed"), neverAsk(f.t)); err != nil || got.Replayed || got.Value != "freed" {
		f.t.Errorf("%s: freed, got %+v, %v", req.Key, got, err)
	}
}

func TestRunLeased_R14_R10_BlockIsTheDefaultForWhatWasCutOff(t *testing.T) {
	t.Parallel()
	f := setup(t, &Policy{Lease: long, MaxAnswer: 100}, nil)
	for label, c := range leasedCutOffs {
		if f.store.codec = nil; label == "codec" { // else its own limit would hide that of answers
			f.store.codec = noCodec{}
		}
		got, err := RunLeased(t.Context(), f.store, request(label), leaves("queued", c.do), nil)
		if !errors.Is(err, ErrBlocked) || c.wants != nil && !errors.Is(err, c.wants) || Retryable(err) || got.Raw != nil {
			t.Errorf("%s: got %+v, %v; want ErrBlocked and %v", label, got, err, c.wants)
		}
		f.staysBlocked(request(label))
	}
	f.abandon(request("killed"))
	f.staysBlocked(request("killed"))

	if _, err := RunLeased(t.Context(), f.store, request("no JSON"), func(context.Context) (chan int, error) { return make(chan int), nil }, nil); !errors.Is(err, ErrBlocked) || !errors.Is(err, ErrAnswer) {
		t.Errorf("an answer that cannot be encoded: %v", err)
	}
	f.staysBlocked(request("no JSON"))

	exited := make(chan struct{})
	go func() {
		defer close(exited)
		_, _ = RunLeased(t.Context(), f.store, request("goexit"), func(context.Context) (string, error) { runtime.Goexit(); return "", nil }, nil)
	}()
	<-exited
	f.staysBlocked(request("goexit"))
	if n := f.effects("queued"); n != 0 {
		t.Errorf("%d queued statements of calls that did not succeed were committed", n)
	}
	f.idle()
}

// TestRunLeased_R14_R09_CancelledContext: what has begun is open, and what has not begun has done nothing.
func TestRunLeased_R14_R09_CancelledContext(t *testing.T) {
	t.Parallel()
	f := setup(t, &Policy{Lease: long}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	held, inside := f.holdLeased(ctx, request("inside"), nil)
	cancel()
	<-inside.Done()
	if end := held.end(func(ctx context.Context) (string, error) { return "", ctx.Err() }); !errors.Is(end.err, ErrBlocked) || !errors.Is(end.err, context.Canceled) || errors.Is(end.err, ErrLeaseLost) {
		t.Errorf("cancelled in the handler: %v", end.err)
	}
	f.staysBlocked(request("inside"))

	ctx, cancel = context.WithCancel(t.Context())
	held, _ = f.holdLeased(ctx, request("done"), nil)
	cancel()
	if end := held.end(doAnswers("done")); end.err != nil || end.Value != "done" {
		t.Errorf("cancelled, and done all the same: %+v", end)
	}
	if _, err := RunLeased(ctx, f.store, request("before"), neverDo(t), nil); !errors.Is(err, context.Canceled) || errors.Is(err, ErrBlocked) {
		t.Errorf("cancelled before: %v", err)
	}
	if got, err := RunLeased(t.Context(), f.store, request("before"), doAnswers("next"), nil); err != nil || got.Value != "next" {
		t.Errorf("the next one got %+v, %v", got, err)
	}
	f.idle()
}

// TestRunLeased_R14_RerunLostKeepsTheDownstreamKey: one key for each intent and effect.
func TestRunLeased_R14_RerunLostKeepsTheDownstreamKey(t *testing.T) {
	t.Parallel()
	f := setup(t, &Policy{Lease: long, OnLeaseLost: RerunLost}, nil)
	p := &provider{}
	killed := f.abandon(request("k"))
	for range 3 {
		if _, err := RunLeased(t.Context(), f.store, request("k"), p.fails(errCutOff), nil); !errors.Is(err, errCutOff) || !errors.Is(err, ErrOutcomeUnknown) || errors.Is(err, ErrBlocked) || !Retryable(err) {
			t.Errorf("an attempt that was cut off: %v", err)
		}
	}
	if got, err := RunLeased(t.Context(), f.store, request("k"), p.pay, nil); err != nil || got.Replayed {
		t.Errorf("the last attempt: %+v, %v", got, err)
	}
	f.age("x:%")
	var mail string
	for _, key := range []string{"k", "other"} {
		if _, err := RunLeased(t.Context(), f.store, request(key), func(ctx context.Context) (string, error) {
			call, _ := toolcall.FromContext(ctx)
			mail = call.DownstreamKey("mail")
			return p.pay(ctx)
		}, nil); err != nil {
			t.Error(err)
		}
	}
	keys := p.paid()
	if len(keys) != 6 {
		t.Fatalf("%d runs, want 6", len(keys))
	}
	for i := range 4 {
		if keys[i] != killed {
			t.Errorf("attempt %d has the key %s, the first one had %s", i+1, keys[i], killed)
		}
	}
	if keys[4] == killed || keys[5] == keys[4] || keys[5] == killed || mail == keys[5] {
		t.Errorf("a new intent, another identity, and another effect have the keys %q, %q; the first intent had %s", keys[4:], mail, killed)
	}
	f.idle()
}

// TestRunLeased_R14_R06_EndsOfACall: a failure is recorded, NotDone frees at once, and what was queued commits with an
// answer and with nothing else.
func TestRunLeased_R14_R06_EndsOfACall(t *testing.T) {
	t.Parallel()
	f := setup(t, &Policy{Lease: long}, nil)
	p := &provider{}
	for i := range 3 {
		got, err := RunLeased(t.Context(), f.store, request("fails"), leaves("fails", p.fails(Fail("no", "not this one"))), nil)
		failure, ok := failureIn(err)
		if !ok || failure.Code != "no" || failure.Message != "not this one" || got.Replayed != (i > 0) || got.FinishedAt.IsZero() {
			t.Errorf("failure %d: %+v, %v", i, got, err)
		}
	}
	for range 2 {
		_, err := RunLeased(t.Context(), f.store, request("not done"), leaves("not done", p.fails(NotDone(errCutOff))), neverAsk(t))
		if !errors.Is(err, errCutOff) || errors.Is(err, ErrBlocked) || errors.Is(err, ErrOutcomeUnknown) || err.Error() != errCutOff.Error() {
			t.Errorf("not done: %v", err)
		}
		if row := f.callRow("not done"); row != "" {
			t.Errorf("it left %s", row)
		}
	}
	if got, err := RunLeased(t.Context(), f.store, request("not done"), leaves("done", p.pay), neverAsk(t)); err != nil || got.Replayed {
		t.Errorf("after it: %+v, %v", got, err)
	}
	if NotDone(nil) != nil {
		t.Error("NotDone(nil) is an error")
	}
	if n := len(p.paid()); n != 4 {
		t.Errorf("%d runs, want 4", n)
	}
	for intent, want := range map[string]int{"fails": 0, "not done": 0, "done": 1} {
		if n := f.effects(intent); n != want {
			t.Errorf("%d statements of %q were committed, want %d", n, intent, want)
		}
	}
	f.idle()
}

func TestRunLeased_R14_R10_StatementsThatEndTheTransaction(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	for _, end := range []string{"commit", "rollback"} {
		r, err := RunLeased(t.Context(), f.store, request(end), leavesOn(func(b *pgx.Batch) {
			b.Queue(`insert into effect (intent) values ($1)`, end)
			b.Queue(end)
		}), nil)
		if !errors.Is(err, ErrBatchSQL) || !errors.Is(err, ErrBlocked) || Retryable(err) {
			t.Errorf("%s: %+v, %v", end, r, err)
		}
		if f.effects(end) != 0 {
			t.Errorf("%s: an effect", end)
		}
		f.staysBlocked(request(end))
	}
}

// TestRunLeased_R11_DeadlockAtTheEndIsRepeated: the effect elsewhere has happened, and its answer is known.
func TestRunLeased_R11_DeadlockAtTheEndIsRepeated(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	f.exec(`create sequence tries`)
	f.exec(`create function once_deadlocked() returns void language plpgsql as $$
		begin if nextval('tries') < 2 then raise exception using errcode = '40P01'; end if; end $$`)
	var p provider
	r, err := RunLeased(t.Context(), f.store, request("a"), func(ctx context.Context) (string, error) {
		call, _ := toolcall.FromContext(ctx)
		if err := call.AtFinish(func(b *pgx.Batch) {
			b.Queue(`insert into effect (intent) values ('a')`)
			b.Queue(`select once_deadlocked()`)
		}); err != nil {
			return "", err
		}
		return p.pay(ctx)
	}, nil)
	if err != nil || r.Value != "paid" {
		t.Errorf("%+v, %v", r, err)
	}
	f.effectsAre(map[string]int{"a": 1})
	if n := len(p.paid()); n != 1 {
		t.Errorf("paid %d times", n)
	}
}
