package statustool

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/txonce/txonce/toolcall"
)

const (
	// lanes is how many questions may be under way at a time, and so how many connections they take.
	lanes = 2
	// longestLook bounds one of them.
	longestLook = 10 * time.Second
)

// asker answers questions that do not wait. Those that arrive while all lanes are busy travel together in the next one: no
// timer holds them back, and many readers cost few round trips and few connections.
type asker struct {
	sources sources

	mu   sync.Mutex
	next []*question
	busy int
}

type question struct {
	ask    toolcall.Ask
	answer chan finding // holds one: nobody is waited for
}

// ask returns an error as the finding's, and the context's if it ends first. The sources are asked under a context that is
// nobody's: the caller's values would be those of one among many.
func (a *asker) ask(ctx context.Context, ask toolcall.Ask) finding {
	q := &question{ask: ask, answer: make(chan finding, 1)}
	a.mu.Lock()
	a.next = append(a.next, q)
	if a.busy < lanes {
		a.busy++
		go a.run()
	}
	a.mu.Unlock()
	select {
	case f := <-q.answer:
		return f
	case <-ctx.Done():
		return finding{err: ctx.Err()}
	}
}

// run is one lane. It ends when nobody has a question.
func (a *asker) run() {
	for {
		runtime.Gosched() // those who are about to ask come along: the answers of the last batch have woken some
		batch := a.take()
		if batch == nil {
			return
		}
		asks := make([]toolcall.Ask, len(batch))
		for i, q := range batch {
			asks[i] = q.ask
		}
		ctx, cancel := context.WithTimeout(context.Background(), longestLook)
		for i, f := range a.sources.ask(ctx, asks) {
			batch[i].answer <- f
		}
		cancel()
	}
}

func (a *asker) take() []*question {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.next) == 0 {
		a.busy--
		return nil
	}
	batch := a.next[:min(len(a.next), mostAsks)]
	a.next = a.next[len(batch):]
	return batch
}
