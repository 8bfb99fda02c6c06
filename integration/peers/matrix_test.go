package peers

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The revisions of the protocol that are tested.
const (
	revision2025June = "2025-06-18"
	revision2025Nov  = "2025-11-25"
	revision2026     = "2026-07-28"
)

func revisions() []string { return []string{revision2025June, revision2025Nov, revision2026} }

// legacy are the revisions with sessions. A stateful server over HTTP has to name them: it tells of 2026-07-28 in its discovery, refuses calls
// under it, and mcp-go's client does not fall back then.
func legacy() []string { return []string{revision2025June, revision2025Nov} }

// wire is a transport.
type wire struct {
	name string
	http *mcp.StreamableHTTPOptions
}

func wires() []wire {
	return []wire{
		{name: "memory"},
		{name: "stdio"},
		{"stateless", &mcp.StreamableHTTPOptions{Stateless: true}},
		{"stateless_json", &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true}},
		{"stateful", &mcp.StreamableHTTPOptions{}},
		{"stateful_json", &mcp.StreamableHTTPOptions{JSONResponse: true}},
	}
}

// impossible are the cells that cannot be: what carries the revision, and why not. Their clients are refused, in the
// handshake or at the first call, before anything is done.
func impossible(w wire, revision string) (why string, refused map[string]string) {
	if w.http != nil && !w.http.Stateless && revision == revision2026 {
		return "2026-07-28 has no sessions: the SDK serves it over HTTP only where the handler is stateless", map[string]string{
			"sdk":    "Bad Request",                                // falls back to 2025-11-25, which this server does not speak
			"mcp-go": `unsupported protocol version: "2026-07-28"`, // believes in the discovery, and is refused when it calls
		}
	}
	return "", nil
}

// peer is a library whose client calls.
type peer struct {
	name string
	// dial opens a new session, on stdio with a new process.
	dial func(t *testing.T, w *world, over wire, url string, k kind) (client, error)
}

// kind is what a client can do and who it is.
type kind struct {
	ask    func(question string) (action string) // a person who can be asked; nil if there is none
	hears  chan<- progress                       // what the server says while a call goes on
	token  string                                // of the caller, over HTTP
	resume bool                                  // takes up streams that broke off, where the client can choose
}

// progress is a notification.
type progress struct {
	token   any
	n       float64
	message string
}

func allPeers() []peer { return []peer{{"sdk", dialSDK}, {"mcp-go", dialMCPGo}} }

func dialSDK(t *testing.T, w *world, over wire, url string, k kind) (client, error) {
	return connectSDK(t, k.sdkOptions(), func(tp *tap) mcp.Transport {
		switch {
		case over.http != nil:
			return tp.web(t, url, k)
		case over.name == "stdio":
			return tp.pipe(&mcp.CommandTransport{Command: w.child()})
		default:
			return tp.pipe(w.memory(t))
		}
	})
}

// memory connects the server to one end of a transport in memory, and returns the other.
func (w *world) memory(t *testing.T) mcp.Transport {
	t.Helper()
	here, there := mcp.NewInMemoryTransports()
	w.attach(t, there)
	return here
}

// attach serves a session until its client ends it.
func (w *world) attach(t *testing.T, over mcp.Transport) {
	t.Helper()
	serving, err := w.server.Connect(t.Context(), over, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = serving.Wait() })
}

func dialMCPGo(t *testing.T, w *world, over wire, url string, k kind) (client, error) {
	switch {
	case over.http != nil:
		web, err := mcpgoWeb(t, url, k)
		if err != nil {
			return nil, err
		}
		return connectMCPGo(t, web, k)
	case over.name == "stdio":
		return connectMCPGo(t, mcpgoChild(w.child()), k)
	default:
		fromServer, serverOut := io.Pipe()
		serverIn, toServer := io.Pipe()
		w.attach(t, &mcp.IOTransport{Reader: serverIn, Writer: serverOut})
		return connectMCPGo(t, mcpgoPipe(fromServer, toServer), k)
	}
}

// TestMatrix_M05_M06_M07_EveryClientTransportAndRevision: one script in each cell.
func TestMatrix_M05_M06_M07_EveryClientTransportAndRevision(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	for _, p := range allPeers() {
		for _, over := range wires() {
			for _, revision := range revisions() {
				t.Run(fmt.Sprintf("%s/%s/%s", p.name, over.name, revision), func(t *testing.T) {
					t.Parallel()
					x := &exam{t: t, peer: p, wire: over, w: newWorld(t, pool, func(plan *plan) { plan.Revisions = []string{revision} })}
					if over.http != nil {
						x.url = x.w.serve(over.http, nil)
					}
					if why, refused := impossible(over, revision); why != "" {
						x.refused(refused[p.name], why)
						return
					}
					x.all(revision)
				})
			}
		}
	}
}

// exam is the script in one cell.
type exam struct {
	t    *testing.T
	peer peer
	wire wire
	w    *world
	url  string
	c    client // the session that most calls go over
}

func (x *exam) dial() client {
	x.t.Helper()
	c, err := x.peer.dial(x.t, x.w, x.wire, x.url, kind{})
	if err != nil {
		x.t.Fatal(err)
	}
	return c
}

// refused: in a cell that cannot be, no call gets through.
func (x *exam) refused(says, why string) {
	c, err := x.peer.dial(x.t, x.w, x.wire, x.url, kind{})
	if err == nil {
		_, err = c.call(x.t.Context(), call{args: `{"order":"A-1","cents":1}`, key: "key"})
	}
	if err == nil || !strings.Contains(err.Error(), says) {
		x.t.Errorf("got %v, want an error that says %q: %s", err, says, why)
	}
	x.w.wantEffects("A-1", 0)
}

func (x *exam) all(revision string) {
	x.c = x.dial()
	if got := x.c.revision(); got != revision {
		x.t.Fatalf("negotiated %s, want %s", got, revision)
	}
	other := x.dial()
	x.repeated(other)
	x.reworded()
	x.mismatch()
	x.inProgress(other)
	x.failure()
	x.panics()
}

// repeated: the same call under a new request id, and on a new session.
func (x *exam) repeated(other client) {
	for order, key := range map[string]string{"A-1": "key 1", "A-2": ""} {
		c := call{args: fmt.Sprintf(`{"order":%q,"cents":1050}`, order), key: key}
		first := must(x.t, x.c, c)
		wantFirst(x.t, first)
		wantReplay(x.t, first, must(x.t, x.c, c))
		wantReplay(x.t, first, must(x.t, other, c))
		x.w.wantEffects(order, 1)
	}
}

// reworded: another spelling, and another text where it does not count, under the same key.
func (x *exam) reworded() {
	first := must(x.t, x.c, call{args: `{"order":"B-1","cents":1050,"memo":"wrong size"}`, key: "key 2"})
	wantFirst(x.t, first)
	wantReplay(x.t, first, must(x.t, x.c, call{args: `{"memo":"It does not fit.","cents":1.05e3,"order":"B-1"}`, key: "key 2"}))
	wantReplay(x.t, first, must(x.t, x.c, call{args: `{"memo":"so so","order":"B-1","cents":1050.0,"idempotency_key":"key 2"}`}))
	first = must(x.t, x.c, call{args: `{"order":"B-2","cents":1,"idempotency_key":"key 3"}`})
	wantFirst(x.t, first)
	wantReplay(x.t, first, must(x.t, x.c, call{args: `{"idempotency_key":"key 3","memo":"again","order":"B-2","cents":1}`}))
	x.w.wantEffects("B-1", 1)
	x.w.wantEffects("B-2", 1)
}

// mismatch: other arguments under a key that is taken.
func (x *exam) mismatch() {
	first := must(x.t, x.c, call{args: `{"order":"C-1","cents":1}`, key: "key 4"})
	const says = "used before, for other arguments: /cents, /order differ. Nothing was done."
	wantRefusal(x.t, must(x.t, x.c, call{args: `{"order":"C-2","cents":2}`, key: "key 4"}), "key_reused", says)
	wantRefusal(x.t, must(x.t, x.c, call{args: `{"order":"C-2","cents":2,"idempotency_key":"key 4"}`}), "key_reused", says)
	wantReplay(x.t, first, must(x.t, x.c, call{args: `{"order":"C-1","cents":1}`, key: "key 4"}))
	x.w.wantEffects("C-1", 1)
	x.w.wantEffects("C-2", 0)
}

// inProgress: a duplicate that comes while the first call runs.
func (x *exam) inProgress(other client) {
	c := call{args: `{"order":"hold-1","cents":1}`, key: "key 5"}
	answers := start(x.t, x.c, c)
	x.w.gate.await(x.t, "hold-1")
	running := must(x.t, other, c)
	x.w.gate.release("hold-1")
	wantRefusal(x.t, running, "in_progress", "Wait 1 second, then repeat exactly the same call")
	first := <-answers
	wantFirst(x.t, first)
	if running.id() != first.id() || running.field("repeat_same_call") != true {
		x.t.Errorf("in progress: %+v, of the call %v", running, first.id())
	}
	wantReplay(x.t, first, must(x.t, other, c))
	x.w.wantEffects("hold-1", 1)
}

// failure: a "no" that is recorded. Its text has the number of the run.
func (x *exam) failure() {
	c := call{args: `{"order":"closed-1","cents":1}`, key: "key 6"}
	first, again, more := must(x.t, x.c, c), must(x.t, x.c, c), must(x.t, x.c, c)
	wantRefusal(x.t, first, "failed", "order_closed: order closed-1 is closed (run ")
	wantRefusal(x.t, again, "failed", "(Recorded outcome of an earlier identical call; it was not tried again.")
	said, _, _ := strings.Cut(first.text(), " (This outcome is recorded")
	if !strings.HasPrefix(again.text(), said) || !again.replayed() || first.replayed() || first.id() != again.id() {
		x.t.Errorf("first %+v, again %+v", first, again)
	}
	if more.Structured != again.Structured || more.text() != again.text() {
		x.t.Errorf("the recorded failure changes: %+v, then %+v", again, more)
	}
	x.w.wantEffects("closed-1", 0)
}

// panics: the server lives, and nothing is recorded.
func (x *exam) panics() {
	c := call{args: `{"order":"panic-1","cents":1}`, key: "key 7"}
	for range 2 {
		wantRefusal(x.t, must(x.t, x.c, c), "tool_fault", "Nothing was changed by this call. Do not repeat it")
	}
	x.w.wantEffects("panic-1", 0)
	c = call{args: `{"order":"D-1","cents":1}`, key: "key 8"}
	first := must(x.t, x.c, c)
	wantFirst(x.t, first)
	wantReplay(x.t, first, must(x.t, x.c, c))
	x.w.wantEffects("D-1", 1)
}
