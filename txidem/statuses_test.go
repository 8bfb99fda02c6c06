package txidem

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/toolcall"
)

// idOf is the id of the call of a request with a key.
func idOf(req Request) toolcall.ID { return toolcall.NewID(req.Scope, req.Tool, "x:"+req.Key) }

// ask asks for the calls of requests, as their scope does.
func (f *fixture) ask(reqs ...Request) []toolcall.Status {
	f.t.Helper()
	asks := make([]toolcall.Ask, len(reqs))
	for i, req := range reqs {
		asks[i] = toolcall.Ask{Scope: req.Scope, ID: idOf(req)}
	}
	statuses, err := f.store.Statuses(f.t.Context(), asks)
	if err != nil {
		f.t.Fatal(err)
	}
	return statuses
}

// TestStatuses_S02_SaysWhatStatusSays about each state, by id alone and for all at once.
func TestStatuses_S02_SaysWhatStatusSays(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	running := f.hold(request("running"), "running")
	if _, err := Run(t.Context(), f.store, request("done"), writes("done")); err != nil {
		t.Fatal(err)
	}
	_, _ = Run(t.Context(), f.store, request("failed"), func(context.Context, pgx.Tx) (string, error) { return "", Fail("no", "never") })
	if _, err := Run(t.Context(), f.store, request("expired"), writes("expired")); err != nil {
		t.Fatal(err)
	}
	f.age("x:expired")
	leased, _ := f.holdLeased(t.Context(), request("leased"), nil)
	reqs := []Request{request("running"), request("never"), request("done"), request("failed"), request("expired"), request("leased"), request("done")}
	want := []toolcall.State{toolcall.StateRunning, toolcall.StateNone, toolcall.StateSucceeded, toolcall.StateFailed, toolcall.StateExpired, toolcall.StateRunning, toolcall.StateSucceeded}
	for i, got := range f.ask(reqs...) {
		if got.State != want[i] || got.ID != idOf(reqs[i]) {
			t.Errorf("%s: %+v, want %s", reqs[i].Key, got, want[i])
		}
		if got.State == toolcall.StateNone || got.State == toolcall.StateRunning && got.Tool == "" {
			continue // by its id alone, nobody knows what it is
		}
		if single, err := f.store.Status(t.Context(), reqs[i]); err != nil || !cmp.Equal(got, single) {
			t.Errorf("%s: %v, %s", reqs[i].Key, err, cmp.Diff(single, got))
		}
	}
	if got := f.ask(); len(got) != 0 {
		t.Errorf("nobody asked: %+v", got)
	}
	_ = running.end(nil)
	_ = leased.end(leaves("leased", doAnswers("done")))
}

// TestStatuses_S05_OtherScopesHaveNothing, whatever the call is doing.
func TestStatuses_S05_OtherScopesHaveNothing(t *testing.T) {
	t.Parallel()
	refuse := false
	f := setup(t, nil, nil)
	f.store.authorize = func(context.Context, Recorded) error {
		if refuse {
			return errors.New("not any more")
		}
		return nil
	}
	running := f.hold(request("running"), "running")
	if _, err := Run(t.Context(), f.store, request("done"), writes("done")); err != nil {
		t.Fatal(err)
	}
	leased, _ := f.holdLeased(t.Context(), request("leased"), nil)
	foreign := func() {
		for _, key := range []string{"running", "done", "leased", "never"} {
			got, err := f.store.Statuses(t.Context(), []toolcall.Ask{{Scope: "mallory", ID: idOf(request(key))}})
			want := []toolcall.Status{{ID: idOf(request(key)), State: toolcall.StateNone}}
			if err != nil || !cmp.Equal(got, want) {
				t.Errorf("%s: %v, %s", key, err, cmp.Diff(want, got))
			}
		}
	}
	foreign()
	refuse = true
	if got := f.ask(request("done"))[0]; !cmp.Equal(got, toolcall.Status{ID: idOf(request("done")), State: toolcall.StateNone}) {
		t.Errorf("the right was lost: %+v", got)
	}
	_ = running.end(nil)
	_ = leased.end(leaves("leased", doAnswers("done")))
	f.exec(`update txonce.call set scope = 'mallory' where key = 'x:done'`)
	if got, err := f.store.Statuses(t.Context(), []toolcall.Ask{{Scope: "mallory", ID: idOf(request("done"))}}); !errors.Is(err, ErrRecord) {
		t.Errorf("somebody edited the table: %+v, %v", got, err)
	}
}

// TestStatuses_S02_NeverNoRecordAboutACommittedCall asks for many by id, beside their commits.
func TestStatuses_S02_NeverNoRecordAboutACommittedCall(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, func(cfg *pgxpool.Config) { cfg.MaxConns = 8 })
	var newest atomic.Int64
	var calls sync.WaitGroup
	done := make(chan struct{})
	n := 2000
	if testing.Short() {
		n = 300
	}
	calls.Go(func() {
		defer close(done)
		for i := range n {
			if _, err := Run(t.Context(), f.store, request(name(i)), writes("k")); err != nil {
				t.Error(err)
				return
			}
			newest.Store(int64(i) + 1)
		}
	})
	reads := 0
	for over := false; !over; {
		select {
		case <-done:
			over = true
		default:
		}
		finished := int(newest.Load())
		reqs := make([]Request, 0, 10)
		for i := max(0, finished-5); i < finished+5; i++ {
			reqs = append(reqs, request(name(i)))
		}
		for i, got := range f.ask(reqs...) {
			if reads++; max(0, finished-5)+i < finished && got.State != toolcall.StateSucceeded {
				t.Fatalf("call %s has returned, and is told to be %s", reqs[i].Key, got.State)
			}
		}
	}
	calls.Wait()
	t.Logf("%d reads beside %d commits", reads, n)
}

func TestStatuses_S02_InMemory(t *testing.T) {
	t.Parallel()
	store, err := NewMemory(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), store, request("done"), func(context.Context, pgx.Tx) (string, error) { return "done", nil }); err != nil {
		t.Fatal(err)
	}
	asks := []toolcall.Ask{{Scope: request("").Scope, ID: idOf(request("done"))}, {Scope: "mallory", ID: idOf(request("done"))}, {Scope: "mallory", ID: idOf(request("never"))}}
	got, err := store.Statuses(t.Context(), asks)
	if err != nil || got[0].State != toolcall.StateSucceeded || string(got[0].Answer) != `"done"` || got[1].State != toolcall.StateNone || got[2].State != toolcall.StateNone {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestStatuses_S02_WithoutProtectionNothingIsNone: what was done left no record. What has one is told.
func TestStatuses_S02_WithoutProtectionNothingIsNone(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	if _, err := Run(t.Context(), f.store, request("done"), writes("done")); err != nil {
		t.Fatal(err)
	}
	off, err := New(f.pool, &Config{Policy: &Policy{Disabled: true}})
	if err != nil {
		t.Fatal(err)
	}
	f.store = off
	if got := f.ask(request("done"))[0]; got.State != toolcall.StateSucceeded {
		t.Errorf("done before: %+v", got)
	}
	if _, err := Run(t.Context(), off, request("unprotected"), writes("unprotected")); err != nil || f.effects("unprotected") != 1 {
		t.Fatal(err)
	}
	if got, err := off.Statuses(t.Context(), []toolcall.Ask{{Scope: request("").Scope, ID: idOf(request("unprotected"))}}); !errors.Is(err, ErrOutcomeUnknown) {
		t.Errorf("done without protection: %+v, %v", got, err)
	}
}
