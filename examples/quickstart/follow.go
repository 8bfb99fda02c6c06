package main

import (
	"context"
	"time"
)

const (
	askPause   = 250 * time.Millisecond // between two questions for a job
	asks       = 25                     // questions before the agent moves on
	settleAsks = 300                    // the same, when at the end it wants to know
)

// follow asks for the job that the call was answered with until that has ended, at most n times. It is a read: an answer
// that is lost costs nothing but the time.
func (a *agent) follow(ctx context.Context, e *errand, n int) {
	if e.told != accepted {
		return
	}
	for try := 0; try < n && e.err == nil; try++ {
		for _, got := range a.attempt(ctx, e, e.intent.question(e.job), 1, patience) {
			if got.kind == done || got.kind == failed {
				e.jobEnded = got.kind
				return
			}
		}
		e.rest(ctx, askPause)
	}
}

// question asks for the job that the intent's call was answered with: another call, about the same thing.
func (in *intent) question(job string) *intent {
	q := *in
	q.tool, q.fields, q.way = toolStatus, []field{text("job_id", job)}, noKey
	return &q
}
