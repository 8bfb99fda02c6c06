package main

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/txonce/txonce/integration/internal/lives"
)

// schedule decides who publishes what, and who dies where. It spreads the deaths evenly over the steps, and hands out an intent
// until a server has told its answer.
type schedule struct {
	o        options
	place    lives.Place
	receiver string

	mu      sync.Mutex
	rng     *rand.Rand
	intents []intent
	told    map[int]bool  // intents whose answer was told
	out     map[int]int   // how many servers make calls of an intent now
	deaths  map[step]int  // that happened
	planned map[step]int  // of processes that are on their way
	drawn   map[step]int  // points drawn so far
	stops   map[point]int // drawn so far
	stopped bool          // a relay that is to be stopped is on its way
	relays  int           // that there were
	lives   int
	over    chan struct{} // closed when there are deaths enough
}

const (
	// perLife is how many new intents a server is given.
	perLife = 12
	// repeats is how many old ones it is given as well.
	repeats = 2
	// latest is the last visit to a point at which the death may become due.
	latest = 4
	// longestAwake is how long a relay may live before its death may become due: it dies under load, at any time.
	longestAwake = 6 * time.Second
	// longestDelay is how long a process may live after it has come to the point.
	longestDelay = 2 * time.Millisecond
	// stopEvery is every how many relays one is stopped first, if no other is.
	stopEvery = 4
)

func newSchedule(o options, p lives.Place, receiver string) *schedule {
	return &schedule{
		o: o, place: p, receiver: receiver, rng: rand.New(rand.NewPCG(o.seed, 0)), over: make(chan struct{}),
		told: make(map[int]bool), out: make(map[int]int), deaths: make(map[step]int), planned: make(map[step]int),
		drawn: make(map[step]int), stops: make(map[point]int),
	}
}

// relay returns the life of another relay. It is not to die where there are deaths enough.
func (s *schedule) relay() assignment {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.assignment(relay)
	if s.wanted(relay) {
		a.Death = s.plan(relay)
		a.Death.Awake = time.Duration(s.rng.Int64N(int64(longestAwake)))
		if s.relays%stopEvery == stopEvery/2 {
			a.Stop = s.planStop()
		}
	}
	s.relays++
	return a
}

// server returns the life of another server, or false when it has nothing to do. more is whether new intents are wanted.
func (s *schedule) server(more bool) (assignment, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var calls []int
	for n := range s.intents {
		if !s.told[n] && s.out[n] == 0 {
			calls = append(calls, n)
		}
	}
	for more && !s.enough() && len(calls) < perLife {
		n := len(s.intents)
		s.intents = append(s.intents, newIntent(n, s.rng))
		calls = append(calls, n)
	}
	if len(calls) == 0 {
		return assignment{}, false
	}
	for range repeats { // told or not, and perhaps by another server at the same time
		if n := s.rng.IntN(len(s.intents)); s.intents[n].Way != plainTx && !slices.Contains(calls, n) {
			calls = append(calls, n)
		}
	}
	a := s.assignment(server)
	for _, n := range calls {
		s.out[n]++
		a.Calls = append(a.Calls, s.intents[n])
	}
	if s.wanted(server) {
		a.Death = s.plan(server)
	}
	return a, true
}

// last returns the life of a server that is not killed and makes every call once more.
func (s *schedule) last() assignment {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.assignment(server)
	for _, i := range s.intents {
		if i.Way != plainTx {
			a.Calls = append(a.Calls, i)
			s.out[i.N]++
		}
	}
	return a
}

func (s *schedule) assignment(r role) assignment {
	s.lives++
	return assignment{Life: s.lives, Role: r, Place: s.place, Receiver: s.receiver, Plant: s.o.plant}
}

// wanted reports whether another process of the role is to die. Servers die in proportion: they live shorter.
func (s *schedule) wanted(r role) bool {
	have := func(r role) (n int) {
		for _, st := range stepsOf(r) {
			n += s.deaths[st] + s.planned[st]
		}
		return n
	}
	if r == server && have(server)*s.o.share(relay) > (have(relay)+1)*s.o.share(server) {
		return false
	}
	return have(r) < s.o.share(r)
}

// plan draws a death at the step that has the fewest, at its points in turn.
func (s *schedule) plan(r role) *death {
	least := slices.MinFunc(stepsOf(r), func(a, b step) int { return cmp.Compare(s.share(a), s.share(b)) })
	at := slices.DeleteFunc(points(least), func(p point) bool { return !s.o.plant.reaches(p) })
	d := &death{
		Point: at[s.drawn[least]%len(at)], After: s.rng.IntN(latest + 1), Part: s.rng.Float64(), Delay: time.Duration(s.rng.Int64N(int64(longestDelay))),
	}
	s.drawn[least]++
	s.planned[least]++
	return d
}

// share is how many deaths a step has, or far too many where a planted mistake keeps relays from it.
func (s *schedule) share(st step) int {
	if !slices.ContainsFunc(points(st), s.o.plant.reaches) {
		return s.o.kills
	}
	return s.deaths[st] + s.planned[st]
}

// planStop draws a place to be stopped at, unless another relay is to be stopped: others must take over.
func (s *schedule) planStop() *stop {
	if s.stopped || !s.o.plant.stops() {
		return nil
	}
	s.stopped = true
	least := slices.MinFunc(stopPoints(), func(a, b point) int { return cmp.Compare(s.stops[a], s.stops[b]) })
	s.stops[least]++
	return &stop{Point: least, After: s.rng.IntN(latest)}
}

// settle takes note of what became of a life and returns how many deaths there are.
func (s *schedule) settle(a assignment, l life) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.Death != nil {
		s.planned[stepOf(a.Death.Point)]--
	}
	if a.Stop != nil {
		s.stopped = false
	}
	for _, i := range a.Calls {
		s.out[i.N]--
	}
	for _, said := range l.told {
		s.told[said.Intent] = s.told[said.Intent] || said.Run != "" || said.Failed
	}
	if d, ok := l.death(); ok {
		s.deaths[d.Step]++
	}
	if s.enough() {
		select {
		case <-s.over:
		default:
			close(s.over)
		}
	}
	return lives.Total(s.deaths)
}

// enough reports whether there are deaths enough, of each role.
func (s *schedule) enough() bool {
	for _, r := range []role{relay, server} {
		n := 0
		for _, st := range stepsOf(r) {
			n += s.deaths[st]
		}
		if n < s.o.share(r) {
			return false
		}
	}
	return true
}

// untold reports whether there is an intent whose answer nobody has told.
func (s *schedule) untold() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.intents, func(i intent) bool { return !s.told[i.N] })
}
