package main

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strconv"
	"strings"
)

// callName names one call as the agent sends it. It stands in a header of the demo's own, by which the network and the
// journal know the call; nothing that answers calls looks at it.
type callName struct {
	intent  int
	attempt int // over all rounds, from 1
	copy    int // among those of the same moment, from 0
}

const nameHeader = "Demo-Call"

func (c callName) String() string { return fmt.Sprintf("%d.%d.%d", c.intent, c.attempt, c.copy) }

func parseName(s string) (callName, bool) {
	var c callName
	parts := strings.Split(s, ".")
	if len(parts) != 3 {
		return c, false
	}
	for i, into := range []*int{&c.intent, &c.attempt, &c.copy} {
		n, err := strconv.Atoi(parts[i])
		if err != nil {
			return c, false
		}
		*into = n
	}
	return c, true
}

// fault is what the network does to one call.
type fault int

const (
	noFault    fault = iota
	cutBefore        // the connection is cut before the request reaches the server
	lostAnswer       // the server has finished, and the connection is cut
	cutAnswer        // the connection is cut in the middle of the answer
	lateAnswer       // the answer is held back until the client has given up
	sentTwice        // something on the way sends the request twice, under the same request id
)

func (f fault) String() string {
	switch f {
	case cutBefore:
		return "cut before the server"
	case lostAnswer:
		return "answer lost"
	case cutAnswer:
		return "answer cut in half"
	case lateAnswer:
		return "answer late"
	case sentTwice:
		return "sent twice"
	default:
		return "-"
	}
}

// faultFor decides what befalls a call: by the seed and the call's name, never by who comes first, so that a seed
// repeats its faults however the goroutines interleave. 46 of 100 calls meet one.
func faultFor(seed uint64, name callName) fault {
	h := fnv.New64a()
	_, _ = fmt.Fprint(h, name)
	rng := rand.New(rand.NewPCG(seed, h.Sum64()))
	percent := rng.IntN(100)
	for _, f := range []struct {
		fault fault
		share int
	}{{cutBefore, 8}, {lostAnswer, 13}, {cutAnswer, 8}, {lateAnswer, 8}, {sentTwice, 9}} {
		if percent -= f.share; percent < 0 {
			return f.fault
		}
	}
	return noFault
}
