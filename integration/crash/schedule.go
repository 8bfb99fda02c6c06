package main

import (
	"cmp"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/txonce/txonce/integration/internal/lives"
	"github.com/txonce/txonce/txidem"
)

// schedule decides who does what, and who dies where. It hands out intents until each was answered for good to two
// workers, and spreads the deaths evenly over the steps.
type schedule struct {
	o     options
	place lives.Place

	mu      sync.Mutex
	rng     *rand.Rand
	intents []intent
	open    map[bool][]int // numbers of the intents that are not done with, by whether they are leased
	final   map[int]int    // answers that were told of an intent, of those that must not change, or after which it is blocked
	broke   map[int]int    // answers that told of a plain error
	turns   []mode         // in which order the modes have their deaths
	deaths  map[spot]int
	planned map[spot]int // deaths of workers that are on their way
	drawn   map[spot]int // points drawn so far
	lives   int
}

const (
	// openIntents is how many intents there are at a time. Few, so that workers meet.
	openIntents = 6
	// openLeased is the same of leased ones. More, since each death keeps others out of one for as long as the lease lasts.
	openLeased = 12
	// spellOfModes is how many rounds the modes have in a row that share intents, and the leased one: deaths follow each
	// other only where workers make the same calls.
	spellOfModes = 3
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

func newSchedule(o options, p lives.Place) *schedule {
	s := &schedule{
		o: o, place: p, rng: rand.New(rand.NewPCG(o.seed, 0)),
		open: make(map[bool][]int), final: make(map[int]int), broke: make(map[int]int),
		deaths: make(map[spot]int), planned: make(map[spot]int), drawn: make(map[spot]int),
	}
	for _, leased := range []bool{false, true} {
		for range spellOfModes {
			s.turns = append(s.turns, o.modesOf(leased)...)
		}
	}
	return s
}

// next returns the life of another worker, or false when there are deaths enough or far too many lives.
func (s *schedule) next() (assignment, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if lives.Total(s.deaths)+lives.Total(s.planned) >= s.o.kills || s.lives >= 5*s.o.kills+50 {
		return assignment{}, false
	}
	waits := [...]time.Duration{txidem.NoWait, shortWait, longerWait}
	death := s.plan()
	leased := death.Mode.leased()
	s.fill(leased)
	a := s.assignment()
	a.Death = death
	for _, n := range s.order(death.Mode) {
		m := death.Mode
		if s.rng.IntN(2) == 0 {
			m = s.anyMode(leased)
		}
		c := s.call(n, m, waits[s.rng.IntN(len(waits))])
		c.Slow = s.rng.IntN(2) == 0
		c.Break = s.intents[n].kind == breaks && s.broke[n] < maxBreaks
		c.Open = leased && c.Lost != blocks && s.rng.IntN(2) == 0
		c.Resolve = s.rng.IntN(4) == 0
		a.Calls = append(a.Calls, c)
	}
	return a, true
}

// fill adds intents until enough are open.
func (s *schedule) fill(leased bool) {
	most := openIntents
	if leased {
		most = openLeased
	}
	for len(s.open[leased]) < most {
		i := newIntent(len(s.intents), s.rng, s.o.isolations, leased)
		s.intents = append(s.intents, i)
		s.open[leased] = append(s.open[leased], i.n)
	}
}

// anyMode draws one of the modes that may make a call.
func (s *schedule) anyMode(leased bool) mode {
	modes := s.o.modesOf(leased)
	return modes[s.rng.IntN(len(modes))]
}

// last returns the life of a worker that is not killed and makes every call once more.
func (s *schedule) last() assignment {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.assignment()
	for _, i := range s.intents {
		c := s.call(i.n, s.anyMode(i.leased()), longWait)
		c.Insist = true
		a.Calls = append(a.Calls, c)
	}
	return a
}

func (s *schedule) assignment() assignment {
	s.lives++
	return assignment{Life: s.lives, Place: s.place, Exec: s.lives%3 == 0, Plant: s.o.plant}
}

func (s *schedule) call(n int, m mode, wait time.Duration) call {
	i := s.intents[n]
	return call{
		Mode: m, Intent: n, Bucket: i.bucket(), Refuse: i.kind == refuses, Lost: i.lost, Wait: wait,
		Tool: i.tool(), Key: i.key, Args: json.RawMessage(i.args(s.rng.IntN(3))), Isolation: i.isolation,
	}
}

// order is that of the open intents, for half of the workers as they come, so that workers follow each other, and for the
// others another one each, so that they meet head-on. Who is to die in a batch begins with what has no answer yet: a batch is
// written before anybody knows.
func (s *schedule) order(m mode) []int {
	order := slices.Clone(s.open[m.leased()])
	if s.rng.IntN(2) == 0 {
		s.rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	}
	if m == batchMode {
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(s.final[a], s.final[b]) })
	}
	return order
}

// plan draws a death in the mode whose turn it is, at the step that has the fewest, at its points in turn.
func (s *schedule) plan() *death {
	m := s.mode()
	least := slices.MinFunc(steps(), func(a, b step) int {
		return cmp.Or(cmp.Compare(s.count(spot{m, a}), s.count(spot{m, b})), cmp.Compare(s.atStep(a), s.atStep(b)))
	})
	at := spot{m, least}
	d := &death{Mode: m, Step: least, Point: m.pointFor(least, s.drawn[at]), After: s.rng.IntN(latest + 1), Part: s.rng.Float64()}
	if least == atCommit {
		d.Delay = time.Duration(s.rng.Int64N(int64(longestDelay)))
	}
	s.drawn[at]++
	s.planned[at]++
	return d
}

// mode is the next one in turn that has not got its share of the deaths.
func (s *schedule) mode() mode {
	for n := range s.turns {
		m := s.turns[(s.lives+n)%len(s.turns)]
		have := 0
		for _, st := range steps() {
			have += s.count(spot{m, st})
		}
		if have < s.o.share(m) {
			return m
		}
	}
	return s.turns[0] // not reached: the shares are all the kills
}

func (s *schedule) count(at spot) int { return s.deaths[at] + s.planned[at] }

func (s *schedule) atStep(st step) int {
	sum := 0
	for _, m := range s.o.modes {
		sum += s.count(spot{m, st})
	}
	return sum
}

// settle takes note of what became of a life and returns how many deaths there are.
func (s *schedule) settle(a assignment, l life) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.planned[a.Death.spot()]--
	if d, ok := l.death(); ok {
		s.deaths[d.spot()]++
	}
	for _, said := range l.told {
		switch said.Class {
		case done, failed, blocked:
			s.final[said.Intent]++
		case released, unknown:
			s.broke[said.Intent]++
		}
	}
	for leased := range s.open {
		s.open[leased] = slices.DeleteFunc(s.open[leased], func(n int) bool { return s.final[n] >= enough })
	}
	return lives.Total(s.deaths)
}
