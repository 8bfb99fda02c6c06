package main

import (
	"context"
	"math/rand/v2"
	"sync"
	"syscall"
	"time"

	"github.com/txonce/txonce/integration/internal/lives"
)

// How often something is killed, stopped, or told to leave, about. In a short run it is more often: each comes about leastTimes then.
const (
	killServers = 5 * time.Second
	killWorkers = 6 * time.Second
	killRelays  = 7 * time.Second
	killDB      = 8 * time.Second
	stopAny     = 6 * time.Second
	leaveAny    = 10 * time.Second
	leastTimes  = 2
)

// longestStop is how long a process is stopped, at most: for longer than a claim, a lease of a job, or an attempt lasts.
const longestStop = 6 * time.Second

// longestDown is how long the database stays away, at most, before it is started again.
const longestDown = time.Second

// victims are the processes that are there.
type victims struct {
	mu  sync.Mutex
	all map[*victim]bool
}

// victim is a process that may be killed or stopped.
type victim struct {
	role role
	p    *lives.Process

	// Guarded by victims.mu.
	killed, stopped bool
	told            time.Duration // to leave, since the run began; 0 if it was not
}

func newVictims() *victims { return &victims{all: make(map[*victim]bool)} }

func (vs *victims) enlist(r role, p *lives.Process) *victim {
	vs.mu.Lock()
	defer vs.mu.Unlock()
	v := &victim{role: r, p: p}
	vs.all[v] = true
	return v
}

// discharge reports whether the process was killed by us, and when it was told to leave, if it was.
func (vs *victims) discharge(v *victim) (killed bool, told time.Duration) {
	vs.mu.Lock()
	defer vs.mu.Unlock()
	delete(vs.all, v)
	return v.killed, v.told
}

// kill kills a process of the role, if there is one. It may be one that is stopped.
func (vs *victims) kill(rng *rand.Rand, r role) {
	vs.mu.Lock()
	defer vs.mu.Unlock()
	if v := vs.draw(rng, func(v *victim) bool { return v.role == r && !v.killed }); v != nil {
		v.killed = true
		v.p.Signal(syscall.SIGKILL)
	}
}

// leave tells a process of the role to stop in good order, if there is one that runs.
func (vs *victims) leave(rng *rand.Rand, r role, now time.Duration) {
	vs.mu.Lock()
	defer vs.mu.Unlock()
	if v := vs.draw(rng, func(v *victim) bool { return v.role == r && !v.killed && !v.stopped && v.told == 0 }); v != nil {
		v.told = now
		v.p.Say(leave)
	}
}

// stop stops a process of the role, if there is one that runs, and returns it.
func (vs *victims) stop(rng *rand.Rand, r role) *victim {
	vs.mu.Lock()
	defer vs.mu.Unlock()
	v := vs.draw(rng, func(v *victim) bool { return v.role == r && !v.killed && !v.stopped && v.told == 0 })
	if v != nil {
		v.stopped = true
		v.p.Signal(syscall.SIGSTOP)
	}
	return v
}

// goOn lets a process go on, and reports whether it still lives.
func (vs *victims) goOn(v *victim) bool {
	vs.mu.Lock()
	defer vs.mu.Unlock()
	v.stopped = false
	v.p.Signal(syscall.SIGCONT)
	return vs.all[v] && !v.killed
}

// draw draws one of those that suit.
func (vs *victims) draw(rng *rand.Rand, suits func(*victim) bool) *victim {
	var all []*victim
	for v := range vs.all {
		if suits(v) {
			all = append(all, v)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all[rng.IntN(len(all))]
}

// mayhem kills, stops and sends away until storming ends, which it ends itself where the database does not come back. The database is up then,
// and nobody is stopped.
func (s *storm) mayhem(ctx, storming context.Context, end func()) (err error) {
	var all sync.WaitGroup
	often := func(n uint64, every time.Duration, wanted func() bool, do func(*rand.Rand)) {
		every = min(every, s.o.time/leastTimes)
		rng := rand.New(rand.NewPCG(s.o.seed, 1000+n))
		all.Go(func() {
			for lives.Pause(storming, every/2+time.Duration(rng.Int64N(int64(every)))) == nil {
				if wanted() {
					do(rng)
				}
			}
		})
	}
	more := func(r role) func() bool { return func() bool { return s.wants(s.killed(r)) } }
	often(0, killServers, more(server), func(rng *rand.Rand) { s.victims.kill(rng, server) })
	often(1, killWorkers, more(worker), func(rng *rand.Rand) { s.victims.kill(rng, worker) })
	often(2, killRelays, more(relay), func(rng *rand.Rand) { s.victims.kill(rng, relay) })
	always := func() bool { return true }
	often(3, stopAny, always, s.inTurn(stops, func(rng *rand.Rand, r role) { s.stopOne(storming, rng, r) }))
	often(5, leaveAny, always, s.inTurn(leaves, func(rng *rand.Rand, r role) { s.victims.leave(rng, r, s.history.now()) }))
	often(4, killDB, func() bool { return more(database)() && s.isBack() }, func(rng *rand.Rand) {
		if failure := s.killDatabase(ctx, rng); failure != nil {
			err = failure
			end()
		}
	})
	all.Wait()
	return err
}

// inTurn does something to a process of each role in turn, and when the time is over only where it has not happened yet.
func (s *storm) inTurn(of func(*events) map[role]int, do func(*rand.Rand, role)) func(*rand.Rand) {
	turn := 0
	return func(rng *rand.Rand) {
		r := inOrder()[turn%len(inOrder())]
		turn++
		if !s.extended.Load() || !s.happened(of, r) {
			do(rng, r)
		}
	}
}

// stopOne stops a process for a while, as a machine does that is paused.
func (s *storm) stopOne(storming context.Context, rng *rand.Rand, r role) {
	v := s.victims.stop(rng, r)
	if v == nil {
		return
	}
	_ = lives.Pause(storming, time.Second/2+time.Duration(rng.Int64N(int64(longestStop))))
	if s.victims.goOn(v) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.events.stops[v.role]++
	}
}

// isBack reports whether a call was answered since the database was started. To kill it sooner would try the same thing once more: on a slow
// machine nothing would ever be done.
func (s *storm) isBack() bool {
	s.mu.Lock()
	back := s.events.back
	s.mu.Unlock()
	return s.history.told(back)
}

// killDatabase kills the database and starts it again.
func (s *storm) killDatabase(ctx context.Context, rng *rand.Rand) error {
	s.mu.Lock()
	s.away = true
	s.mu.Unlock()
	if err := s.postgres.Kill(ctx); err != nil {
		return err
	}
	at := s.history.now()
	if err := lives.Pause(ctx, time.Duration(rng.Int64N(int64(longestDown)))); err != nil {
		return err
	}
	if err := s.postgres.Start(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	s.events.db = append(s.events.db, at) // it may end the run, which must not end without a database
	s.events.back = s.history.now()
	s.away = false
	s.mu.Unlock()
	s.count()
	return nil
}
