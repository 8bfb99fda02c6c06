package main

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// intent is one thing that somebody wants done once. Whoever is told of it makes the same call.
type intent struct {
	N        int
	Way      way
	Messages []address
	Breaks   int           // how many runs of the handler return an error, in each process
	Fails    bool          // the handler publishes, and fails for good
	Pause    time.Duration // before the handler returns
}

// address is where a message is to go.
type address struct {
	Destination string
	Key         string // the ordering key, if there is one
}

// way is how a message is published, and counted.
type way string

const (
	countFirst way = "count-first" // with the record, its key was counted before
	countLast  way = "count-last"  // with the record, and its key is counted behind it
	atOnce     way = "at-once"     // in a savepoint of the handler, and its key is counted behind a pause
	plainTx    way = "plain"       // in a transaction without a call, likewise
)

func ways() []way { return []way{countFirst, countLast, atOnce, plainTx} }

// The destinations. The receiver closes the first one for a while, now and then.
const (
	gateway = "gateway"
	broker  = "broker"
)

func destinations() []string { return []string{gateway, broker} }

// keysOf is how many ordering keys there are at a destination, in each of two groups: those that are counted before a message is
// published, and those that are counted behind it. A key that is counted in both ways would be a deadlock.
const keysOf = 10

func groups() []string { return []string{"a", "b"} }

func (w way) group() string {
	if w == countFirst {
		return groups()[0]
	}
	return groups()[1]
}

// lane is an ordering key at a destination, as the ledger calls it.
func (a address) lane() string {
	if a.Key == "" {
		return ""
	}
	return a.Destination + "/" + a.Key
}

// allLanes returns those that there are.
func allLanes() (all []string) {
	for _, d := range destinations() {
		for _, g := range groups() {
			for n := range keysOf {
				all = append(all, address{d, fmt.Sprintf("%s%d", g, n)}.lane())
			}
		}
	}
	return all
}

const (
	longestHandler = 30 * time.Millisecond
	mostBreaks     = 2
)

func newIntent(n int, rng *rand.Rand) intent {
	i := intent{N: n, Way: ways()[rng.IntN(len(ways()))]}
	drawn := func() string { return destinations()[rng.IntN(len(destinations()))] }
	if rng.IntN(4) > 0 {
		i.Messages = append(i.Messages, address{drawn(), fmt.Sprintf("%s%d", i.Way.group(), rng.IntN(1+rng.IntN(1+rng.IntN(keysOf))))}) // some are hot
	}
	for range rng.IntN(3) {
		i.Messages = append(i.Messages, address{Destination: drawn()})
	}
	if len(i.Messages) == 0 {
		i.Messages = []address{{Destination: drawn()}}
	}
	switch rng.IntN(10) {
	case 0:
		i.Fails = i.Way != plainTx
	case 1, 2:
		i.Breaks = 1 + rng.IntN(mostBreaks)
	}
	if rng.IntN(4) > 0 { // the others are quick
		i.Pause = time.Duration(rng.Int64N(int64(longestHandler)))
	}
	return i
}

func (i intent) key() string { return fmt.Sprintf("intent-%d", i.N) }
