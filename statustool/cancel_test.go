package statustool

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/txonce/txonce/toolcall"
)

// canceller cancels as it is told to.
type canceller struct {
	mu    sync.Mutex
	asked []toolcall.Ask
	does  func(ask toolcall.Ask) (toolcall.Status, error)
}

func (c *canceller) Cancel(_ context.Context, scope string, id toolcall.ID) (toolcall.Status, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ask := toolcall.Ask{Scope: scope, ID: id}
	c.asked = append(c.asked, ask)
	if c.does == nil {
		return toolcall.Status{}, errors.New("no such job: secret")
	}
	return c.does(ask)
}

// TestCancel_J07_SaysWhatCameOfIt, whatever the canceller says.
func TestCancel_J07_SaysWhatCameOfIt(t *testing.T) {
	t.Parallel()
	stopping := job(toolcall.StateRunning)
	stopping.Job.CancelRequested = true
	refuses := func(toolcall.Ask) (toolcall.Status, error) { return toolcall.Status{}, errors.New("refused: secret") }
	panics := func(toolcall.Ask) (toolcall.Status, error) { panic("secret") }
	for label, c := range map[string]struct {
		was    toolcall.Status
		who    string // defaults to scope
		does   func(f *fake) func(toolcall.Ask) (toolcall.Status, error)
		want   toolcall.State
		says   string
		cancel int
	}{
		"it waits":            {was: job(toolcall.StateQueued), does: ends(job(toolcall.StateCancelled)), want: toolcall.StateCancelled, says: "was cancelled", cancel: 1},
		"it runs":             {was: job(toolcall.StateRunning), does: ends(stopping), want: toolcall.StateRunning, says: "asked to stop", cancel: 1},
		"it stops already":    {was: stopping, does: always(refuses), want: toolcall.StateRunning, says: "asked to stop", cancel: 1},
		"it is cancelled":     {was: job(toolcall.StateCancelled), does: always(refuses), want: toolcall.StateCancelled, says: "was cancelled", cancel: 1},
		"it is done":          {was: job(toolcall.StateSucceeded), does: always(refuses), want: toolcall.StateSucceeded, says: "had ended", cancel: 1},
		"it has failed":       {was: job(toolcall.StateFailed), does: always(refuses), want: toolcall.StateFailed, says: "had ended", cancel: 1},
		"it is not there":     {was: call(toolcall.StateExpired), does: always(refuses), want: toolcall.StateNone, says: "no job with this id", cancel: 1},
		"it is another's":     {was: job(toolcall.StateQueued), who: "bob", does: always(refuses), want: toolcall.StateNone, says: "no job with this id", cancel: 1},
		"it cannot be":        {was: job(toolcall.StateQueued), does: always(refuses), want: StateUnavailable, says: "cannot be found out", cancel: 1},
		"the canceller fails": {was: job(toolcall.StateQueued), does: always(panics), want: StateUnavailable, says: "cannot be found out", cancel: 1},
	} {
		t.Run(label, func(t *testing.T) {
			t.Parallel()
			f, c1 := newFake(), &canceller{}
			who := or(c.who, scope)
			f.set(who, c.was)
			c1.does = c.does(f)
			s := newShop(t, nil).add(&Config{Canceller: c1}, f)
			session := s.connect(nil)
			for range 2 { // the second time is no different
				got := reportIn(t, do(t, session, "cancel_job", args{"id": jobID(1).String()}))
				if got.State != c.want || !strings.Contains(got.Next, c.says) || strings.Contains(got.Next, "secret") {
					t.Errorf("%+v", got)
				}
			}
			if len(c1.asked) != 2*c.cancel || c1.asked[0] != (toolcall.Ask{Scope: scope, ID: jobID(1)}) {
				t.Errorf("cancelled: %v", c1.asked)
			}
		})
	}
}

// ends has the job in another state behind the request.
func ends(as toolcall.Status) func(*fake) func(toolcall.Ask) (toolcall.Status, error) {
	return func(f *fake) func(toolcall.Ask) (toolcall.Status, error) {
		return func(ask toolcall.Ask) (toolcall.Status, error) {
			f.set(ask.Scope, as)
			return as, nil
		}
	}
}

func always(does func(toolcall.Ask) (toolcall.Status, error)) func(*fake) func(toolcall.Ask) (toolcall.Status, error) {
	return func(*fake) func(toolcall.Ask) (toolcall.Status, error) { return does }
}

// TestCancel_J07_BadInput: what is no job's id is not handed to the canceller.
func TestCancel_J07_BadInput(t *testing.T) {
	t.Parallel()
	f, c := newFake(), &canceller{}
	f.set(scope, call(toolcall.StateRunning))
	session := newShop(t, nil).add(&Config{Canceller: c, CancelName: "stop_it"}, f).connect(nil)
	for label, q := range map[string]struct {
		args args
		want toolcall.State
		says string
	}{
		"nothing":      {args{}, StateBadArgs, "job_id"},
		"no id":        {args{"id": "7"}, StateBadArgs, "no id of a call or a job"},
		"another name": {args{"job_id": jobID(1).String()}, StateBadArgs, "There is no argument"},
		"a key":        {args{"tool": "issue_refund", "idempotency_key": "k"}, StateBadArgs, "There is no argument"},
		"a call":       {args{"id": callID("issue_refund", "k").String()}, toolcall.StateRunning, "a call cannot be cancelled"},
		"no call":      {args{"id": callID("issue_refund", "other").String()}, toolcall.StateNone, "not the id of a job"},
	} {
		if got := reportIn(t, do(t, session, "stop_it", q.args)); got.State != q.want || !strings.Contains(got.Next, q.says) {
			t.Errorf("%s: %+v", label, got)
		}
	}
	if len(c.asked) != 0 {
		t.Errorf("cancelled: %v", c.asked)
	}
}
