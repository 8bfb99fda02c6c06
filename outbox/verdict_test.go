package outbox

import (
	"context"
	"errors"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/txonce/txonce/toolcall"
)

// of is a claimed message of a destination with two waits, so three attempts.
func of(change func(*claimed)) *claimed {
	m := &claimed{d: &Destination{Timeout: 15 * time.Second, Retry: Schedule{time.Second, time.Minute}}, at: time.Now()}
	m.Attempt = 1
	change(m)
	return m
}

func asks(context.Context, Delivery) (Outcome, error) { return Outcome{}, nil }

// fate says what becomes of a message, in short.
type short struct {
	State                         toolcall.MessageState
	Unanswered, Undone, Stop, Out bool
}

func (v verdict) short() short { return short{v.state, v.unanswered, v.undone, v.stop, v.uncounted} }

// TestVerdict_O03_O05_O06_WhatBecomesOfAnAttempt goes through what an attempt can come to, and when.
func TestVerdict_O03_O05_O06_WhatBecomesOfAnAttempt(t *testing.T) {
	t.Parallel()
	const failed, unknown, delivered = toolcall.MessageFailed, toolcall.MessageUnknown, toolcall.MessageDelivered
	first, last := func(*claimed) {}, func(m *claimed) { m.Attempt = 3 }
	doubted := func(m *claimed) { m.unanswered = time.Second }
	doubtedLast := func(m *claimed) { m.unanswered, m.Attempt = time.Second, 3 }
	asked := func(change func(*claimed)) func(*claimed) {
		return func(m *claimed) { change(m); m.d.Probe = asks }
	}
	for label, c := range map[string]struct {
		m     func(*claimed)
		class Class
		want  short
	}{
		"delivered":                            {first, Delivered, short{State: delivered}},
		"delivered in the last":                {last, Delivered, short{State: delivered}},
		"delivered behind doubt":               {doubted, Delivered, short{State: delivered}},
		"busy":                                 {first, Retry, short{}},
		"busy in the last":                     {last, Retry, short{State: failed}},
		"busy in the last behind doubt":        {doubtedLast, Retry, short{State: unknown}},
		"busy in the last behind doubt, asked": {asked(doubtedLast), Retry, short{Stop: true}},
		"busy behind doubt":                    {doubted, Retry, short{}},
		"no answer":                            {first, Unanswered, short{Unanswered: true}},
		"no answer in the last":                {last, Unanswered, short{State: unknown, Unanswered: true}},
		"no answer in the last, asked":         {asked(last), Unanswered, short{Unanswered: true, Stop: true}},
		"rejected":                             {first, Rejected, short{State: failed}},
		"rejected, asked":                      {asked(first), Rejected, short{State: failed}},
		"rejected behind doubt":                {doubted, Rejected, short{State: unknown}},
		"rejected behind doubt, asked":         {asked(doubted), Rejected, short{Stop: true}},
		"gone":                                 {first, Gone, short{State: failed}},
		"gone behind doubt":                    {doubted, Gone, short{State: unknown}},
	} {
		if diff := cmp.Diff(c.want, of(c.m).sent(Outcome{Class: c.class}).short()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", label, diff)
		}
	}
}

// TestVerdict_O06_WhatBecomesOfAQuestion: nothing is sent again of which the receiver says no more than that it does not know.
func TestVerdict_O06_WhatBecomesOfAQuestion(t *testing.T) {
	t.Parallel()
	const failed, unknown, delivered = toolcall.MessageFailed, toolcall.MessageUnknown, toolcall.MessageDelivered
	at := func(attempt int, late bool) func(*claimed) {
		return func(m *claimed) { m.Attempt, m.late, m.unanswered = attempt, late, time.Hour }
	}
	for label, c := range map[string]struct {
		m     func(*claimed)
		class Class
		want  short
	}{
		"it was done":                      {at(2, false), Delivered, short{State: delivered}},
		"it was done, late":                {at(4, true), Delivered, short{State: delivered}},
		"it was not and is not to be":      {at(2, false), Rejected, short{State: failed}},
		"there is nobody any more":         {at(2, false), Gone, short{State: failed}},
		"it was not":                       {at(2, false), Retry, short{Undone: true}},
		"it was not, and there is no time": {at(2, true), Retry, short{State: failed}},
		"it was not, and had all attempts": {at(4, false), Retry, short{State: failed}},
		"nobody knows":                     {at(2, false), Unanswered, short{}},
		"nobody knows, for long":           {at(5, false), Unanswered, short{}},
		"nobody ever knows":                {at(6, false), Unanswered, short{State: unknown}},
	} {
		if diff := cmp.Diff(c.want, of(c.m).probed(Outcome{Class: c.class}).short()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", label, diff)
		}
	}
}

// TestVerdict_O06_WhatIsSent: nothing is sent whose time is over, nor behind the last attempt, nor when the receiver may have
// forgotten the key before the attempt is through.
func TestVerdict_O06_WhatIsSent(t *testing.T) {
	t.Parallel()
	lifetime := func(unanswered, waited time.Duration) func(*claimed) {
		return func(m *claimed) {
			m.d.KeyLifetime, m.unanswered, m.at = time.Minute, unanswered, time.Now().Add(-waited)
		}
	}
	for label, c := range map[string]struct {
		m    func(*claimed)
		want bool
	}{
		"the first":                            {func(*claimed) {}, true},
		"the last":                             {func(m *claimed) { m.Attempt = 3 }, true},
		"one more":                             {func(m *claimed) { m.Attempt = 4 }, false},
		"too late":                             {func(m *claimed) { m.late = true }, false},
		"no doubt":                             {lifetime(0, 0), true},
		"the key is remembered":                {lifetime(44*time.Second, 0), true},
		"the key may be forgotten by then":     {lifetime(46*time.Second, 0), false},
		"so it may, for the claim was a while": {lifetime(42*time.Second, 4*time.Second), false},
		"it is forgotten":                      {lifetime(time.Hour, 0), false},
		"keys are for ever":                    {func(m *claimed) { m.unanswered = 1000 * time.Hour }, true},
	} {
		if got := of(c.m).toSend(); got != c.want {
			t.Errorf("%s: it is sent: %v", label, got)
		}
	}
	for label, c := range map[string]struct {
		m    func(*claimed)
		want toolcall.MessageState
	}{
		"too late":        {func(m *claimed) { m.late = true }, toolcall.MessageExpired},
		"no attempt left": {func(m *claimed) { m.Attempt = 4 }, toolcall.MessageFailed},
	} {
		if v := of(c.m).notSent(); v.state != c.want || !v.uncounted {
			t.Errorf("%s: %+v", label, v)
		}
	}
}

// TestSchedule_O04_BoundsAndJitter: waits spread over all of what is allowed, and never leave it.
func TestSchedule_O04_BoundsAndJitter(t *testing.T) {
	t.Parallel()
	s := DefaultSchedule()
	if s.attempts() != 13 {
		t.Errorf("%d attempts", s.attempts())
	}
	for attempt := range len(s) + 3 {
		low, high := 0, 0
		for range 1000 {
			w := s.wait(attempt)
			switch most := time.Duration(0); {
			case attempt >= 1 && attempt <= len(s):
				if most = s[attempt-1]; w < 0 || w >= most {
					t.Fatalf("behind attempt %d: %v, at most %v", attempt, w, most)
				}
				if w < most/4 {
					low++
				}
				if w > most*3/4 {
					high++
				}
			case w != 0:
				t.Fatalf("behind attempt %d: %v", attempt, w)
			}
		}
		if attempt >= 1 && attempt <= len(s) && (low < 100 || high < 100) { // 250 each; 100 is 11 standard deviations away
			t.Errorf("behind attempt %d: %d of 1,000 in the first quarter, %d in the last", attempt, low, high)
		}
	}
	s[0] = 0
	if DefaultSchedule()[0] == 0 {
		t.Error("the default schedule was changed")
	}
}

// TestVerdict_O04_RetryAfterIsNeverCutShort, and not the same for all that heard it; nonsense is bounded.
func TestVerdict_O04_RetryAfterIsNeverCutShort(t *testing.T) {
	t.Parallel()
	seen := make(map[time.Duration]bool)
	for range 1000 {
		const after = 2 * time.Minute // longer than the schedule's
		v := of(func(*claimed) {}).sent(Outcome{Class: Retry, RetryAfter: after})
		if v.wait < after || v.wait > after*12/10 {
			t.Fatalf("%v behind a Retry-After of %v", v.wait, after)
		}
		seen[v.wait] = true
	}
	if len(seen) < 500 {
		t.Errorf("%d waits differ of 1,000", len(seen))
	}
	for label, after := range map[string]time.Duration{"in the past": math.MinInt64, "in 292 years": math.MaxInt64} {
		for name, v := range map[string]verdict{
			"sent":   of(func(*claimed) {}).sent(Outcome{Class: Retry, RetryAfter: after}),
			"probed": of(func(*claimed) {}).probed(Outcome{Class: Retry, RetryAfter: after}),
		} {
			if v.wait < 0 || v.wait > 27*time.Hour {
				t.Errorf("%s, %s: %v", name, label, v.wait)
			}
		}
	}
}

// TestWithin_O07_WhateverThePublisherDoes comes to an outcome, and to doubt unless it says otherwise.
func TestWithin_O07_WhateverThePublisherDoes(t *testing.T) {
	t.Parallel()
	stop := make(chan struct{})
	defer close(stop)
	for label, c := range map[string]struct {
		call   func(ctx context.Context) (Outcome, error)
		class  Class
		reason string
	}{
		"an answer":           {func(context.Context) (Outcome, error) { return Outcome{Class: Rejected, Reason: "no"}, nil }, Rejected, "no"},
		"nothing":             {func(context.Context) (Outcome, error) { return Outcome{}, nil }, Unanswered, ""},
		"an error":            {func(context.Context) (Outcome, error) { return Outcome{Class: Delivered}, errors.New("cut") }, Unanswered, "cut"},
		"a class of its own":  {func(context.Context) (Outcome, error) { return Outcome{Class: 9}, nil }, Unanswered, "class 9"},
		"a class below":       {func(context.Context) (Outcome, error) { return Outcome{Class: -1}, nil }, Unanswered, "class -1"},
		"a panic":             {func(context.Context) (Outcome, error) { panic("boom") }, Unanswered, "panicked: boom"},
		"a panic with nil":    {func(context.Context) (Outcome, error) { panic(nil) }, Unanswered, "panicked"},
		"Goexit":              {func(context.Context) (Outcome, error) { runtime.Goexit(); panic("unreachable") }, Unanswered, "ended its goroutine"},
		"an end in time":      {func(ctx context.Context) (Outcome, error) { <-ctx.Done(); return Outcome{}, ctx.Err() }, Unanswered, "no answer in time"},
		"an answer too late":  {func(ctx context.Context) (Outcome, error) { <-ctx.Done(); return Outcome{Class: Delivered}, nil }, Delivered, ""},
		"no heed of its time": {func(context.Context) (Outcome, error) { <-stop; return Outcome{}, nil }, Unanswered, "does not heed its context"},
	} {
		out, over := within(t.Context(), 20*time.Millisecond, c.call)
		if out.Class != c.class || !strings.Contains(out.Reason, c.reason) {
			t.Errorf("%s: %v, %q", label, out.Class, out.Reason)
		}
		if label != "no heed of its time" {
			<-over
		}
	}
}

// TestVerdict_O03_CleanFitsTheTable: nothing that a publisher says keeps its result from being noted.
func TestVerdict_O03_CleanFitsTheTable(t *testing.T) {
	t.Parallel()
	huge := strings.Repeat("ä\x00\xff", 10_000)
	v := verdict{Outcome: Outcome{Reason: huge, ProviderID: huge, Response: make([]byte, 1<<20), Status: math.MaxInt64}}
	v.clean()
	if len(v.Reason) > mostReason || len(v.ProviderID) > mostName || len(v.Response) > mostResponse || v.Status != math.MaxInt32 || !validText(v.Reason) || !validText(v.ProviderID) {
		t.Errorf("%d bytes of reason, %d of id, %d of response, status %d", len(v.Reason), len(v.ProviderID), len(v.Response), v.Status)
	}
	v.Status = math.MinInt64
	if v.clean(); v.Status != math.MinInt32 {
		t.Errorf("the status is %d", v.Status)
	}
	if got := cut("aä", 2); got != "a" || !utf8.ValidString(got) {
		t.Errorf("cut inside a letter gives %q", got)
	}
	if got := cut("short", mostReason); got != "short" {
		t.Errorf("what fits becomes %q", got)
	}
}

// TestBlocks_O05_OnlyWhatFailedWithItsKey: what expired, was cancelled or delivered lets the messages behind it go.
func TestBlocks_O05_OnlyWhatFailedWithItsKey(t *testing.T) {
	t.Parallel()
	for _, policy := range []DeadPolicy{BlockKey, SkipKey} {
		for _, key := range []string{"k", ""} {
			for _, state := range []toolcall.MessageState{
				toolcall.MessageDelivered, toolcall.MessageFailed, toolcall.MessageUnknown, toolcall.MessageCancelled, toolcall.MessageExpired, "",
			} {
				one := result{of(func(m *claimed) { m.OrderingKey, m.d.OnDead = key, policy }), verdict{state: state}}
				want := policy == BlockKey && key != "" && (state == toolcall.MessageFailed || state == toolcall.MessageUnknown)
				if got := one.blocks(); got != want {
					t.Errorf("policy %d, key %q, %s: it blocks: %v", policy, key, state, got)
				}
			}
		}
	}
}
