package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/txonce/txonce/integration/internal/lives"
)

// lanes is how many workers run at a time.
const lanes = 3

// The longest lives. A worker that lives longer hangs.
const (
	longestLife = 2 * time.Minute
	longestLast = 10 * time.Minute
)

// told is an answer and who gave it.
type told struct {
	answer
	Life int
}

// history is what happened, as the parent knows it.
type history struct {
	intents  []intent
	told     []told
	deaths   []mark
	torn     int // answers of which only a part was told
	lives    int
	problems []string
}

// torturer runs the workers and remembers what they said.
type torturer struct {
	schedule *schedule
	alive    *os.File
	progress *lives.Progress

	mu      sync.Mutex
	history history
}

// torture kills workers until there are deaths enough, lets one finish the work, and looks at the database, which must
// be fresh.
func torture(ctx context.Context, o options, p lives.Place, stderr io.Writer) (r *report, err error) {
	pool, err := prepare(ctx, p)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	begin := time.Now()
	t := &torturer{schedule: newSchedule(o, p), progress: lives.NewProgress(stderr, "crash", o.kills)}
	left, err := lives.Outlived(ctx, pool, applicationName, func(alive *os.File) error {
		t.alive = alive
		err := t.kill(ctx)
		t.progress.End()
		if err == nil {
			err = t.finish(ctx)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if left != "" {
		t.history.problems = append(t.history.problems, left)
	}
	b, err := readBooks(ctx, pool)
	if err != nil {
		return nil, err
	}
	return newReport(o, t.history, b, time.Since(begin)), nil
}

// kill runs workers beside each other until there are deaths enough.
func (t *torturer) kill(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for range lanes {
		wg.Go(func() {
			for a, ok := t.schedule.next(); ok; a, ok = t.schedule.next() {
				if err := t.live(ctx, a, longestLife); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// finish lets one worker make every call once more. Nobody kills it.
func (t *torturer) finish(ctx context.Context) error {
	err := t.live(ctx, t.schedule.last(), longestLast)
	t.history.intents, t.history.lives = t.schedule.intents, t.schedule.lives
	return err
}

func (t *torturer) live(ctx context.Context, a assignment, longest time.Duration) error {
	hung := fmt.Errorf("worker %d lived longer than %v", a.Life, longest)
	limited, cancel := context.WithTimeoutCause(ctx, longest, hung)
	defer cancel()
	l, err := live(limited, a, t.alive)
	if err != nil {
		return err
	}
	if a.Death != nil {
		t.progress.At(t.schedule.settle(a, l))
	}
	t.note(a, l)
	return nil
}

func (t *torturer) note(a assignment, l life) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := &t.history
	for _, said := range l.told {
		h.told = append(h.told, told{answer: said, Life: a.Life})
	}
	if d, ok := l.death(); ok {
		h.deaths = append(h.deaths, d)
	}
	if l.torn {
		h.torn++
	}
	if l.problem != "" {
		h.problems = append(h.problems, fmt.Sprintf("life %d: %s", a.Life, l.problem))
	}
}
