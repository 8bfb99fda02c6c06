package peers

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// longWait is how long duplicates wait in tests that want the answer rather than "in progress".
const longWait = 30 * time.Second

// lossy is a server in a network that loses calls.
type lossy struct {
	name, revision string
	http           mcp.StreamableHTTPOptions
}

func (l lossy) cancels() bool { return l.http.PropagateRequestCancellation }

func lossySettings() []lossy {
	return []lossy{
		{"stateful", revision2025Nov, mcp.StreamableHTTPOptions{}},
		{"stateless", revision2025June, mcp.StreamableHTTPOptions{Stateless: true}},
		{"stateless", revision2026, mcp.StreamableHTTPOptions{Stateless: true}},
		{"stateless, disconnection cancels", revision2026, mcp.StreamableHTTPOptions{Stateless: true, PropagateRequestCancellation: true}},
		{"stateless JSON, disconnection cancels", revision2026, mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true, PropagateRequestCancellation: true}},
	}
}

// TestLoss_M07_LostCallsAreSentAgain: wherever a call is lost, the one that is sent again has one effect between them, and gets the
// first answer if there is one.
func TestLoss_M07_LostCallsAreSentAgain(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	for _, setting := range lossySettings() {
		for _, p := range allPeers() {
			t.Run(fmt.Sprintf("%s/%s/%s", setting.name, setting.revision, p.name), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, pool, func(plan *plan) { plan.Revisions, plan.Wait = []string{setting.revision}, longWait })
				r := &resender{t: t, w: w, peer: p, proxy: newProxy(t, w.serve(&setting.http, nil)), wire: wire{setting.name, &setting.http}}
				r.dial()
				for i, l := range losses() {
					r.lost(fmt.Sprintf("hold-%d", i), l, setting.cancels())
				}
			})
		}
	}
}

// resender is an agent that calls until it has an answer, on a new session if the one it had is broken.
type resender struct {
	t     *testing.T
	w     *world
	peer  peer
	wire  wire
	proxy *proxy
	kind  kind
	c     client
}

func (r *resender) dial() {
	r.t.Helper()
	c, err := r.peer.dial(r.t, r.w, r.wire, r.proxy.url, r.kind)
	if err != nil {
		r.t.Fatal(err)
	}
	r.c = c
}

// until calls until there is an answer.
func (r *resender) until(what call) *answer {
	r.t.Helper()
	for range 5 {
		a, err := r.c.call(r.t.Context(), what)
		if err == nil {
			return a
		}
		r.t.Logf("%s: %v", what.args, err)
		r.dial()
	}
	r.t.Fatalf("no answer to %s", what.args)
	return nil
}

// lost loses one call and sends it again.
func (r *resender) lost(order string, l loss, cancels bool) {
	r.t.Helper()
	what := call{args: fmt.Sprintf(`{"order":%q,"cents":1}`, order), key: order}
	leave := r.proxy.lose(l)
	if l != beforeCommit {
		r.w.gate.release(order)
	}
	failed := make(chan error, 1)
	go func() {
		_, err := r.c.call(r.t.Context(), what)
		failed <- err
	}()
	if l == beforeCommit {
		r.w.gate.await(r.t, order)
		leave()
		if cancels {
			r.w.gate.awaitLeft(r.t, order)
		}
		r.w.gate.release(order)
	} else {
		defer leave()
	}
	if err := <-failed; err == nil {
		r.t.Fatalf("%s: the call was not lost", l)
	}
	again := r.until(what)
	wasDone := l == afterCommit || l == inAnswer || l == beforeCommit && !cancels
	if again.IsError || again.replayed() != wasDone {
		r.t.Errorf("lost %s: the call that was sent again got %+v; want a replay: %v", l, again, wasDone)
	}
	if wasDone && l != beforeCommit && !bytes.Contains(r.proxy.lastLost(), []byte(again.Structured)) {
		r.t.Errorf("lost %s: the answer that was lost was another one: %s, not %s", l, r.proxy.lastLost(), again.Structured)
	}
	wantSame(r.t, again, r.until(what))
	r.w.wantEffects(order, 1)
	r.drain()
}

// drain forgets who has come to the gate.
func (r *resender) drain() {
	for {
		select {
		case <-r.w.gate.arrived:
		case <-r.w.gate.left:
		default:
			return
		}
	}
}
