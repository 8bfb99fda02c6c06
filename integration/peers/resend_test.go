package peers

import (
	"net/http"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestResend_M07_NetHTTPSendsCallsWithTheHeaderAgain: Go's HTTP client takes a POST with Idempotency-Key for one that may be repeated,
// and does so by itself when a connection that it has used before is cut. One call of the agent's arrives twice.
func TestResend_M07_NetHTTPSendsCallsWithTheHeaderAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newPool(t), func(p *plan) { p.Wait = longWait })
	p := newProxy(t, w.serve(&mcp.StreamableHTTPOptions{Stateless: true}, nil))
	r := newRaw(t, p.url, revision2025Nov)
	r.must(1, call{args: `{"order":"A-0","cents":1}`}, nil) // the connection has been used

	p.lose(afterCommit)
	before, _ := p.seen()
	a, err := r.call(2, call{args: `{"order":"A-1","cents":1}`}, http.Header{"Idempotency-Key": {"key"}})
	after, _ := p.seen()
	if err != nil || after-before != 2 {
		t.Fatalf("net/http has sent the call %d times, want twice, without an error: %v", after-before, err)
	}
	if !a.replayed() || a.IsError {
		t.Errorf("want the first answer, got %+v", a)
	}
	w.wantEffects("A-1", 1)

	p.lose(afterCommit)
	if _, err := r.call(3, call{args: `{"order":"A-2","cents":1}`}, nil); err == nil {
		t.Error("a call without the header was sent again as well: the test shows nothing")
	}
	wantSame(t, r.must(4, call{args: `{"order":"A-2","cents":1}`}, nil), r.must(5, call{args: `{"order":"A-2","cents":1}`}, nil))
	w.wantEffects("A-2", 1)
}
