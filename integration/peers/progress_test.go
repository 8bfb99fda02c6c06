package peers

import (
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// hear waits for n notifications under the token, each further than the one before, while the call goes on.
func hear(t *testing.T, heard <-chan progress, token string, n int, over <-chan *answer) {
	t.Helper()
	for last := 0.0; n > 0; n-- {
		select {
		case p := <-heard:
			if p.token != token || p.n <= last || !strings.Contains(p.message, "has not ended yet. Do not call it again") {
				t.Fatalf("got %+v behind %v, want more under %q", p, last, token)
			}
			last = p.n
		case a := <-over:
			t.Fatalf("the call under %q is over: %+v", token, a)
		}
	}
}

// TestProgress_M09_WhileTheCallRunsAndItsDuplicateWaits: clients that gave a token hear that there is somebody.
func TestProgress_M09_WhileTheCallRunsAndItsDuplicateWaits(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, c conversation, p peer) {
		w, url := c.talk(t, func(p *plan) { p.Wait, p.Progress = longWait, 10*time.Millisecond })
		dial := func(heard chan progress) client {
			session, err := p.dial(t, w, c.wire, url, kind{hears: heard})
			if err != nil {
				t.Fatal(err)
			}
			return session
		}
		what := func(token string) call {
			return call{args: `{"order":"hold-1","cents":1}`, meta: map[string]any{"progressToken": token}}
		}
		one, other := make(chan progress, 1), make(chan progress, 1)
		first := start(t, dial(one), what("one"))
		w.gate.await(t, "hold-1")
		hear(t, one, "one", 2, first)
		second := start(t, dial(other), what("other"))
		hear(t, other, "other", 3, second)
		w.gate.release("hold-1")
		wantReplay(t, <-first, <-second)
		w.wantEffects("hold-1", 1)
	})
}

// TestProgress_M09_ServerThatAnswersInJSON: there is no stream that progress could go on, and the answer is still one message.
func TestProgress_M09_ServerThatAnswersInJSON(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	for _, c := range []conversation{
		{wire{"stateless_json", &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true}}, revision2026, pool},
		{wire{"stateless_json", &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true}}, revision2025Nov, pool},
		{wire{"stateful_json", &mcp.StreamableHTTPOptions{JSONResponse: true}}, revision2025Nov, pool},
	} {
		for _, p := range allPeers() {
			t.Run(c.String()+"/"+p.name, func(t *testing.T) {
				t.Parallel()
				w, url := c.talk(t, func(p *plan) { p.Wait, p.Progress = longWait, 10*time.Millisecond })
				session, err := p.dial(t, w, c.wire, url, kind{})
				if err != nil {
					t.Fatal(err)
				}
				first := start(t, session, call{args: `{"order":"hold-1","cents":1}`, meta: map[string]any{"progressToken": "one"}})
				w.gate.await(t, "hold-1")
				// A duplicate that can hear tells when time has passed.
				heard := make(chan progress, 1)
				listener, err := p.dial(t, w, wire{name: "memory"}, "", kind{hears: heard})
				if err != nil {
					t.Fatal(err)
				}
				second := start(t, listener, call{args: `{"order":"hold-1","cents":1}`, meta: map[string]any{"progressToken": "other"}})
				hear(t, heard, "other", 3, second)
				w.gate.release("hold-1")
				wantReplay(t, <-first, <-second)
			})
		}
	}
}
