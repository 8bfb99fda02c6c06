package main

import (
	"fmt"
	"math/rand/v2"

	"github.com/jackc/pgx/v5"
)

// intent is one thing that somebody wants done once. All workers that are told of it make the same call.
type intent struct {
	n         int
	kind      kind
	lost      lost   // of leased intents
	key       string // empty where the key is derived from the arguments
	isolation pgx.TxIsoLevel
}

// kind is what the handler makes of an intent.
type kind string

const (
	writes  kind = "writes"  // it writes and answers
	refuses kind = "refuses" // it writes and returns txidem.Fail: recorded, without effect
	breaks  kind = "breaks"  // it writes and returns a plain error on the first tries: released
)

// lost says how a leased intent goes on when an attempt was cut off. It is empty for intents of the other modes.
type lost string

const (
	asks   lost = "asks"   // the other system is asked
	reruns lost = "reruns" // it runs again: the other system knows downstream keys
	blocks lost = "blocks" // never again: the other system does not know them
)

func (i intent) leased() bool { return i.lost != "" }

// maxBreaks is how often a call of the kind breaks is told to fail before it may succeed.
const maxBreaks = 2

// spell is how many intents in a row favour one isolation level: SERIALIZABLE calls fail each other only where they are
// among themselves.
const spell = 12

func newIntent(n int, rng *rand.Rand, isolations []pgx.TxIsoLevel, leased bool) intent {
	level := rng.IntN(len(isolations))
	if rng.IntN(2) == 0 {
		level = n / spell % len(isolations)
	}
	i := intent{n: n, kind: writes, isolation: isolations[level]}
	switch draw := rng.IntN(10); {
	case draw < 2:
		i.kind = refuses
	case draw < 4:
		i.kind = breaks
	}
	if rng.IntN(3) > 0 {
		i.key = fmt.Sprintf("intent-%d", n)
	}
	if leased {
		i.lost = [...]lost{asks, reruns, blocks}[rng.IntN(3)]
	}
	return i
}

// tools is how many tools there are. More than one, since a tool whose call was made before leaves the way of one turn for a
// moment, and fewer than there are intents, so that some calls do.
const tools = 5

func (i intent) tool() string { return fmt.Sprintf("pay-%d", i.n%tools) }

// args are the arguments in one of several spellings that mean the same.
func (i intent) args(spelling int) []byte {
	switch spelling % 3 {
	case 0:
		return fmt.Appendf(nil, `{"intent":%d,"cents":1050}`, i.n)
	case 1:
		return fmt.Appendf(nil, `{"cents": 1.05e3, "intent": %d.0}`, i.n)
	}
	return fmt.Appendf(nil, "{\n  \"intent\": %d,\n  \"cents\": 1050.00\n}", i.n)
}

// buckets is how many counters there are. Few, so that calls of different intents meet in them.
const buckets = 4

func (i intent) bucket() int { return i.n % buckets }
