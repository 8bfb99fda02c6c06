package txidem

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/txonce/txonce/toolcall"
)

// sweepNothing checks that nothing is swept.
func (f *fixture) sweepNothing() {
	f.t.Helper()
	if swept, err := f.store.Sweep(f.t.Context()); err != nil || swept.Deleted != 0 {
		f.t.Errorf("swept %+v, %v; want nothing deleted", swept, err)
	}
}

// TestRunLeased_R14_R12_RunningCallsDoNotExpire: expiry counts from the end, however long the call takes.
func TestRunLeased_R14_R12_RunningCallsDoNotExpire(t *testing.T) {
	t.Parallel()
	f := setup(t, &Policy{Lease: long}, nil)
	held, _ := f.holdLeased(t.Context(), request("k"), nil)
	f.age("x:k")
	f.sweepNothing()
	if _, err := RunLeased(t.Context(), f.store, request("k"), neverDo(t), neverAsk(t)); !errors.Is(err, ErrInProgress) {
		t.Errorf("a duplicate got %v", err)
	}
	if _, err := Run(t.Context(), f.store, request("k"), writes("k")); !errors.Is(err, ErrOtherWay) {
		t.Errorf("Run got %v", err)
	}
	if state := f.state(request("k")); state != toolcall.StateRunning {
		t.Errorf("its state is %s", state)
	}
	if end := held.end(doAnswers("done")); end.err != nil {
		t.Error(end.err)
	}
	f.sweepNothing()
	if !says(t, f.pool, `select abs(extract(epoch from expires_at - finished_at - interval '24 h')) < 1 from txonce.call`) {
		t.Error("the retention is not counted from the end")
	}
	if again, err := RunLeased(t.Context(), f.store, request("k"), neverDo(t), nil); err != nil || !again.Replayed {
		t.Errorf("again: %+v, %v", again, err)
	}
}

// TestRunLeased_R14_R12_CutOffAfterALongTimeIsKept: a call that has run for longer than its retention and is cut off then is not
// forgotten at once: it would run again.
func TestRunLeased_R14_R12_CutOffAfterALongTimeIsKept(t *testing.T) {
	t.Parallel()
	for label, cutOff := range map[string]func(*fixture, *heldLease){
		"error": func(_ *fixture, held *heldLease) {
			held.end(func(context.Context) (string, error) { return "", errCutOff })
		},
		"killed": func(f *fixture, _ *heldLease) { f.lapse("k") },
	} {
		t.Run(label, func(t *testing.T) {
			t.Parallel()
			f := setup(t, &Policy{Lease: time.Minute, Renew: 50 * time.Millisecond}, nil)
			held, _ := f.holdLeased(t.Context(), request("k"), nil)
			f.exec(`update txonce.call set started_at = started_at - interval '48 h', expires_at = expires_at - interval '48 h',
				lease_until = clock_timestamp() + interval '30 s'`)
			eventually(t, "it has been renewed", func() bool {
				return says(t, f.pool, `select lease_until > clock_timestamp() + interval '40 s' from txonce.call`)
			})
			if label == "killed" { // its renewals end with it
				f.store.leases.mu.Lock()
				live := slices.Collect(maps.Values(f.store.leases.live))
				f.store.leases.mu.Unlock()
				for _, l := range live {
					f.store.leases.drop(l)
				}
				f.renewsNothing()
			}
			cutOff(f, held)
			f.sweepNothing()
			f.exec(`update txonce.call set lease_until = clock_timestamp() - interval '23 h'`)
			f.sweepNothing()
			f.staysBlocked(request("k"))
		})
	}
}

// TestRunLeased_R14_WhatWasGivenUpIsNotRenewed sends a renewal that was under way when the lease was given up.
func TestRunLeased_R14_WhatWasGivenUpIsNotRenewed(t *testing.T) {
	t.Parallel()
	f := setup(t, &Policy{Lease: long}, nil)
	var token string
	held, _ := f.holdLeased(t.Context(), request("k"), nil)
	if err := f.pool.QueryRow(t.Context(), `select attempt::text from txonce.call`).Scan(&token); err != nil {
		t.Fatal(err)
	}
	end := held.end(func(context.Context) (string, error) { return "", errCutOff })
	before := f.callRow("k")
	f.exec(f.store.sql.renew, []string{end.ID.String()}, []string{token}, []string{"60"}, false)
	if after := f.callRow("k"); after != before {
		t.Errorf("it changed\n%s\ninto\n%s", before, after)
	}
	f.staysBlocked(request("k"))

	other, _ := f.holdLeased(t.Context(), request("other"), nil) // whose lease an attempt with another token renews
	before = f.callRow("other")
	id := toolcall.NewID("alice", "issue_refund", "x:other")
	f.exec(f.store.sql.renew, []string{id.String()}, []string{token}, []string{"60"}, false)
	if after := f.callRow("other"); after != before {
		t.Errorf("another attempt's lease changed\n%s\ninto\n%s", before, after)
	}
	if end := other.end(doAnswers("done")); end.err != nil {
		t.Error(end.err)
	}
}

// TestRunLeased_R14_R13_AfterTheRetention: a call that ended, and one that was cut off, under each policy.
func TestRunLeased_R14_R13_AfterTheRetention(t *testing.T) {
	t.Parallel()
	f := setup(t, &Policy{Lease: long}, nil)
	with := func(key string, p Policy) Request {
		req := request(key)
		req.Policy = &p
		return req
	}
	refuse, rerun := with("refuse", Policy{OnExpired: Refuse}), request("rerun")
	refuseCut, rerunCut := with("refuse, cut off", Policy{OnExpired: Refuse}), request("rerun, cut off")
	for _, req := range []Request{refuse, rerun} {
		if _, err := RunLeased(t.Context(), f.store, req, doAnswers("done"), nil); err != nil {
			t.Fatal(err)
		}
	}
	key := f.abandon(refuseCut)
	old := f.abandon(rerunCut)
	f.age("x:%")
	for range 2 {
		if _, err := RunLeased(t.Context(), f.store, refuse, neverDo(t), neverAsk(t)); !errors.Is(err, ErrExpired) {
			t.Errorf("refuse: %v", err)
		}
		if _, err := RunLeased(t.Context(), f.store, refuseCut, neverDo(t), nil); !errors.Is(err, ErrBlocked) {
			t.Errorf("refuse, cut off: %v", err)
		}
		if state := f.state(refuseCut); state != toolcall.StateUnknown {
			t.Errorf("refuse, cut off: %s", state)
		}
		if swept, err := f.store.Sweep(t.Context()); err != nil {
			t.Errorf("%+v, %v", swept, err)
		}
	}
	if n := f.records(); n != 2 {
		t.Errorf("%d records are left, want the 2 that must not run again", n)
	}
	if got, err := RunLeased(t.Context(), f.store, refuseCut, neverDo(t), func(ctx context.Context) (string, bool, error) { return downstream(ctx), true, nil }); err != nil || got.Value != key {
		t.Errorf("refuse, asked: %+v, %v; want the key %s", got, err, key)
	}
	for _, req := range []Request{rerun, rerunCut} {
		p := &provider{}
		if got, err := RunLeased(t.Context(), f.store, req, p.pay, neverAsk(t)); err != nil || got.Replayed || p.paid()[0] == old {
			t.Errorf("%s: %+v, %v, keys %q; want a new intent", req.Key, got, err, p.paid())
		}
	}
}

// TestRunLeased_R14_S02_StatusTellsTheTruth asks for a call in each of its states.
func TestRunLeased_R14_S02_StatusTellsTheTruth(t *testing.T) {
	t.Parallel()
	f := setup(t, &Policy{Lease: long}, nil)
	want := func(key string, state toolcall.State) {
		t.Helper()
		for asked, ask := range map[string]func(context.Context, Request) (toolcall.Status, error){"Status": f.store.Status, "Resolve": f.store.Resolve} {
			got, err := ask(t.Context(), request(key))
			if err != nil || got.State != state {
				t.Errorf("%s by %s: %+v, %v; want %s", key, asked, got, err, state)
			}
			ended := state == toolcall.StateSucceeded || state == toolcall.StateFailed || state == toolcall.StateExpired
			if got.FinishedAt.IsZero() == ended || (got.Failure != nil) != (state == toolcall.StateFailed) || (string(got.Answer) == `"done"`) != (state == toolcall.StateSucceeded) {
				t.Errorf("%s by %s: %+v does not fit %s", key, asked, got, state)
			}
		}
	}
	want("k", toolcall.StateNone)
	held, _ := f.holdLeased(t.Context(), request("k"), nil)
	want("k", toolcall.StateRunning)
	f.lapse("k")
	want("k", toolcall.StateUnknown)
	held.end(func(context.Context) (string, error) { return "", errCutOff })
	want("k", toolcall.StateUnknown)
	if _, err := f.store.Status(t.Context(), withOtherArgs(request("k"))); !errors.Is(err, ErrKeyReused) {
		t.Errorf("other arguments: %v", err)
	}
	if _, err := RunLeased(t.Context(), f.store, request("k"), neverDo(t), func(context.Context) (string, bool, error) { return "done", true, nil }); err != nil {
		t.Fatal(err)
	}
	want("k", toolcall.StateSucceeded)
	f.age("x:k")
	want("k", toolcall.StateExpired)
	if _, err := RunLeased(t.Context(), f.store, request("failed"), func(context.Context) (string, error) { return "", Fail("no", "no") }, nil); err == nil {
		t.Fatal("no failure")
	}
	want("failed", toolcall.StateFailed)
}

// TestRunLeased_R14_R12_RetentionCountsFromTheEndOfTheLastLease, also where the lease is longer than the retention and where it was taken over.
func TestRunLeased_R14_R12_RetentionCountsFromTheEndOfTheLastLease(t *testing.T) {
	t.Parallel()
	f := setup(t, &Policy{Lease: long, Retention: 10 * time.Hour}, nil)
	f.abandon(request("k"))
	const kept = `select abs(extract(epoch from ` + sqlExpiry + ` - lease_until - interval '10 h')) < 60 from txonce.call`
	if !says(t, f.pool, kept) {
		t.Error("cut off: it is kept for another time than the retention")
	}
	f.exec(`update txonce.call set started_at = started_at - interval '9 h', expires_at = expires_at - interval '9 h', lease_until = lease_until - interval '9 h'`)
	_, err := RunLeased(t.Context(), f.store, request("k"), neverDo(t), func(context.Context) (string, bool, error) { return "", false, errCutOff })
	if !errors.Is(err, errCutOff) {
		t.Fatal(err)
	}
	if !says(t, f.pool, kept) {
		t.Error("taken over: it is kept for another time than the retention")
	}
}

// TestRunLeased_R14_TakeOverThatIsSentAgainForgetsItsFirstTry: the first one may have been rolled back, and a rival be faster.
func TestRunLeased_R14_TakeOverThatIsSentAgainForgetsItsFirstTry(t *testing.T) {
	t.Parallel()
	l := &lease{epoch: "1"}
	if _ = l.readEpoch(noRows{}); l.epoch != "" {
		t.Errorf("the epoch is %q where no row was changed", l.epoch)
	}
}
