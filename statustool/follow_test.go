package statustool

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/txonce/txonce/toolcall"
)

// In these tests time is the bubble's: it stands still while anybody is at work, and a bubble in which a goroutine is left behind
// fails.

// manyID makes as many ids of jobs as one likes.
func manyID(n int) toolcall.ID {
	id := jobID(byte(n))
	id[14] = byte(n >> 8)
	return id
}

func running(n int) toolcall.Status {
	s := job(toolcall.StateRunning)
	s.ID = manyID(n)
	return s
}

func succeeded(n int) toolcall.Status {
	s := job(toolcall.StateSucceeded)
	s.ID = manyID(n)
	return s
}

func askFor(n int) toolcall.Ask { return toolcall.Ask{Scope: scope, ID: manyID(n)} }

// waiters begin to wait for the jobs from 0 to n, and end with what they are told.
type waiters struct {
	sync.WaitGroup
	r   *reader
	got []finding
}

func startWaiting(ctx context.Context, r *reader, n int, wait time.Duration) *waiters {
	w := &waiters{r: r, got: make([]finding, n)}
	for i := range n {
		w.Go(func() { w.got[i].status, w.got[i].err = r.follow(ctx, askFor(i), wait, nil) })
	}
	synctest.Wait()
	return w
}

func (w *waiters) are(t *testing.T, state toolcall.State) {
	t.Helper()
	w.Wait()
	for i, f := range w.got {
		if f.err != nil || f.status.State != state || f.status.ID != manyID(i) {
			t.Fatalf("%d: %+v", i, f)
		}
	}
}

func readerOf(every time.Duration, s ...toolcall.Source) *reader {
	return newReader(s, every, slog.New(slog.DiscardHandler))
}

// TestFollow_S03_ThousandWaitersOneQuestionATick: they share one question, and few connections.
func TestFollow_S03_ThousandWaitersOneQuestionATick(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n, tick = 1000, 200 * time.Millisecond
		f := newFake()
		for i := range n {
			f.set(scope, running(i))
		}
		f.gate = func(int) { time.Sleep(time.Millisecond) }
		r := readerOf(tick, f)
		ctx, cancel := context.WithCancel(t.Context())
		w := startWaiting(ctx, r, n, defaultWait)
		time.Sleep(tick / 2)
		synctest.Wait()
		first := len(f.asked())
		time.Sleep(10 * tick)
		synctest.Wait()
		if ticks := f.asked()[first:]; len(ticks) < 9 || len(ticks) > 10 || slices.Min(ticks) != n {
			t.Errorf("in 10 ticks: %v", ticks)
		}
		if f.peak > lanes+1 {
			t.Errorf("%d questions under way at a time", f.peak)
		}
		begun := time.Now()
		for i := range n {
			f.set(scope, succeeded(i))
		}
		w.are(t, toolcall.StateSucceeded)
		if took := time.Since(begun); took > tick+2*time.Millisecond {
			t.Errorf("they heard of it after %v", took)
		}
		cancel()
	})
}

// TestFollow_S03_LookIsPartOfItsTick: looks that take long come as often as short ones.
func TestFollow_S03_LookIsPartOfItsTick(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const ticks, tick, look = 20, 200 * time.Millisecond, 30 * time.Millisecond
		f := newFake()
		f.set(scope, running(0))
		f.gate = func(int) { time.Sleep(look) }
		ctx, cancel := context.WithCancel(t.Context())
		w := startWaiting(ctx, readerOf(tick, f), 1, defaultWait)
		time.Sleep(tick)
		synctest.Wait()
		first := len(f.asked())
		time.Sleep(ticks * tick)
		synctest.Wait()
		if got := len(f.asked()) - first; got != ticks {
			t.Errorf("%d looks in %d ticks", got, ticks)
		}
		cancel()
		w.Wait()
	})
}

// TestFollow_S03_OneQuestionForTheSame: those who wait for the same job ask once.
func TestFollow_S03_OneQuestionForTheSame(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.set(scope, running(0))
		r := readerOf(time.Second, f)
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				if s, err := r.follow(t.Context(), askFor(0), defaultWait, nil); err != nil || s.State != toolcall.StateSucceeded {
					t.Errorf("%+v, %v", s, err)
				}
			})
		}
		synctest.Wait()
		first := len(f.asked())
		f.set(scope, succeeded(0))
		all.Wait()
		if ticks := f.asked()[first:]; !slices.Equal(ticks, []int{1}) {
			t.Errorf("asked %v", ticks)
		}
	})
}

// TestFollow_S03_WaitEndsWithTheEnd of what is asked about, of the time, or of the caller.
func TestFollow_S03_WaitEndsWithTheEnd(t *testing.T) {
	t.Parallel()
	for _, state := range states[:8] {
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			s := job(state)
			s.ID = manyID(0)
			f.set(scope, s)
			waits := state == toolcall.StateQueued || state == toolcall.StateRunning
			begun := time.Now()
			got, err := readerOf(time.Second, f).follow(t.Context(), askFor(0), 5*time.Second, nil)
			if took := time.Since(begun); err != nil || got.State != state || waits != (took == 5*time.Second) || !waits && took != 0 {
				t.Errorf("%s: %+v, %v, after %v", state, got, err, took)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.set(scope, running(0))
		r := readerOf(time.Second, f)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if got, err := r.follow(ctx, askFor(0), defaultWait, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the caller has left: %+v, %v", got, err)
		}
		synctest.Wait()
		asked := len(f.asked())
		time.Sleep(time.Minute)
		if more := len(f.asked()) - asked; more != 0 || len(r.poller.waiting) != 0 {
			t.Errorf("nobody waits, and it was asked %d times", more)
		}
		f.set(scope, succeeded(0))
		if got, err := r.follow(t.Context(), askFor(0), defaultWait, nil); err != nil || got.State != toolcall.StateSucceeded {
			t.Errorf("the next one: %+v, %v", got, err)
		}
	})
}

// TestFollow_S03_LeavingAndComing: a loop that ends beside one that begins tells nobody its own end.
func TestFollow_S03_LeavingAndComing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.set(scope, running(0))
		f.gate = func(int) { time.Sleep(50 * time.Millisecond) }
		r := readerOf(least, f)
		var all sync.WaitGroup
		for i := range 40 {
			all.Go(func() {
				time.Sleep(time.Duration(i) * 37 * time.Millisecond)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if s, err := r.follow(ctx, askFor(0), 120*time.Millisecond, nil); err != nil || s.State != toolcall.StateRunning {
					t.Errorf("%d: %+v, %v", i, s, err)
				}
			})
		}
		all.Wait()
		time.Sleep(time.Second) // the last look ends by itself here
	})
}

// TestFollow_S03_EndOfAnEarlierLoopIsNotTold: it was asked under a context that has ended, and somebody else waits by now.
func TestFollow_S03_EndOfAnEarlierLoopIsNotTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.set(scope, running(0))
		r := readerOf(time.Second, f)
		first := startWaiting(t.Context(), r, 1, time.Second+20*time.Millisecond)
		f.change(func() { f.gate = func(int) { time.Sleep(50 * time.Millisecond) } })
		first.are(t, toolcall.StateRunning) // while its loop looks
		f.change(func() { f.gate = nil })
		startWaiting(t.Context(), r, 1, 40*time.Millisecond).are(t, toolcall.StateRunning)
	})
}

// TestFollow_S03_ChangesInThisProcessAreSeenAtOnce, however rarely it looks for others.
func TestFollow_S03_ChangesInThisProcessAreSeenAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, other := newFake(), newFake()
		f.set(scope, running(0))
		r := readerOf(time.Minute, other, f)
		w := startWaiting(t.Context(), r, 1, defaultWait)
		time.Sleep(time.Second)
		begun := time.Now()
		f.set(scope, succeeded(0))
		f.Notify()
		w.are(t, toolcall.StateSucceeded)
		if took := time.Since(begun); took != 0 {
			t.Errorf("after %v", took)
		}
	})
}

// late changes behind its first answer, before anybody waits.
type late struct {
	*fake
	once sync.Once
}

func (l *late) Statuses(ctx context.Context, asks []toolcall.Ask) ([]toolcall.Status, error) {
	statuses, err := l.fake.Statuses(ctx, asks)
	l.once.Do(func() {
		l.set(scope, succeeded(0))
		l.Notify()
	})
	return statuses, err
}

func TestFollow_S03_ChangeBehindTheFirstLookIsNotMissed(t *testing.T) {
	t.Parallel()
	for _, others := range []int{0, 1} { // whose loop runs already
		synctest.Test(t, func(t *testing.T) {
			l := &late{fake: newFake()}
			l.set(scope, running(0))
			l.set(scope, running(1))
			r := readerOf(time.Minute, l)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var all sync.WaitGroup
			if others > 0 {
				r.poller.sources = sources{l.fake}
				all.Go(func() { _, _ = r.follow(ctx, askFor(1), defaultWait, nil) })
				l.once.Do(func() {})
				synctest.Wait()
				time.Sleep(time.Second)
				l.once = sync.Once{}
			}
			begun := time.Now()
			if s, err := r.follow(ctx, askFor(0), defaultWait, nil); err != nil || s.State != toolcall.StateSucceeded || time.Since(begun) > least {
				t.Errorf("beside %d: %+v, %v, after %v", others, s, err, time.Since(begun))
			}
			cancel()
			all.Wait()
		})
	}
}

// TestFollow_S03_LooksAreSpared: neither many changes nor a slow database make it look all the time.
func TestFollow_S03_LooksAreSpared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.set(scope, running(0))
		ctx, cancel := context.WithCancel(t.Context())
		w := startWaiting(ctx, readerOf(time.Minute, f), 1, defaultWait)
		for range 1000 {
			time.Sleep(time.Millisecond)
			f.Notify()
		}
		if n := len(f.asked()); n > 2+int(time.Second/least) || n < 20 {
			t.Errorf("%d looks in a second of changes", n)
		}
		cancel()
		w.Wait()
	})
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.set(scope, running(0))
		f.gate = func(int) { time.Sleep(time.Second) }
		w := startWaiting(t.Context(), readerOf(defaultPoll, f), 1, defaultWait)
		w.are(t, toolcall.StateRunning)
		if n := len(f.asked()); n > 1+25/(1+share)+1 {
			t.Errorf("%d looks of a second in 25 seconds", n)
		}
	})
}

// TestFollow_S03_OneRecordThatCannotBeRead fails for whoever asks for it, and for nobody else.
func TestFollow_S03_OneRecordThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for _, bad := range []int{0, 1, 500, 999} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			for i := range 1000 {
				f.set(scope, running(i))
			}
			ctx, cancel := context.WithCancel(t.Context())
			w := startWaiting(ctx, readerOf(time.Second, f), 1000, 5*time.Second)
			first := len(f.asked())
			f.change(func() { f.bad[manyID(bad)] = true })
			begun := time.Now()
			w.Wait()
			for i, got := range w.got {
				if (i == bad) != (got.err != nil) {
					t.Fatalf("%d is bad, and %d is %+v", bad, i, got)
				}
			}
			if n := len(f.asked()) - first; n > 30 || time.Since(begun) > 5*time.Second {
				t.Errorf("%d questions to find it", n)
			}
			cancel()
		})
	}
}

// TestFollow_S03_DatabaseThatIsAwayForAWhile does not end the wait, and is not asked all the time.
func TestFollow_S03_DatabaseThatIsAwayForAWhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		for i := range 1000 {
			f.set(scope, running(i))
		}
		w := startWaiting(t.Context(), readerOf(defaultPoll, f), 1000, defaultWait)
		first := len(f.asked())
		f.change(func() { f.down = true })
		time.Sleep(10 * time.Second)
		if n := len(f.asked()) - first; n > 200 {
			t.Errorf("%d questions in 10 seconds without a database", n)
		}
		for i := range 1000 {
			f.set(scope, succeeded(i))
		}
		f.change(func() { f.down = false })
		w.are(t, toolcall.StateSucceeded)
	})
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.set(scope, running(0))
		w := startWaiting(t.Context(), readerOf(defaultPoll, f), 1, 5*time.Second)
		f.change(func() { f.down = true })
		w.Wait()
		if w.got[0].err == nil {
			t.Errorf("it is not known, and said to be %+v", w.got[0].status)
		}
	})
}
