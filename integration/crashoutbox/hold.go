package main

import (
	"context"
	"syscall"
	"time"

	"github.com/txonce/txonce/integration/internal/lives"
)

// hold stops a relay, as a machine does that is paused, until the message that it was delivering has ended or has another attempt.
func (t *torturer) hold(ctx context.Context, p *lives.Process, m mark) {
	begin := time.Now()
	p.Signal(syscall.SIGSTOP)
	defer p.Signal(syscall.SIGCONT)
	defer p.Say(goOn) // it is in the pipe when the process runs on
	if !m.proven() {
		t.complain("a relay was not where it was to be stopped: %+v", m)
	}
	late, err := t.taken(ctx, m)
	if err != nil {
		return // the run is over
	}
	if !late {
		t.complain("a relay was stopped for %v at %s with message %s, and no other took that over", lives.Patience, m.Point, m.Message)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.history.stopped = append(t.history.stopped, time.Since(begin))
}

// taken waits until another attempt has the message, or it has ended.
func (t *torturer) taken(ctx context.Context, m mark) (bool, error) {
	for end := time.Now().Add(lives.Patience); time.Now().Before(end); {
		is, err := taken(ctx, t.pool, m.Message, m.Number)
		if err != nil || is {
			return is, err
		}
		if err := lives.Pause(ctx, lives.LookAgain); err != nil {
			return false, err
		}
	}
	return false, nil
}
