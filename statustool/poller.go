package statustool

import (
	"bytes"
	"context"
	"sync"
	"time"

	"github.com/txonce/txonce/toolcall"
)

const (
	// least is the shortest time between two looks, however much changes.
	least = 20 * time.Millisecond
	// share is how many times longer than a look the rest behind it is.
	share = 4
	// longestPoll is the rest behind many looks that failed.
	longestPoll = 2 * time.Second
)

// poller looks for all who wait, in one question to each source. It runs while somebody waits.
type poller struct {
	sources sources
	every   time.Duration

	mu      sync.Mutex
	waiting map[*waiter]struct{}
	stop    context.CancelFunc // ends the loop; nil while there is none
	kicked  chan struct{}      // holds one
}

// waiter hears each finding about one question; the latest takes the place of one that was not heard.
type waiter struct {
	ask  toolcall.Ask
	last finding
	news chan finding // holds one
}

func newPoller(s sources, every time.Duration) *poller {
	return &poller{sources: s, every: every, waiting: make(map[*waiter]struct{}), kicked: make(chan struct{}, 1)}
}

// join begins to wait, until leave. known is what the caller has found out, and before are the channels of the sources from
// before that: what has changed since is looked for at once.
func (p *poller) join(ask toolcall.Ask, known finding, before []<-chan struct{}) *waiter {
	w := &waiter{ask: ask, last: known, news: make(chan finding, 1)}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting[w] = struct{}{}
	if p.stop == nil {
		var ctx context.Context
		ctx, p.stop = context.WithCancel(context.Background())
		p.listen(ctx)
		go p.run(ctx)
	}
	if anyClosed(before) {
		p.kick()
	}
	return w
}

func (p *poller) leave(w *waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.waiting, w)
	if len(p.waiting) == 0 {
		p.stop()
		p.stop = nil
	}
}

// kick has the loop look again as soon as it may.
func (p *poller) kick() {
	select {
	case p.kicked <- struct{}{}:
	default:
	}
}

// listen kicks at each change. The next change is listened for before the kick, so that none falls in between.
func (p *poller) listen(ctx context.Context) {
	for i, changed := range p.sources.changed() {
		go func() {
			for {
				select {
				case <-changed:
				case <-ctx.Done():
					return
				}
				changed = p.sources[i].Changed()
				p.kick()
			}
		}()
	}
}

// run looks, and rests for a while that grows with what a look costs. The time that a look takes is part of every: whoever ends
// just behind the beginning of one look is seen by the next.
func (p *poller) run(ctx context.Context) {
	every, longer, took := p.every, p.every, time.Duration(0)
	for quiet := least; p.rest(ctx, quiet, max(every-took, quiet)); {
		begun := time.Now()
		failed := p.look(ctx)
		took = time.Since(begun)
		every, quiet = p.every, max(least, share*took)
		if failed { // how long it took says how long the database hung
			longer = min(2*longer, max(longestPoll, p.every))
			every, quiet = longer, min(quiet, longestPoll)
		} else {
			longer = p.every
		}
	}
}

// rest lasts as long as every, or until there is a change, but not less than quiet. It reports whether anybody waits still.
func (p *poller) rest(ctx context.Context, quiet, every time.Duration) bool {
	timer := time.NewTimer(quiet)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return false
	}
	timer.Reset(every - quiet)
	select {
	case <-timer.C:
	case <-p.kicked:
	case <-ctx.Done():
		return false
	}
	return true
}

// look asks for all who wait and tells them what is new. It reports whether nothing could be found out.
func (p *poller) look(ctx context.Context) (failed bool) {
	asks, asking := p.asks()
	limited, cancel := context.WithTimeout(ctx, longestLook)
	defer cancel()
	byAsk := make(map[toolcall.Ask]finding, len(asks))
	failed = true
	for i, f := range p.sources.ask(limited, asks) {
		byAsk[asks[i]] = f
		failed = failed && f.err != nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if ctx.Err() != nil { // whoever waits now has a loop of their own
		return failed
	}
	for _, w := range asking { // whoever came meanwhile knows more than this look does
		if _, waits := p.waiting[w]; waits && !same(byAsk[w.ask], w.last) {
			w.tell(byAsk[w.ask])
		}
	}
	return failed
}

// asks are the questions of all who wait, each one once, and who they are.
func (p *poller) asks() (asks []toolcall.Ask, asking []*waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	seen := make(map[toolcall.Ask]struct{}, len(p.waiting))
	for w := range p.waiting {
		asking = append(asking, w)
		if _, twice := seen[w.ask]; !twice {
			seen[w.ask] = struct{}{}
			asks = append(asks, w.ask)
		}
	}
	return asks, asking
}

// tell is called by one goroutine at a time.
func (w *waiter) tell(f finding) {
	select {
	case <-w.news:
	default:
	}
	w.news <- f
	w.last = f
}

// same reports whether there is nothing new in a finding: neither the state, nor an attempt, nor what it reports. Package reflect
// took milliseconds for a thousand of them.
func same(a, b finding) bool {
	x, y := &a.status, &b.status
	return (a.err == nil) == (b.err == nil) && a.alone == b.alone &&
		x.ID == y.ID && x.Tool == y.Tool && x.State == y.State && x.FinishedAt.Equal(y.FinishedAt) &&
		bytes.Equal(x.Answer, y.Answer) && equal(x.Failure, y.Failure) && sameJob(x.Job, y.Job)
}

func sameJob(a, b *toolcall.JobStatus) bool {
	if a == nil || b == nil {
		return a == b
	}
	x, y := *a, *b
	x.Progress, y.Progress = nil, nil
	return x == y && equal(a.Progress, b.Progress)
}

func equal[T comparable](a, b *T) bool {
	return a == b || a != nil && b != nil && *a == *b
}
