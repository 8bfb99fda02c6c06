package statustool

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/txonce/txonce/toolcall"
)

// snapshot answers what was so when it was asked, however long its answer takes: as a database does.
type snapshot struct {
	*fake
	takes time.Duration
}

func (s *snapshot) Statuses(ctx context.Context, asks []toolcall.Ask) ([]toolcall.Status, error) {
	s.mu.Lock()
	takes := s.takes
	s.mu.Unlock()
	statuses, err := s.fake.Statuses(ctx, asks)
	time.Sleep(takes)
	return statuses, err
}

// TestFollow_S02_LookFromBeforeTheQuestionIsNotTold: an earlier attempt was rolled back, and a look for somebody else saw that. Who
// asks then, sees the next attempt run and begins to wait, is not told of it: the call may have committed by now.
func TestFollow_S02_LookFromBeforeTheQuestionIsNotTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &snapshot{fake: newFake()}
		s.set(scope, running(0))
		r := readerOf(time.Second, s)
		first := startWaiting(t.Context(), r, 1, defaultWait)
		s.change(func() { s.takes = 100 * time.Millisecond })
		s.change(func() { s.gate = func(int) { s.change(func() { clear(s.is); s.gate = nil }) } }) // rolled back
		time.Sleep(time.Second + 50*time.Millisecond)                                              // in the middle of the look
		s.change(func() { s.takes = 0 })
		s.set(scope, running(0)) // the next attempt
		second := startWaiting(t.Context(), r, 1, 10*time.Second)
		s.set(scope, succeeded(0))
		first.are(t, toolcall.StateNone) // it asked before
		second.are(t, toolcall.StateSucceeded)
	})
}

// onlyOf is a source of calls or of jobs only: of the ids of the others it says that they are none of its own, without looking.
func onlyOf(f *fake, jobs bool) *filter { return &filter{f, jobs} }

type filter struct {
	*fake
	jobs bool
}

func (s *filter) Statuses(ctx context.Context, asks []toolcall.Ask) ([]toolcall.Status, error) {
	if !slices.ContainsFunc(asks, func(a toolcall.Ask) bool { return isJob(a.ID) == s.jobs }) {
		statuses := make([]toolcall.Status, len(asks))
		for i, ask := range asks {
			statuses[i] = toolcall.Status{ID: ask.ID, State: toolcall.StateNone}
		}
		return statuses, nil
	}
	return s.fake.Statuses(ctx, asks)
}

// TestFollow_S03_DatabaseThatIsAwayEndsNoWaitBesideTheOtherKind: a runner that answers at once that a call is no job of its own has not
// looked, and so who waits for a job beside is not told that theirs alone cannot be read. The same goes for a store.
func TestFollow_S03_DatabaseThatIsAwayEndsNoWaitBesideTheOtherKind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		runs, calls := newFake(), newFake()
		runs.set(scope, job(toolcall.StateRunning))
		calls.set(scope, call(toolcall.StateRunning))
		r := readerOf(defaultPoll, onlyOf(runs, true), bare{onlyOf(calls, false)})
		var all sync.WaitGroup
		for _, id := range []toolcall.ID{jobID(1), callID("issue_refund", "k")} {
			all.Go(func() {
				if s, err := r.follow(t.Context(), toolcall.Ask{Scope: scope, ID: id}, defaultWait, nil); err != nil || s.State != toolcall.StateSucceeded {
					t.Errorf("%s: %+v, %v", id, s, err)
				}
			})
		}
		synctest.Wait()
		for _, f := range []*fake{runs, calls} { // one of them first, so that the other one answers
			f.change(func() { f.down = true })
			time.Sleep(5 * time.Second)
		}
		runs.set(scope, job(toolcall.StateSucceeded))
		calls.set(scope, call(toolcall.StateSucceeded))
		for _, f := range []*fake{runs, calls} {
			f.change(func() { f.down = false })
		}
		all.Wait()
	})
}

// flaky breaks off those questions that it is told to, by their number.
type flaky struct {
	*fake
	breaks func(n, single int, asks []toolcall.Ask) bool
	n      int // questions so far
	single int // those of them about job 1 alone
}

func (f *flaky) Statuses(ctx context.Context, asks []toolcall.Ask) ([]toolcall.Status, error) {
	f.mu.Lock()
	n, single, breaks := f.n, f.single, f.breaks
	f.n++
	if slices.Equal(asks, []toolcall.Ask{askFor(1)}) {
		f.single++
	}
	f.mu.Unlock()
	if breaks != nil && breaks(n, single, asks) {
		return nil, errors.New("the connection broke")
	}
	return f.fake.Statuses(ctx, asks)
}

// TestFollow_S03_ConnectionsThatBreakOffEndNoWait, where others in the same look do not break. Behind a restart a pool has both.
func TestFollow_S03_ConnectionsThatBreakOffEndNoWait(t *testing.T) {
	t.Parallel()
	for label, breaks := range map[string]func(n, single int, asks []toolcall.Ask) bool{
		"one breaks once by itself": func(_, single int, asks []toolcall.Ask) bool {
			return slices.Contains(asks, askFor(1)) && (len(asks) > 1 || single == 0)
		},
		"the server goes meanwhile": func(n, _ int, _ []toolcall.Ask) bool { return n == 0 || n > 1 && n < 60 },
	} {
		synctest.Test(t, func(t *testing.T) {
			f := &flaky{fake: newFake()}
			const n = 40
			for i := range n {
				f.set(scope, running(i))
			}
			w := startWaiting(t.Context(), readerOf(time.Second, f), n, defaultWait)
			f.mu.Lock()
			f.n, f.single, f.breaks = 0, 0, breaks
			f.mu.Unlock()
			time.Sleep(20 * time.Second)
			for i := range n {
				f.set(scope, succeeded(i))
			}
			w.Wait()
			for i, got := range w.got {
				if got.err != nil || got.status.State != toolcall.StateSucceeded {
					t.Errorf("%s: %d: %+v", label, i, got)
				}
			}
		})
	}
}

// hanging does not answer the first n questions behind the first one, until their context ends.
type hanging struct {
	*fake
	n int
}

func (h *hanging) Statuses(ctx context.Context, asks []toolcall.Ask) ([]toolcall.Status, error) {
	if n := len(h.asked()); n > 0 && n <= h.n {
		h.change(func() { h.calls = append(h.calls, len(asks)) })
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return h.fake.Statuses(ctx, asks)
}

// TestFollow_S03_DatabaseThatHangsOnceEndsNoWait: the rest behind a look that was given up is not counted from how long that took.
func TestFollow_S03_DatabaseThatHangsOnceEndsNoWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &hanging{fake: newFake(), n: 1}
		h.set(scope, running(0))
		w := startWaiting(t.Context(), readerOf(defaultPoll, h), 1, defaultWait)
		time.Sleep(5 * time.Second)
		h.set(scope, succeeded(0))
		w.are(t, toolcall.StateSucceeded)
	})
}
