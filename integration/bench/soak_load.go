package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// mostUnderWay bounds the operations that are under way at a time. What comes then is not made, and is missing in the end: a
// database that is too slow is to be seen, not to fill the memory.
const mostUnderWay = 1000

// load begins operations at the asked rate, each at a random moment of its share of the time, whether or not others have ended.
// It returns when they have ended.
func (s *soak) load(ctx context.Context) {
	began := time.Now()
	share := time.Second / time.Duration(s.options.rate)
	until := began.Add(s.options.time)
	var running sync.WaitGroup
	defer running.Wait()
	for n := 0; ; n++ {
		at := began.Add(time.Duration(float64(share) * (float64(n) + rand.Float64())))
		if at.After(until) || time.Now().After(until) || !pause(ctx, time.Until(at)) {
			return
		}
		if s.books.underWay.Load() >= mostUnderWay {
			continue
		}
		s.books.underWay.Add(1)
		running.Go(func() {
			defer s.books.underWay.Add(-1)
			err := s.operate(ctx)
			s.books.end(time.Since(at), err) // from when it should have begun
		})
	}
}

// operate makes one operation, of a random kind.
func (s *soak) operate(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, hangs, errHangs)
	defer cancel()
	s.also()
	which := rand.IntN(100)
	for _, kind := range s.world.kinds() {
		if which -= kind.percent; which < 0 {
			if err := kind.do(ctx, someKey()); err != nil {
				return fmt.Errorf("%s: %w", kind.name, err)
			}
			return nil
		}
	}
	panic("the kinds are less than a hundred per cent")
}
