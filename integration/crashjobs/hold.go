package main

import (
	"context"
	"syscall"
	"time"

	"github.com/txonce/txonce/integration/internal/lives"
)

// How long a worker stands still that has the job's row in a transaction: long enough for others to take the job over and to
// commit it, were it not for that, and longer than Postgres lets it keep the row.
const (
	shortHold = 5 * lease / 2
	longHold  = commitTimeout + lease/2
)

// hold stops a process, as a machine does that is paused, until what has its job by then is another, or, where it has the job's row
// in a transaction, for longer than a lease or for longer than Postgres lets it keep that.
func (t *torturer) hold(ctx context.Context, p *lives.Process, m mark) {
	begin := time.Now()
	p.Signal(syscall.SIGSTOP)
	defer p.Signal(syscall.SIGCONT)
	defer p.Say(goOn) // it is in the pipe when the process runs on
	if !m.proven() {
		t.complain("a worker was not where it was to be stopped: %+v", m)
	}
	if m.Point == stopEffect {
		wait := shortHold
		if t.odd() {
			wait = longHold
		}
		if lives.Pause(ctx, wait) == nil {
			t.returns(stale{mark: m})
		}
		return
	}
	lost, err := t.lost(ctx, m)
	if err != nil {
		return // the run is over
	}
	if !lost {
		t.complain("a worker was stopped for %v at %s of job %s and nobody took the job over", lives.Patience, m.Point, m.Job)
	}
	t.returns(stale{mark: m, late: lost, after: time.Since(begin)})
}

// odd reports whether the number of workers that came back is.
func (t *torturer) odd() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.history.stale)%2 == 1
}

func (t *torturer) returns(s stale) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.history.stale = append(t.history.stale, s)
}

// lost waits until an attempt has lost its job.
func (t *torturer) lost(ctx context.Context, m mark) (bool, error) {
	for end := time.Now().Add(lives.Patience); time.Now().Before(end); {
		over, err := lostJob(ctx, t.pool, m.Job, m.Number)
		if err != nil || over {
			return over, err
		}
		if err := lives.Pause(ctx, lives.LookAgain); err != nil {
			return false, err
		}
	}
	return false, nil
}
