package main

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// intent is one thing that somebody wants done once. Whoever is told of it makes the same call.
type intent struct {
	n     int
	kind  kind
	pause time.Duration
}

// kind is what becomes of the job of an intent.
type kind string

const (
	writes  kind = "writes"  // it succeeds
	breaks  kind = "breaks"  // its first attempts return an error, then it succeeds
	refuses kind = "refuses" // it writes and returns jobs.Fail: failed, without effect
	dooms   kind = "dooms"   // it kills each worker that tries: failed, without effect
	cancels kind = "cancels" // somebody cancels it, or its doorbell, at some time: cancelled without effect, or succeeded
)

// doomed is how many attempts a job of the kind dooms has.
const doomed = 2

// maxBreaks is how many attempts at a job of the kind breaks return an error.
const maxBreaks = 2

// jobScope is who makes the calls and may see the jobs.
const jobScope = "crash"

func newIntent(n int, rng *rand.Rand, p plant) intent {
	i := intent{n: n, kind: writes}
	switch draw := rng.IntN(20); {
	case draw < 1:
		i.kind = dooms
	case draw < 3:
		i.kind = refuses
	case draw < 5:
		i.kind = breaks
	case draw < 9:
		i.kind = cancels
	}
	switch rng.IntN(8) { // the others are quick
	case 0:
		i.pause = lease / 2
	case 1:
		i.pause = lease + lease/4 // it must be renewed
	case 2, 3:
		i.pause = lease / 10
	}
	if p == completeTx { // whose workers know no other kind; and there is time to rescue them
		i.kind, i.pause = writes, max(i.pause, lease/10)
	}
	return i
}

func (i intent) call() call {
	c := call{Key: fmt.Sprintf("intent-%d", i.n), Task: task{Intent: i.n, Kind: i.kind, Pause: i.pause}}
	if i.kind == dooms {
		c.Most = doomed
	}
	return c
}

// mayEnd reports whether a job of the kind may end in the state.
func (k kind) mayEnd(state string) bool {
	switch k {
	case refuses, dooms:
		return state == "failed"
	case cancels:
		return state == "cancelled" || state == "succeeded"
	}
	return state == "succeeded"
}

// buckets is how many counters there are. Few, so that jobs meet in them.
const buckets = 4

func (t task) bucket() int { return t.Intent % buckets }
