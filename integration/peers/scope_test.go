package peers

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestScope_M04_CallersOnMixedSessions: two callers with tokens of their own give the same keys to the same work, in turn and at once, on several
// sessions. Each gets its own answers.
func TestScope_M04_CallersOnMixedSessions(t *testing.T) {
	t.Parallel()
	for _, p := range allPeers() {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, newPool(t), func(p *plan) { p.Scope, p.Wait, p.Revisions = "", longWait, legacy() })
			stateful := wire{"stateful", &mcp.StreamableHTTPOptions{}}
			url := w.serve(stateful.http, nil)
			dial := func(token string) client {
				c, err := p.dial(t, w, stateful, url, kind{token: token})
				if err != nil {
					t.Fatal(err)
				}
				return c
			}
			alice, bob, aliceToo, bobToo := dial("alice"), dial("bob"), dial("alice"), dial("bob")
			for i := range 4 {
				order := fmt.Sprintf("A-%d", i)
				what := call{args: fmt.Sprintf(`{"order":%q,"cents":1}`, order), key: fmt.Sprintf("key %d", i/2)}
				if what.key = ""; i%2 == 0 {
					what.key = order
				}
				forBob := start(t, bob, what)
				hers, his := must(t, alice, what), <-forBob
				wantFirst(t, hers)
				wantFirst(t, his)
				if hers.field("refund") == his.field("refund") || hers.id() == his.id() {
					t.Errorf("one answer for two callers: %+v, %+v", hers, his)
				}
				forBob = start(t, bobToo, what)
				wantReplay(t, hers, must(t, aliceToo, what))
				wantReplay(t, his, <-forBob)
				w.wantEffects(order, 2)
			}
		})
	}
}

// TestScope_M04_TokenOnTheSessionOfAnother: a token counts for the request that carries it, whoever began the session.
func TestScope_M04_TokenOnTheSessionOfAnother(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newPool(t), func(p *plan) { p.Scope, p.Revisions = "", legacy() })
	url := w.serve(&mcp.StreamableHTTPOptions{}, nil)
	alice := newRaw(t, url, revision2025Nov)
	alice.token = "alice"
	alice.open()
	what := call{args: `{"order":"A-1","cents":1}`, key: "key"}
	hers := alice.must(1, what, nil)
	wantFirst(t, hers)

	thief := newRaw(t, url, revision2025Nov)
	thief.token, thief.session = "bob", alice.session
	resp, body, err := thief.post(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"issue_refund","arguments":{"order":"A-1","cents":1},"_meta":{"dev.txonce/idempotency-key":"key"}}}`, nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode == 200 || bytes.Contains(body, []byte(hers.Structured)) {
		t.Errorf("bob, on the session of alice, got %s: %s", resp.Status, body)
	}
	nobody := newRaw(t, url, revision2025Nov)
	nobody.session = alice.session
	if resp, body, err := nobody.post(`{"jsonrpc":"2.0","id":3,"method":"tools/list"}`, nil); err != nil || resp.StatusCode != 401 {
		t.Errorf("without a token: %v %s", err, body)
	}
	wantReplay(t, hers, alice.must(4, what, nil))
	w.wantEffects("A-1", 1)
}
