package statustool

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/txonce/txonce/toolcall"
)

// TestAsk_S03_QuestionsTravelTogether: those that come while others are under way.
func TestAsk_S03_QuestionsTravelTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		open := make(chan struct{})
		f.gate = func(int) { <-open }
		r := readerOf(time.Second, f)
		const n = 2500
		for i := range n {
			f.set(scope, succeeded(i))
		}
		w := startWaiting(t.Context(), r, lanes, 0)
		late := startWaiting(t.Context(), r, n, 0)
		gone, leave := context.WithCancel(t.Context())
		leaver := startWaiting(gone, r, 1, 0)
		leave()
		leaver.Wait()
		if !errors.Is(leaver.got[0].err, context.Canceled) {
			t.Errorf("the caller has left: %+v", leaver.got[0])
		}
		close(open)
		w.are(t, toolcall.StateSucceeded)
		late.are(t, toolcall.StateSucceeded)
		if calls := f.asked(); len(calls) > lanes+4 || slices.Max(calls) != mostAsks || f.peak > lanes {
			t.Errorf("asked %v, %d at a time", calls, f.peak)
		}
	})
}

// bare is a source of calls, which does not know kinds of jobs.
type bare struct{ toolcall.Source }

// TestSources_S03_JobsFirst: what a runner knows, the store of calls is not asked for.
func TestSources_S03_JobsFirst(t *testing.T) {
	t.Parallel()
	calls, runs := newFake(), newFake()
	runs.set(scope, running(0))
	r := readerOf(time.Second, bare{calls}, runs)
	if s, err := r.follow(t.Context(), askFor(0), 0, nil); err != nil || s.State != toolcall.StateRunning || len(calls.asked()) != 0 {
		t.Errorf("%+v, %v; the store was asked %d times", s, err, len(calls.asked()))
	}
	if s, err := r.follow(t.Context(), askFor(1), 0, nil); err != nil || s.State != toolcall.StateNone || len(calls.asked()) != 1 {
		t.Errorf("%+v, %v; the store was asked %d times", s, err, len(calls.asked()))
	}
}

// odd breaks the rules of a source.
type odd struct {
	*fake
	does func() ([]toolcall.Status, error)
}

func (o *odd) Statuses(context.Context, []toolcall.Ask) ([]toolcall.Status, error) { return o.does() }

// TestSources_S02_NeverNoRecordWhereOneCouldNotLook: the second is asked for what the first does not have.
func TestSources_S02_NeverNoRecordWhereOneCouldNotLook(t *testing.T) {
	t.Parallel()
	calls, runs, down := newFake(), newFake(), newFake()
	calls.set(scope, succeeded(0))
	runs.set(scope, running(1))
	down.down = true
	panics := &odd{newFake(), func() ([]toolcall.Status, error) { panic("secret") }}
	short := &odd{newFake(), func() ([]toolcall.Status, error) { return nil, nil }}
	for label, c := range map[string]struct {
		sources sources
		want    [3]toolcall.State // "" for an error
	}{
		"both":            {sources{calls, runs}, [3]toolcall.State{toolcall.StateSucceeded, toolcall.StateRunning, toolcall.StateNone}},
		"the first fails": {sources{down, runs}, [3]toolcall.State{"", toolcall.StateRunning, ""}},
		"the last fails":  {sources{runs, down}, [3]toolcall.State{"", toolcall.StateRunning, ""}},
		"one panics":      {sources{calls, panics}, [3]toolcall.State{toolcall.StateSucceeded, "", ""}},
		"one says little": {sources{calls, short}, [3]toolcall.State{toolcall.StateSucceeded, "", ""}},
	} {
		for i, f := range c.sources.ask(t.Context(), []toolcall.Ask{askFor(0), askFor(1), askFor(2)}) {
			if want := c.want[i]; (want == "") != (f.err != nil) || f.err == nil && f.status.State != want {
				t.Errorf("%s: %d is %+v, want %s", label, i, f, want)
			}
		}
	}
	if got := runs.asked(); !slices.Equal(got[:1], []int{2}) && !slices.Equal(got[:1], []int{3}) {
		t.Errorf("asked %v", got)
	}
}
