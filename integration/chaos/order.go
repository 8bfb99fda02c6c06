package main

import (
	"fmt"
	"math/rand/v2"

	"github.com/txonce/txonce/toolcall"
)

// tool is one of the tools of the servers.
type tool string

const (
	write  tool = "write"  // an effect, by Run
	batch  tool = "batch"  // an effect, by RunBatch
	report tool = "report" // submits a job, whose effect comes later
	notify tool = "notify" // an effect, and messages that tell of it
)

func tools() []tool { return []tool{write, batch, report, notify} }

// scope is who makes the calls.
const scope = "agents"

// order is what a tool is asked to do. What does not count when two calls are compared is for the tool alone.
type order struct {
	Intent  int    `json:"intent"`
	Payload string `json:"payload"`
	Fails   bool   `json:"fails"`   // the call, or its job, ends as a recorded failure
	Slips   int    `json:"slips"`   // attempts of its job that break behind their effect
	Pause   int    `json:"pause"`   // of the handler or the job, with its effect in the transaction, in milliseconds
	Lane    string `json:"lane"`    // the ordering key of its first message; empty for none
	Letters int    `json:"letters"` // messages
	Try     int    `json:"try" idem:"-"`
	Breaks  bool   `json:"breaks" idem:"-"` // the handler returns a plain error behind its effect
}

// receipt is the answer of a tool.
type receipt struct {
	Intent  int    `json:"intent"`
	Payload string `json:"payload"`
	Try     int    `json:"try"` // that did it
	Run     string `json:"run"` // no other run of a handler has this name
}

// intent is one thing that somebody wants done once.
type intent struct {
	N    int
	Tool tool
	order
}

const (
	lanes        = 8
	rightPayload = "right"
	otherPayload = "other"
)

func allLanes() (all []string) {
	for n := range lanes {
		all = append(all, fmt.Sprintf("lane-%d", n))
	}
	return all
}

// newIntent draws the n-th intent of a run.
func newIntent(seed uint64, n int) intent {
	rng := rand.New(rand.NewPCG(seed, uint64(n)))
	i := intent{N: n, Tool: tools()[rng.IntN(len(tools()))], order: order{Intent: n, Payload: rightPayload}}
	i.Fails = rng.IntN(10) == 0
	switch rng.IntN(10) {
	case 0:
		i.Pause = 50 + rng.IntN(200)
	case 1, 2, 3:
		i.Pause = rng.IntN(20)
	}
	switch i.Tool {
	case report:
		if rng.IntN(4) == 0 {
			i.Slips = 1
		}
	case notify:
		i.Letters = 1 + rng.IntN(2)
		if rng.IntN(3) > 0 {
			i.Lane = allLanes()[rng.IntN(1+rng.IntN(lanes))] // some are hot
		}
	}
	return i
}

// key is the idempotency key of the intent.
func (i intent) key() string { return fmt.Sprintf("intent-%d", i.N) }

// id is the call's, which everyone knows who knows the key.
func (i intent) id() toolcall.ID { return toolcall.NewID(scope, string(i.Tool), "x:"+i.key()) }
