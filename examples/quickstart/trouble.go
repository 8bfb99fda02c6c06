package main

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
)

// trouble is what the merchant's endpoint does to one attempt at a webhook.
type trouble int

const (
	noTrouble   trouble = iota
	failsBefore         // 500, and nothing was taken
	failsAfter          // 500, behind the effect
	cutsBefore          // the connection is cut, and nothing was taken
	cutsAfter           // the connection is cut behind the effect
	hangs               // it has taken the message, and does not answer in time
)

// patientAttempt is the first attempt at an order's webhooks that meets no trouble for certain.
const patientAttempt = 4

// troubleFor decides what befalls the nth attempt that is about an order: by the seed, as faultFor does. 60 of 100 attempts before
// the last meet trouble.
func troubleFor(seed uint64, order string, nth int) trouble {
	if nth >= patientAttempt {
		return noTrouble
	}
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "webhook %s %d", order, nth)
	percent := rand.New(rand.NewPCG(seed, h.Sum64())).IntN(100)
	for _, t := range []struct {
		trouble trouble
		share   int
	}{{failsBefore, 14}, {failsAfter, 12}, {cutsBefore, 12}, {cutsAfter, 12}, {hangs, 10}} {
		if percent -= t.share; percent < 0 {
			return t.trouble
		}
	}
	return noTrouble
}
