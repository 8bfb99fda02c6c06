package lives

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// Keeper runs processes beside each other, and tells them what all of a group are told.
type Keeper struct {
	env   string
	alive *os.File

	mu       sync.Mutex
	running  map[*Process]string // and its group
	told     []telling
	lastKill time.Time
}

type telling struct{ group, line string }

// NewKeeper makes a keeper of processes that know by env what they are and hold alive open.
func NewKeeper(env string, alive *os.File) *Keeper {
	return &Keeper{env: env, alive: alive, running: make(map[*Process]string), lastKill: time.Now()}
}

// Live runs a process of a group to its end, of whatever kind. watch is called with it at once, in another goroutine, and must
// return when the marks end. It returns an error only if there was no process to run, if ctx ended, or if the process lived for
// longer than longest.
func (k *Keeper) Live(ctx context.Context, group string, assignment any, longest time.Duration, watch func(context.Context, *Process)) (End, error) {
	limited, cancel := context.WithTimeoutCause(ctx, longest, fmt.Errorf("a %s lived longer than %v", group, longest))
	defer cancel()
	p, err := Start(limited, k.env, assignment, k.alive)
	if err != nil {
		return End{}, err
	}
	defer p.Close()
	k.enlist(p, group)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		watch(limited, p)
	}()
	end := p.Wait()
	<-watched
	k.discharge(p, end)
	if limited.Err() != nil {
		return end, context.Cause(limited)
	}
	return end, nil
}

// enlist takes note of a process that is there, and tells it what its group has been told.
func (k *Keeper) enlist(p *Process, group string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.running[p] = group
	for _, t := range k.told {
		if t.group == group {
			p.Say(t.line)
		}
	}
}

func (k *Keeper) discharge(p *Process, end End) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.running, p)
	if end.Killed() {
		k.lastKill = end.At
	}
}

// Tell says a line to all processes of the group, those that are still to come among them.
func (k *Keeper) Tell(group, line string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.told = append(k.told, telling{group, line})
	for p, g := range k.running {
		if g == group {
			p.Say(line)
		}
	}
}

// Told reports whether the group has been told the line.
func (k *Keeper) Told(group, line string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, t := range k.told {
		if t == (telling{group, line}) {
			return true
		}
	}
	return false
}

// SinceKill is how long ago the last process was killed, or the keeper was made.
func (k *Keeper) SinceKill() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	return time.Since(k.lastKill)
}

// Watch reads the marks of a process until it is gone, calls hold for each that asks to be stopped, and returns the last one,
// which it left as it died.
func Watch[M any](p *Process, stopped func(M) bool, hold func(M)) (*M, error) {
	marks := json.NewDecoder(p.Marks())
	for {
		var m M
		switch err := marks.Decode(&m); {
		case errors.Is(err, io.EOF):
			return nil, nil
		case err != nil:
			return nil, err
		case !stopped(m):
			_, err := io.Copy(io.Discard, p.Marks())
			return &m, err
		}
		hold(m)
	}
}
