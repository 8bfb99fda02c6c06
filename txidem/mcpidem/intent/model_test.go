package intent_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"pgregory.net/rapid"

	"github.com/txonce/txonce/txidem"
	"github.com/txonce/txonce/txidem/mcpidem/intent"
)

// plan is one intent's bad luck.
type plan struct {
	serving  string
	faults   []fault
	asked    []fault
	states   []any // nil: no status tool
	refusals int   // of the server, before it does it
	deadline time.Duration
	crashes  int // of the harness: it comes back on a new session and makes the same call
	slow     time.Duration
	seed     uint64
}

func drawPlan(t *rapid.T) plan {
	p := plan{
		serving:  rapid.SampledFrom([]string{"stateless", "stateless, JSON", "stateful", "stateful, JSON"}).Draw(t, "serving"),
		faults:   rapid.SliceOfN(rapid.SampledFrom(append([]fault{fine, invalid}, faults...)), 0, 12).Draw(t, "faults"),
		asked:    rapid.SliceOfN(rapid.SampledFrom(append([]fault{fine, invalid}, faults...)), 0, 4).Draw(t, "asked"),
		refusals: rapid.IntRange(0, 3).Draw(t, "refusals"),
		deadline: time.Duration(rapid.IntRange(1, 200).Draw(t, "deadline")) * time.Second,
		crashes:  rapid.IntRange(0, 3).Draw(t, "crashes"),
		slow:     time.Duration(rapid.IntRange(0, 60).Draw(t, "slow")) * time.Second,
		seed:     rapid.Uint64().Draw(t, "seed"),
	}
	for _, s := range rapid.SliceOfN(rapid.SampledFrom([]string{"none", "running", "succeeded", "failed", "unknown", "what?"}), 0, 6).Draw(t, "states") {
		p.states = append(p.states, state(s))
	}
	return p
}

// heard is what the harness was told by one call.
type heard struct {
	result map[string]any
	isErr  bool
	err    error
	took   time.Duration
	done   int64 // effects when it was told
}

// TestMiddleware_M10_Model: whatever goes wrong in whatever order, an intent has one effect at most, each answer is the first, nobody is told
// "not done" of what was done, and nothing takes longer than its deadline.
func TestMiddleware_M10_Model(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		p := drawPlan(rt)
		var all []heard
		synctest.Test(t, func(t *testing.T) { all = live(t, p) })
		var first map[string]any
		unknown := false // to an earlier session
		for i, h := range all {
			if i == len(all)-1 {
				p.deadline = 2 * time.Minute // the default
			}
			if h.took > p.deadline {
				rt.Errorf("it took %v of %v", h.took, p.deadline)
			}
			if h.done > 1 {
				rt.Errorf("%d effects", h.done)
			}
			switch {
			case h.err == nil && !h.isErr:
				if h.done != 1 || first != nil && cmp.Diff(first, h.result) != "" {
					rt.Errorf("%d effects; answered %v, first %v", h.done, h.result, first)
				}
				first = h.result
			case errors.Is(h.err, intent.ErrOutcomeUnknown):
				unknown = true
			case h.done != 0 && first == nil && !unknown: // a refusal on a later session says nothing of an earlier one
				rt.Errorf("done, and told: %v, %v", h.err, h.result)
			}
		}
		if last := all[len(all)-1]; last.err != nil || last.isErr || last.done != 1 { // the network was fine by then
			rt.Errorf("in the end: %+v", last)
		}
	})
}

// live makes the calls of one intent, from a new session each, the last one over a network without faults.
func live(t *testing.T, p plan) (all []heard) {
	w := inMemory(t)
	w.wire.plan, w.wire.asked, w.states = p.faults, p.asked, p.states
	var refusals atomic.Int64
	refusals.Store(int64(p.refusals))
	w.handle = func(context.Context, refund) error {
		time.Sleep(p.slow)
		if refusals.Add(-1) >= 0 {
			return txidem.ErrUnavailable
		}
		return nil
	}
	source := rand.New(rand.NewPCG(p.seed, 7))
	cfg := intent.WithRandom(intent.Config{Deadline: p.deadline}, func(n time.Duration) time.Duration { return time.Duration(source.Int64N(int64(n))) })
	if p.states != nil {
		cfg.StatusTool = "get_status"
	}
	way := w.direct(servings[p.serving])
	var open []*mcp.ClientSession
	for i := range p.crashes + 2 {
		if i == p.crashes+1 {
			w.wire.calm()
			refusals.Store(0)
			cfg = nil
		}
		s := w.open(t, "http://mcp.test", way, cfg)
		open = append(open, s)
		all = append(all, w.hear(t, s))
	}
	time.Sleep(time.Minute) // what the server still does with calls that were given up, is done
	for _, s := range open {
		_ = s.Close()
	}
	return all
}

func (w *world) hear(t *testing.T, s *mcp.ClientSession) heard {
	start := time.Now()
	r, err := call(inStep(t), s, 5)
	h := heard{err: err, took: time.Since(start), done: w.count()}
	if err == nil {
		h.result, h.isErr = said(r), r.IsError
	}
	return h
}

func (w *wire) calm() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.plan, w.asked = nil, nil
}
