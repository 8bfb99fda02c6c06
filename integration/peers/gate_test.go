package peers

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
)

// gate is where handlers wait, whichever process they are in, so that tests have their moment without a sleep.
type gate struct {
	url     string
	arrived chan string // the order of each handler that came
	left    chan string // the order of each handler that was cancelled here

	mu    sync.Mutex
	open  map[string]chan struct{}
	taken map[string]bool
}

func newGate(t *testing.T) *gate {
	t.Helper()
	g := &gate{arrived: make(chan string, 64), left: make(chan string, 64), open: make(map[string]chan struct{}), taken: make(map[string]bool)}
	server := httptest.NewServer(g)
	t.Cleanup(server.Close) // waits until all have passed
	g.url = server.URL
	return g
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	order := r.URL.Query().Get("order")
	g.arrived <- order
	defer w.WriteHeader(http.StatusNoContent)
	door, free := g.enter(order)
	if !free {
		return
	}
	defer g.leave(order)
	select {
	case <-door:
	case <-r.Context().Done():
		g.left <- order
	}
}

// enter returns the order's door, and whether to wait there. Where one waits already the call runs twice: it is let through, so that the
// test sees a wrong answer instead of none.
func (g *gate) enter(order string) (door <-chan struct{}, free bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	free = !g.taken[order]
	g.taken[order] = true
	return g.door(order), free
}

func (g *gate) leave(order string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.taken[order] = false
}

// door is called under the lock.
func (g *gate) door(order string) chan struct{} {
	if g.open[order] == nil {
		g.open[order] = make(chan struct{})
	}
	return g.open[order]
}

// await returns when the order's handler has come, in a transaction that has its effect. A test that fails lets it go as well.
func (g *gate) await(t *testing.T, order string) {
	t.Helper()
	t.Cleanup(func() { g.release(order) })
	awaitFrom(t, g.arrived, order)
}

// awaitLeft returns when the order's handler has been cancelled while it waited.
func (g *gate) awaitLeft(t *testing.T, order string) {
	t.Helper()
	awaitFrom(t, g.left, order)
}

func awaitFrom(t *testing.T, orders <-chan string, want string) {
	t.Helper()
	select {
	case got := <-orders:
		if got != want {
			t.Fatalf("it is the handler of %s, want that of %s", got, want)
		}
	case <-t.Context().Done():
		t.Fatalf("the handler of %s did not come", want)
	}
}

// release lets the order's handler go on, and all that come later.
func (g *gate) release(order string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.door(order):
	default:
		close(g.door(order))
	}
}

// pass is the handler's side.
func pass(ctx context.Context, gate, order string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, gate+"?order="+url.QueryEscape(order), nil)
	if err != nil {
		return err
	}
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return fmt.Errorf("at the gate: %w", err)
	}
	return resp.Body.Close()
}
