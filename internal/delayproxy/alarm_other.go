//go:build !linux

package delayproxy

import (
	"sync"
	"time"
)

// alarm sleeps as exactly as the runtime does.
type alarm struct {
	stopped chan struct{}
	once    sync.Once
}

func newAlarm() (*alarm, error) { return &alarm{stopped: make(chan struct{})}, nil }

// sleep returns nil after d, or an error when the alarm was stopped.
func (a *alarm) sleep(d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-a.stopped:
		return errCut
	}
}

func (a *alarm) stop() { a.once.Do(func() { close(a.stopped) }) }
