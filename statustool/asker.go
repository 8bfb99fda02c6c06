package statustool

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/txonce/txonce/toolcall"
)

const (
	// lanes is how many questions to the same sources may be under way at a time, and so how many connections they take.
	lanes = 2
	// longestLook bounds one of them.
	longestLook = 10 * time.Second
)

// asker answers questions that do not wait. Those that arrive while all lanes are busy travel together in the next one: no
// timer holds them back, and many readers cost few round trips and few connections.
type asker[T any] struct {
	look    func(ctx context.Context, asks []toolcall.Ask) []T // one answer for each, in order
	longest time.Duration                                      // bounds a look
	most    int                                                // bounds the questions of a look

	mu   sync.Mutex
	next []*question[T]
	busy int
}

type question[T any] struct {
	ask    toolcall.Ask
	left   <-chan struct{} // closed when nobody waits for the answer any more
	answer chan T          // holds one: nobody is waited for
}

// ask returns the context's error if that ends first. Others are asked under a context that is nobody's: the caller's values
// would be those of one among many.
func (a *asker[T]) ask(ctx context.Context, ask toolcall.Ask) (answer T, err error) {
	q := &question[T]{ask: ask, left: ctx.Done(), answer: make(chan T, 1)}
	a.mu.Lock()
	a.next = append(a.next, q)
	if a.busy < lanes {
		a.busy++
		go a.run()
	}
	a.mu.Unlock()
	select {
	case answer = <-q.answer:
		return answer, nil
	case <-ctx.Done():
		return answer, ctx.Err()
	}
}

// run is one lane. It ends when nobody has a question.
func (a *asker[T]) run() {
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
		ctx, cancel := context.WithTimeout(context.Background(), a.longest)
		for i, answer := range a.look(ctx, asks) {
			batch[i].answer <- answer
		}
		cancel()
	}
}

// take leaves out the questions of those who have left: behind a database that hangs there may be many.
func (a *asker[T]) take() (batch []*question[T]) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.next) > 0 && len(batch) < a.most {
		q := a.next[0]
		a.next = a.next[1:]
		select {
		case <-q.left:
		default:
			batch = append(batch, q)
		}
	}
	if batch == nil {
		a.next = nil
		a.busy--
	}
	return batch
}
