package txidem

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/txonce/txonce/toolcall"
)

// TestRunLeased_R14_R20_LostLeaseCancelsInTime: where a lease cannot be renewed, its handler is told before it ends. The
// database says whether it was. All of them wait at the same time.
func TestRunLeased_R14_R20_LostLeaseCancelsInTime(t *testing.T) {
	t.Parallel()
	const lease = 12 * time.Second // a sixth of it is the time that the handler is left
	var checks []func()
	for label, lose := range map[string]func(d *dials, renewed func(), before int){
		"no connection":      func(d *dials, _ func(), _ int) { d.wire.Down(true) },
		"silent connections": func(d *dials, _ func(), _ int) { d.silence(1000) },
		"stalls, and no other": func(d *dials, renewed func(), before int) {
			renewed()
			d.silence(1000)
			for _, conn := range d.since(before) {
				conn.Stall()
			}
		},
	} {
		f, d, other := dialled(t, &Policy{Lease: lease, Renew: lease / 12}, 1)
		held, inside := f.holdLeased(t.Context(), request("k"), nil)
		lose(d, func() {
			eventually(t, "it has been renewed", func() bool { return leaseBeyond(t, other, lease+lease/20) })
		}, d.count())
		held.goOn <- func(context.Context) (string, error) {
			<-inside.Done()
			if !says(t, other, `select lease_until > clock_timestamp() from txonce.call`) {
				t.Errorf("%s: the handler was told when the lease had ended", label)
			}
			return "", inside.Err()
		}
		checks = append(checks, func() {
			end := held.wait()
			if cause := context.Cause(inside); !errors.Is(cause, ErrLeaseLost) {
				t.Errorf("%s: the cause is %v", label, cause)
			}
			if !errors.Is(end.err, ErrLeaseLost) || !errors.Is(end.err, ErrBlocked) || !errors.Is(end.err, context.Canceled) {
				t.Errorf("%s: the caller got %v", label, end.err)
			}
			f.staysBlocked(request("k")) // at once: the lease was given up
			d.wire.Down(false)
			d.silence(0)
			f.renewsNothing()
		})
	}
	for _, check := range checks {
		check()
	}
}

// TestRunLeased_R14_R21_LostRowCancelsTheHandler takes the row away: by a rival, and on request.
func TestRunLeased_R14_R21_LostRowCancelsTheHandler(t *testing.T) {
	t.Parallel()
	f, _, _ := dialled(t, &Policy{Lease: long, Renew: 50 * time.Millisecond}, 4)
	for label, lose := range map[string]func(){
		"taken over": func() { f.exec(`update txonce.call set attempt = gen_random_uuid() where key = 'x:taken over'`) },
		"forgotten": func() {
			if was, err := f.store.Forget(t.Context(), "alice", toolcall.NewID("alice", "issue_refund", "x:forgotten")); err != nil || !was {
				t.Errorf("Forget: %v, %v", was, err)
			}
		},
		"scope forgotten": func() {
			if n, err := f.store.ForgetScope(t.Context(), "alice"); err != nil || n == 0 {
				t.Errorf("ForgetScope: %v, %v", n, err)
			}
		},
	} {
		held, inside := f.holdLeased(t.Context(), request(label), nil)
		lose()
		<-inside.Done()
		before := f.callRow(label)
		end := held.end(leaves("lost", doAnswers("done"))) // it does not listen
		if !errors.Is(context.Cause(inside), ErrLeaseLost) || !errors.Is(end.err, ErrLeaseLost) || end.Raw != nil {
			t.Errorf("%s: cause %v, the caller got %+v", label, context.Cause(inside), end)
		}
		if after := f.callRow(label); after != before {
			t.Errorf("%s: the attempt changed\n%s\ninto\n%s", label, before, after)
		}
	}
	if n := f.effects("lost"); n != 0 {
		t.Errorf("%d statements were committed", n)
	}
	f.renewsNothing()
}

// TestRunLeased_R14_AnswerCountsWhileNobodyHasTakenOver: a handler that succeeds although it was told has the call.
func TestRunLeased_R14_AnswerCountsWhileNobodyHasTakenOver(t *testing.T) {
	t.Parallel()
	f, d, _ := dialled(t, &Policy{Lease: time.Second}, 1)
	held, inside := f.holdLeased(t.Context(), request("k"), nil)
	d.wire.Down(true)
	<-inside.Done()
	f.lapse("k")
	if end := held.end(leaves("k", doAnswers("done"))); end.err != nil || end.Value != "done" {
		t.Errorf("got %+v", end)
	}
	d.wire.Down(false)
	if again, err := RunLeased(t.Context(), f.store, request("k"), neverDo(t), nil); err != nil || !again.Replayed || f.effects("k") != 1 {
		t.Errorf("again %+v, %v, %d statements", again, err, f.effects("k"))
	}
	f.renewsNothing()
}
