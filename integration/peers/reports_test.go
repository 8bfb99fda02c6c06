package peers

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Duplicates as people have met them in the wild, one test each.

// atOnce makes n calls on the session at once, and returns their answers.
func atOnce(t *testing.T, n int, c client, what call) []*answer {
	t.Helper()
	answers := make([]*answer, n)
	var ready, over sync.WaitGroup
	ready.Add(n)
	for i := range answers {
		over.Go(func() {
			ready.Done()
			ready.Wait()
			a, err := c.call(t.Context(), what)
			if err != nil {
				t.Error(err)
				a = &answer{}
			}
			answers[i] = a
		})
	}
	over.Wait()
	return answers
}

// wantOne: one of the answers is the first, and the others are it again.
func wantOne(t *testing.T, answers []*answer) {
	t.Helper()
	firsts := 0
	for _, a := range answers {
		if !a.replayed() {
			firsts++
		}
		if a.IsError || a.Structured != answers[0].Structured || a.id() != answers[0].id() {
			t.Errorf("two answers: %+v and %+v", answers[0], a)
		}
	}
	if firsts != 1 {
		t.Errorf("%d calls were done, want 1", firsts)
	}
}

// concurrent is a session on which several calls may go on at once.
func concurrent(t *testing.T, w *world, over wire) client {
	t.Helper()
	url := ""
	if over.http != nil {
		url = w.serve(over.http, nil)
	}
	c, err := dialMCPGo(t, w, over, url, kind{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestReports_R01_M07_DoubleDispatch: a harness sends each call twice, two milliseconds apart.
func TestReports_R01_M07_DoubleDispatch(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	for _, over := range wires() {
		t.Run(over.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, pool, func(p *plan) { p.Wait, p.Revisions = longWait, []string{revision2025Nov} })
			c := concurrent(t, w, over)
			for i := range 3 {
				order := fmt.Sprintf("A-%d", i)
				wantOne(t, atOnce(t, 2, c, call{args: fmt.Sprintf(`{"order":%q,"cents":1}`, order)}))
				w.wantEffects(order, 1)
			}
		})
	}
}

// TestReports_R01_M07_NineIdenticalCallsInParallel: a model emits the same tool call nine times in one turn.
func TestReports_R01_M07_NineIdenticalCallsInParallel(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newPool(t), func(p *plan) { p.Wait = longWait })
	c := concurrent(t, w, wire{name: "stateless", http: &mcp.StreamableHTTPOptions{Stateless: true}})
	wantOne(t, atOnce(t, 9, c, call{args: `{"order":"A-1","cents":1}`}))
	w.wantEffects("A-1", 1)
}

// TestReports_R01_M07_TwoSessionsAtOnce: two copies of one agent, or a page that is open in two tabs.
func TestReports_R01_M07_TwoSessionsAtOnce(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	for _, p := range allPeers() {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, pool, func(p *plan) { p.Wait, p.Revisions = longWait, legacy() })
			stateful := wire{name: "stateful", http: &mcp.StreamableHTTPOptions{}}
			x := &exam{t: t, peer: p, wire: stateful, w: w, url: w.serve(stateful.http, nil)}
			what := call{args: `{"order":"hold-1","cents":1}`, key: "key"}
			one, other := x.dial(), x.dial()
			first := start(t, one, what)
			w.gate.await(t, "hold-1")
			second := start(t, other, what)
			w.gate.release("hold-1")
			wantReplay(t, <-first, <-second)
			w.wantEffects("hold-1", 1)
		})
	}
}

// TestReports_R09_M07_TimeoutAndTriggerLoop: a client gives up before the tool has answered, and calls again, and again. Where its time-out
// reaches the server, it cancels the call; where it does not, the call goes on.
func TestReports_R09_M07_TimeoutAndTriggerLoop(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	for _, over := range []wire{
		{name: "memory"},
		{"stateless", &mcp.StreamableHTTPOptions{Stateless: true}},
		{"stateless, disconnection cancels", &mcp.StreamableHTTPOptions{Stateless: true, PropagateRequestCancellation: true}},
		{"stateful", &mcp.StreamableHTTPOptions{}},
	} {
		for _, p := range allPeers() {
			t.Run(over.name+"/"+p.name, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, pool, func(p *plan) {
					if over.name == "stateful" {
						p.Revisions = legacy()
					}
				})
				r := &resender{t: t, w: w, peer: p, wire: over}
				if over.http != nil {
					r.proxy = &proxy{url: w.serve(over.http, nil)}
				} else {
					r.proxy = &proxy{}
				}
				r.loop("hold-1")
				w.wantEffects("hold-1", 1)
			})
		}
	}
}

// loop calls under a short deadline until there is an answer. The tool works until several calls have timed out.
func (r *resender) loop(order string) {
	r.t.Helper()
	what := call{args: fmt.Sprintf(`{"order":%q,"cents":1}`, order)}
	r.dial()
	defer r.w.gate.release(order)
	deadline := 20 * time.Millisecond
	for n, end := 1, time.Now().Add(2*time.Minute); ; n++ {
		ctx, cancel := context.WithTimeout(r.t.Context(), deadline)
		a, err := r.c.call(ctx, what)
		timedOut := ctx.Err() != nil
		cancel()
		if timedOut { // on a busy machine none would ever be in time; answers that others are at it come at once, and prove nothing
			deadline = min(deadline*5/4, time.Second)
		}
		switch {
		case time.Now().After(end):
			r.t.Fatalf("no answer; the last one is %+v, %v", a, err)
		case err != nil && !timedOut:
			r.t.Logf("call %d: %v", n, err)
			r.dial()
		case err == nil && !a.IsError:
			wantSame(r.t, a, r.until(what))
			return
		case err == nil && a.status() != "in_progress":
			r.t.Fatalf("call %d: %+v", n, a)
		case n >= 5 && len(r.w.gate.arrived) > 0:
			r.w.gate.release(order)
		}
	}
}

// TestReports_K02_M07_RequestIDsThatRestart: after a reconnect a client counts its ids from the beginning, so that an id stands for
// other work.
func TestReports_K02_M07_RequestIDsThatRestart(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	for name, c := range map[string]struct {
		revision string
		opts     mcp.StreamableHTTPOptions
	}{
		"stateful":       {revision2025Nov, mcp.StreamableHTTPOptions{}},
		"stateless":      {revision2025June, mcp.StreamableHTTPOptions{Stateless: true}},
		"stateless 2026": {revision2026, mcp.StreamableHTTPOptions{Stateless: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, pool, nil)
			r := newRaw(t, w.serve(&c.opts, nil), c.revision)
			reconnect := func() {
				if r.session = ""; !c.opts.Stateless {
					r.open()
				}
			}
			reconnect()
			first := r.must(3, call{args: `{"order":"A-1","cents":1}`}, nil)
			wantFirst(t, first)
			reconnect()
			other := r.must(3, call{args: `{"order":"A-2","cents":1}`}, nil)
			wantFirst(t, other)
			wantReplay(t, first, r.must(3, call{args: `{"order":"A-1","cents":1}`}, nil))
			wantReplay(t, other, r.must(4, call{args: `{"order":"A-2","cents":1}`}, nil))
			w.wantEffects("A-1", 1)
			w.wantEffects("A-2", 1)
		})
	}
}

// TestReports_K02_M07_ToolCallIDsThatModelsReuse: models give the id of one tool call to another, or a new one to the same work. What
// harnesses put into _meta of them does not count.
func TestReports_K02_M07_ToolCallIDsThatModelsReuse(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	for _, p := range allPeers() {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, pool, nil)
			x := &exam{t: t, peer: p, wire: wire{name: "memory"}, w: w}
			c := x.dial()
			with := func(order, id string) *answer {
				return must(t, c, call{args: fmt.Sprintf(`{"order":%q,"cents":1}`, order), meta: map[string]any{
					"toolCallId": id, "tool_call_id": id, "example.com/tool-use-id": id, "progressToken": id,
				}})
			}
			first, other := with("A-1", "call_1"), with("A-2", "call_1")
			wantFirst(t, first)
			wantFirst(t, other)
			wantReplay(t, first, with("A-1", "call_2"))
			w.wantEffects("A-1", 1)
			w.wantEffects("A-2", 1)
		})
	}
}

// TestReports_K01_M07_KeyOfAnotherTool: one key per step of a plan, and a step that calls two tools. Both run.
func TestReports_K01_M07_KeyOfAnotherTool(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	for _, p := range allPeers() {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, pool, nil)
			c := (&exam{t: t, peer: p, wire: wire{name: "memory"}, w: w}).dial()
			refund := call{tool: toolRefund, args: `{"order":"A-1","cents":1}`, key: "step 1"}
			charge := call{tool: toolCharge, args: `{"order":"A-1","cents":1}`, key: "step 1"}
			first, other := must(t, c, refund), must(t, c, charge)
			wantFirst(t, first)
			wantFirst(t, other)
			wantReplay(t, first, must(t, c, refund))
			wantReplay(t, other, must(t, c, charge))
			w.wantEffects("A-1", 2)
		})
	}
}

// TestReports_M07_LostStreamIsCalledAgainUnderANewID: since 2026-07-28 a stream that breaks off loses its request, and the client must send
// it again as a new one.
func TestReports_M07_LostStreamIsCalledAgainUnderANewID(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newPool(t), nil)
	p := newProxy(t, w.serve(&mcp.StreamableHTTPOptions{Stateless: true, PropagateRequestCancellation: true}, nil))
	r := newRaw(t, p.url, revision2026)
	what := call{args: `{"order":"A-1","cents":1}`}
	p.lose(inAnswer)
	if a, err := r.call(1, what, nil); err == nil {
		t.Fatalf("the stream was not lost: %+v", a)
	}
	again := r.must(2, what, nil)
	if again.IsError || !again.replayed() {
		t.Errorf("the new request got %+v", again)
	}
	wantSame(t, again, r.must(3, what, nil))
	w.wantEffects("A-1", 1)
}

// TestReports_M07_ResumedStreamDoesNotRunAgain: up to 2025-11-25 a client may take up a broken stream by Last-Event-ID. That is no call, and
// the answer is the first one.
func TestReports_M07_ResumedStreamDoesNotRunAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newPool(t), func(p *plan) { p.Revisions = []string{revision2025Nov} })
	stateful := wire{"stateful", &mcp.StreamableHTTPOptions{EventStore: mcp.NewMemoryEventStore(nil)}}
	p := newProxy(t, w.serve(stateful.http, nil))
	c, err := dialSDK(t, w, stateful, p.url, kind{resume: true})
	if err != nil {
		t.Fatal(err)
	}
	leave := p.lose(inStream)
	what := call{args: `{"order":"hold-1","cents":1}`, key: "key"}
	answers := start(t, c, what)
	w.gate.await(t, "hold-1")
	leave()
	w.gate.release("hold-1")
	first := <-answers
	wantFirst(t, first)
	if calls, resumed := p.seen(); calls != 1 || len(resumed) == 0 {
		t.Errorf("%d calls, streams taken up %q; want one call, and its stream taken up", calls, resumed)
	}
	wantReplay(t, first, must(t, c, what))
	w.wantEffects("hold-1", 1)
}
