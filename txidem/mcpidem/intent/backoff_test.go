package intent_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/txidem/mcpidem/intent"
)

// pauses are the times between attempts on a server that is never there.
func pauses(w *world) []time.Duration {
	var all []time.Duration
	for i := range len(w.wire.times) - 1 {
		all = append(all, w.wire.times[i+1].Sub(w.wire.times[i]))
	}
	return all
}

// TestMiddleware_M10_PausesAreFullJitterUnderAGrowingBound asks the random source for the bounds, and gives the longest.
func TestMiddleware_M10_PausesAreFullJitterUnderAGrowingBound(t *testing.T) {
	longest := func(n time.Duration) time.Duration { return n - 1 }
	cfg := intent.Config{MinBackoff: 100 * time.Millisecond, MaxBackoff: time.Second, Deadline: 5 * time.Second}
	lab(t, intent.WithRandom(cfg, longest), func(t *testing.T, w *world, s *mcp.ClientSession) {
		w.wire.plan = always(noServer)
		_, _ = call(inStep(t), s, 5)
		want := []time.Duration{100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond, 800 * time.Millisecond, time.Second, time.Second, time.Second}
		if diff := cmp.Diff(want, pauses(w)); diff != "" {
			t.Error(diff)
		}
	})
}

// TestMiddleware_M10_ClientsDoNotComeBackTogether: two clients that were cut off at once, with sources of their own.
func TestMiddleware_M10_ClientsDoNotComeBackTogether(t *testing.T) {
	t.Parallel()
	var seen [][]time.Duration
	for seed := range uint64(2) {
		source := rand.New(rand.NewPCG(seed, 7))
		random := func(n time.Duration) time.Duration { return time.Duration(source.Int64N(int64(n))) }
		t.Run(string(rune('a'+seed)), func(t *testing.T) {
			labNow(t, intent.WithRandom(intent.Config{}, random), func(t *testing.T, w *world, s *mcp.ClientSession) {
				w.wire.plan = always(noServer)
				_, _ = call(inStep(t), s, 5)
				seen = append(seen, pauses(w))
			})
		})
	}
	for _, all := range seen {
		if len(all) < 20 || slices.Max(all) > 5*time.Second || slices.Min(all) < 0 {
			t.Errorf("pauses %v", all)
		}
		if slices.Max(all) < 3*time.Second || slices.Min(all[5:]) > 2*time.Second {
			t.Errorf("the jitter is not full: %v", all)
		}
	}
	if slices.Equal(seen[0][:3], seen[1][:3]) {
		t.Errorf("two clients wait alike: %v", seen[0][:3])
	}
}

func TestMiddleware_BadConfigNamesTheField(t *testing.T) {
	t.Parallel()
	for says, cfg := range map[string]*intent.Config{
		"Config.Deadline is -1s":   {Deadline: -time.Second},
		"Config.Attempt is -1s":    {Attempt: -time.Second},
		"Config.MinBackoff is -1s": {MinBackoff: -time.Second},
		"Config.MaxBackoff is -1s": {MaxBackoff: -time.Second},
		"above MaxBackoff":         {MinBackoff: 2 * time.Second, MaxBackoff: time.Second},
	} {
		func() {
			defer func() {
				if err, ok := recover().(error); !ok || !strings.Contains(err.Error(), says) {
					t.Errorf("want a panic that says %q, got %v", says, err)
				}
			}()
			intent.Middleware(allTools(cfg))
		}()
	}
	intent.Middleware(allTools(&intent.Config{MinBackoff: time.Minute})) // MaxBackoff is not below it then
}

// TestMiddleware_M10_SaysWhichToolsAreProtected: a default of all would call a tool twice that nobody protects.
func TestMiddleware_M10_SaysWhichToolsAreProtected(t *testing.T) {
	t.Parallel()
	for _, cfg := range []*intent.Config{nil, {}} {
		func() {
			defer func() {
				if err, ok := recover().(error); !ok || !strings.Contains(err.Error(), "Config.Tools is missing") {
					t.Errorf("want a panic that says what is missing, got %v", err)
				}
			}()
			intent.Middleware(cfg)
		}()
	}
}

func TestGuarded_M10_TakesTheServersWord(t *testing.T) {
	t.Parallel()
	w := inMemory(t)
	mcp.AddTool(w.server, &mcp.Tool{Name: "post"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return nil, nil, nil
	})
	here, there := mcp.NewInMemoryTransports()
	serving, err := w.server.Connect(t.Context(), there, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := mcp.NewClient(&mcp.Implementation{Name: "harness", Version: "1"}, nil).Connect(t.Context(), here, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(s.Close(), serving.Wait()); err != nil {
			t.Error(err)
		}
	})
	list, err := s.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	guarded := intent.Guarded(list.Tools...)
	for name, want := range map[string]bool{"issue_refund": true, "post": false, "get_status": false, "unknown": false} {
		if guarded(name) != want {
			t.Errorf("%s: %v", name, guarded(name))
		}
	}
}
