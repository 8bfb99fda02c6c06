package main

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/txonce/txonce/txidem"
)

// schedule decides who does what, and who dies where. It hands out intents until each was answered for good to two
// workers, and spreads the deaths evenly over the steps.
type schedule struct {
	o     options
	place place

	mu      sync.Mutex
	rng     *rand.Rand
	intents []intent
	open    []int       // numbers of the intents that are not done with
	final   map[int]int // answers that were told of an intent, of those that must not change
	broke   map[int]int // answers that told of a plain error
	deaths  map[step]int
	planned map[step]int // deaths of workers that are on their way
	drawn   map[step]int // points drawn so far
	lives   int
}

const (
	// openIntents is how many intents there are at a time. Few, so that workers meet.
	openIntents = 6
	// enough is after how many final answers an intent is left alone.
	enough = 2
	// latest is the last call of a life at which the death may become due.
	latest = 2
	// longestDelay is how long a worker may live after it has sent COMMIT.
	longestDelay = 2 * time.Millisecond
)

// How long duplicates wait: less, and more, than what they wait for is likely to take, so that both happen.
const (
	shortWait  = 20 * time.Millisecond
	longerWait = 150 * time.Millisecond
	longWait   = 20 * time.Second // for calls that must end
)

func newSchedule(o options, p place) *schedule {
	return &schedule{
		o: o, place: p, rng: rand.New(rand.NewPCG(o.seed, 0)),
		final: make(map[int]int), broke: make(map[int]int),
		deaths: make(map[step]int), planned: make(map[step]int), drawn: make(map[step]int),
	}
}

// next returns the life of another worker, or false when there are deaths enough or far too many lives.
func (s *schedule) next() (assignment, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if total(s.deaths)+total(s.planned) >= s.o.kills || s.lives >= 5*s.o.kills+50 {
		return assignment{}, false
	}
	waits := [...]time.Duration{txidem.NoWait, shortWait, longerWait}
	for len(s.open) < openIntents {
		i := newIntent(len(s.intents), s.rng, s.o.isolations)
		s.intents = append(s.intents, i)
		s.open = append(s.open, i.n)
	}
	a := s.assignment()
	a.Death = s.plan()
	for _, n := range s.order() {
		c := s.call(n, waits[s.rng.IntN(len(waits))])
		c.Slow = s.rng.IntN(2) == 0
		c.Break = s.intents[n].kind == breaks && s.broke[n] < maxBreaks
		a.Calls = append(a.Calls, c)
	}
	return a, true
}

// last returns the life of a worker that is not killed and makes every call once more.
func (s *schedule) last() assignment {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.assignment()
	for _, i := range s.intents {
		a.Calls = append(a.Calls, s.call(i.n, longWait))
	}
	return a
}

func (s *schedule) assignment() assignment {
	s.lives++
	return assignment{Life: s.lives, Place: s.place, Exec: s.lives%3 == 0, Plant: s.o.plant}
}

func (s *schedule) call(n int, wait time.Duration) call {
	i := s.intents[n]
	return call{
		Intent: n, Bucket: i.bucket(), Refuse: i.kind == refuses, Wait: wait,
		Key: i.key, Args: json.RawMessage(i.args(s.rng.IntN(3))), Isolation: i.isolation,
	}
}

// order is that of the open intents, for half of the workers as they come, so that workers follow each other, and for the
// others another one each, so that they meet head-on.
func (s *schedule) order() []int {
	order := slices.Clone(s.open)
	if s.rng.IntN(2) == 0 {
		s.rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	}
	return order
}

// plan draws a death at the step that has the fewest, at its points in turn.
func (s *schedule) plan() *death {
	least := slices.MinFunc(steps(), func(a, b step) int {
		return s.deaths[a] + s.planned[a] - s.deaths[b] - s.planned[b]
	})
	d := &death{Step: least, Point: least.pointFor(s.drawn[least]), After: s.rng.IntN(latest + 1), Part: s.rng.Float64()}
	if least == atCommit {
		d.Delay = time.Duration(s.rng.Int64N(int64(longestDelay)))
	}
	s.drawn[least]++
	s.planned[least]++
	return d
}

// settle takes note of what became of a life and returns how many deaths there are.
func (s *schedule) settle(a assignment, l life) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.planned[a.Death.Step]--
	if d, ok := l.death(); ok {
		s.deaths[d.Step]++
	}
	for _, said := range l.told {
		switch {
		case said.Class.final():
			s.final[said.Intent]++
		case said.Class == released:
			s.broke[said.Intent]++
		}
	}
	s.open = slices.DeleteFunc(s.open, func(n int) bool { return s.final[n] >= enough })
	return total(s.deaths)
}

func total(counts map[step]int) int {
	sum := 0
	for _, n := range counts {
		sum += n
	}
	return sum
}
