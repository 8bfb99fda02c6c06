package httpidem_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/txidem"
	"github.com/txonce/txonce/txidem/httpidem"
)

// TestHandler_H01_InProgress: the second client is told when to come back, and gets the first one's response then.
func TestHandler_H01_InProgress(t *testing.T) {
	t.Parallel()
	entered, leave := make(chan struct{}), make(chan struct{})
	b := setup(t, nil, func(w http.ResponseWriter, r *http.Request, tx pgx.Tx) error {
		close(entered)
		<-leave
		return created(w, r, tx)
	})
	first := make(chan answer)
	go func() { first <- b.post("A-1", "k", `{}`) }()
	<-entered
	second := b.post("A-1", `"k"`, `{}`)
	b.want("second", second, 409, "in_progress", false)
	if second.header.Get("Retry-After") != "1" || second.document()["retry_after_seconds"] != 1.0 || second.document()["repeat_same_call"] != true || second.document()["call_id"] == nil {
		t.Errorf("%v %s", second.header, second.body)
	}
	b.want("another request, of which nothing can be known yet", b.post("A-1", "k", `{"other":1}`), 409, "in_progress", false)
	close(leave)
	b.want("first", <-first, 201, "", false)
	b.want("second, again", b.post("A-1", "k", `{}`), 201, "", true)
	b.want("the other one", b.post("A-1", "k", `{"other":1}`), 422, "key_reused", false)
	b.wantEffects(1)
}

// TestHandler_R01_ManyClientsAtOnce: one effect, and nobody gets another response.
func TestHandler_R01_ManyClientsAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil, func(cfg *pgxpool.Config) { cfg.MaxConns = 4 })
	b.serve(b.routes(nil, created))
	var all sync.WaitGroup
	var fresh atomic.Int32
	for range 32 {
		all.Go(func() {
			a, err := try(t.Context(), "POST", b.url+"/orders/A-1/refunds", `{}`, "Idempotency-Key", "k")
			if err != nil || a.status != 201 || a.body != `{"refund": "R-1"}` {
				t.Errorf("%v %+v", err, a)
			}
			if !a.replayed() {
				fresh.Add(1)
			}
		})
	}
	all.Wait()
	if n := fresh.Load(); n != 1 {
		t.Errorf("%d fresh responses", n)
	}
	b.wantEffects(1)
}

// TestHandler_H04_ResentByNetHTTP: when a reused connection is reset, the transport of net/http sends a request with this
// header once more, and its caller never knows.
func TestHandler_H04_ResentByNetHTTP(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	h := b.routes(nil, created)
	var arrived atomic.Int32
	b.serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/warm-up":
			return
		case arrived.Add(1) > 1:
			h.ServeHTTP(w, r)
			return
		}
		lost := httptest.NewRecorder() // all is done, and the response never leaves
		h.ServeHTTP(lost, r)
		if lost.Code != 201 {
			t.Errorf("first: %d %s", lost.Code, lost.Body)
		}
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		if tcp, ok := conn.(interface{ SetLinger(int) error }); ok {
			_ = tcp.SetLinger(0) // a reset
		}
		conn.Close()
	}))

	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}}
	defer client.CloseIdleConnections()
	for _, path := range []string{"/warm-up", "/orders/A-1/refunds"} { // only a reused connection is believed to have been stale
		r, err := http.NewRequestWithContext(t.Context(), "POST", b.url+path, strings.NewReader(`{}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Idempotency-Key", "k")
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if path != "/warm-up" && (resp.StatusCode != 201 || resp.Header.Get("Idempotent-Replayed") != "true") {
			t.Errorf("the caller got %d %v", resp.StatusCode, resp.Header)
		}
	}
	if n := arrived.Load(); n != 2 {
		t.Errorf("%d requests arrived, want 2", n)
	}
	b.wantEffects(1)
}

// TestHandler_R15_NoProtectionIsStillAResponse: the switch for emergencies.
func TestHandler_R15_NoProtectionIsStillAResponse(t *testing.T) {
	t.Parallel()
	b := setup(t, &httpidem.Config{Policy: &txidem.Policy{Disabled: true}}, func(w http.ResponseWriter, r *http.Request, tx pgx.Tx) error {
		if r.PathValue("id") == "B-1" {
			http.Error(w, "no", http.StatusUnprocessableEntity)
			return nil
		}
		return created(w, r, tx)
	})
	b.want("first", b.post("A-1", "k", `{}`), 201, "", false)
	b.want("with the same key", b.post("A-2", "k", `{}`), 201, "", false)
	b.want("refused", b.post("B-1", "k", `{}`), 422, "", false)
	b.wantEffects(2)
	if n := b.records(); n != 0 {
		t.Errorf("%d records", n)
	}
}
