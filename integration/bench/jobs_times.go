package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// Between two jobs of which the times are measured there is a pause: River tells workers of a submission no more often
// than it fetches.
const (
	leastPause = 2 * fetchCooldown
	morePause  = 4 * fetchCooldown
)

// jobTimes are of one job, or medians of many.
type jobTimes struct {
	submit time.Duration // from BEGIN of the submission to the answer of its COMMIT
	pickup time.Duration // from there to the beginning of the work
	work   time.Duration // from there to the end of the work, whose COMMIT has been answered
	done   time.Duration // all of it
}

// measureTimes has the sides take turns with one job at a time.
func (j *jobsBench) measureTimes(ctx context.Context, round int) error {
	length := min(j.options.time, jobsSlice)
	for pass := range int(j.options.time / length) {
		for turn := range j.sides {
			side := (turn + pass + round) % len(j.sides)
			if err := j.sampleTimes(ctx, jobsCell{side, mostWorkers}, length); err != nil {
				return fmt.Errorf("%s, one job at a time: %w", j.sides[side].name, err)
			}
		}
	}
	return nil
}

func (j *jobsBench) sampleTimes(ctx context.Context, c jobsCell, length time.Duration) error {
	var all []jobTimes
	for began := time.Now(); len(all) == 0 || time.Since(began) < length; {
		time.Sleep(leastPause + rand.N(morePause))
		t, err := j.one(ctx, c)
		if err != nil {
			return err
		}
		all = append(all, t)
	}
	j.times[c.side] = append(j.times[c.side], mediansOf(all))
	if err := j.settle(ctx, j.sides[c.side], len(all)); err != nil {
		return err
	}
	return j.empty(ctx)
}

// one submits a job and waits for its end.
func (j *jobsBench) one(ctx context.Context, c jobsCell) (jobTimes, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, hangs, errHangs)
	defer cancel()
	var end time.Time
	over := make(chan error, 1)
	t := j.sides[c.side].board.issue(func(err error) {
		end = time.Now()
		over <- err
	})
	submitting := time.Now()
	if err := j.submit(ctx, c, t); err != nil {
		return jobTimes{}, err
	}
	committed := time.Now()
	select {
	case err := <-over:
		return jobTimes{committed.Sub(submitting), t.begins.Sub(committed), end.Sub(t.begins), end.Sub(submitting)}, err
	case <-ctx.Done():
		return jobTimes{}, errors.Join(context.Cause(ctx), fmt.Errorf("job %d", t.number))
	}
}

func mediansOf(all []jobTimes) jobTimes {
	of := func(time func(jobTimes) time.Duration) time.Duration { return medianOf(all, time) }
	return jobTimes{submit: of(submitTime), pickup: of(pickupTime), work: of(workTime), done: of(doneTime)}
}

func submitTime(t jobTimes) time.Duration { return t.submit }
func pickupTime(t jobTimes) time.Duration { return t.pickup }
func workTime(t jobTimes) time.Duration   { return t.work }
func doneTime(t jobTimes) time.Duration   { return t.done }

func medianOf[T any](all []T, number func(T) time.Duration) time.Duration {
	numbers := make([]time.Duration, len(all))
	for i, one := range all {
		numbers[i] = number(one)
	}
	return median(numbers)
}
