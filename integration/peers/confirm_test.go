package peers

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// conversation is a wire and a revision on which the server can reach the client while a call goes on.
type conversation struct {
	wire     wire
	revision string
	pool     *pgxpool.Pool
}

func (c conversation) String() string { return c.wire.name + "/" + c.revision }

func conversations() []conversation {
	return []conversation{
		{wire: wire{name: "memory"}, revision: revision2026},
		{wire: wire{name: "memory"}, revision: revision2025Nov},
		{wire: wire{"stateless", &mcp.StreamableHTTPOptions{Stateless: true}}, revision: revision2026},
		{wire: wire{"stateful", &mcp.StreamableHTTPOptions{}}, revision: revision2025Nov},
	}
}

// person is asked by the client.
type person struct {
	t     *testing.T
	says  string
	asked atomic.Int64
}

func (p *person) ask(question string) string {
	if p.asked.Add(1); question != "Refund 1050 cents for order A-1?" {
		p.t.Errorf("the person is asked %q", question)
	}
	return p.says
}

func (p *person) wantAsked(want int64) {
	p.t.Helper()
	if got := p.asked.Load(); got != want {
		p.t.Errorf("the person was asked %d times, want %d", got, want)
	}
}

var confirmedCall = call{tool: toolConfirmed, args: `{"order":"A-1","cents":1050}`, key: "key"}

// each runs a test in each conversation with each library's client.
func each(t *testing.T, do func(t *testing.T, c conversation, p peer)) {
	pool := newPool(t)
	for _, c := range conversations() {
		c.pool = pool
		for _, p := range allPeers() {
			t.Run(fmt.Sprintf("%s/%s", c, p.name), func(t *testing.T) {
				t.Parallel()
				do(t, c, p)
			})
		}
	}
}

// talk makes a world for a conversation.
func (c conversation) talk(t *testing.T, change func(*plan)) (w *world, url string) {
	t.Helper()
	w = newWorld(t, c.pool, func(p *plan) {
		p.Revisions = []string{c.revision}
		if change != nil {
			change(p)
		}
	})
	if c.wire.http != nil {
		url = w.serve(c.wire.http, nil)
	}
	return w, url
}

// TestConfirm_M08_WhatThePersonSays: yes, no, neither, and a client that cannot ask. Since 2026-07-28 the client asks between two requests, up to
// 2025-11-25 the server asks it.
func TestConfirm_M08_WhatThePersonSays(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, c conversation, p peer) {
		w, url := c.talk(t, nil)
		dial := func(k kind) client {
			session, err := p.dial(t, w, c.wire, url, k)
			if err != nil {
				t.Fatal(err)
			}
			return session
		}
		wantRefusal(t, must(t, dial(kind{}), confirmedCall), "confirmation_needed", "it does not support elicitation. Nothing was done.")
		for said, refusal := range map[string][2]string{
			"decline": {"declined", "The person who was asked said no. Nothing was done. Do not repeat this call"},
			"cancel":  {"confirmation_needed", "The person who was asked did not decide. Nothing was done."},
		} {
			person := &person{t: t, says: said}
			session := dial(kind{ask: person.ask})
			wantRefusal(t, must(t, session, confirmedCall), refusal[0], refusal[1])
			wantRefusal(t, must(t, session, confirmedCall), refusal[0], refusal[1]) // nothing is recorded: asked again
			person.wantAsked(2)
		}
		w.wantEffects("A-1", 0)
		yes := &person{t: t, says: "accept"}
		session := dial(kind{ask: yes.ask})
		first := must(t, session, confirmedCall)
		wantFirst(t, first)
		wantReplay(t, first, must(t, session, confirmedCall))
		wantReplay(t, first, must(t, dial(kind{}), confirmedCall)) // what is done needs no person
		yes.wantAsked(1)
		w.wantEffects("A-1", 1)
	})
}

// TestConfirm_M08_M07_LostAnswerIsNotAskedForAgain: the person said yes, the call has committed, and its answer was lost.
func TestConfirm_M08_M07_LostAnswerIsNotAskedForAgain(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, c conversation, p peer) {
		if c.wire.http == nil {
			c.wire, c.revision = wire{"stateless_json", &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true}}, revision2026
		}
		w, url := c.talk(t, nil)
		yes := &person{t: t, says: "accept"}
		r := &resender{t: t, w: w, peer: p, wire: c.wire, proxy: newProxy(t, url), kind: kind{ask: yes.ask}}
		r.dial()
		r.proxy.lose(lastMessage)
		if a, err := r.c.call(t.Context(), confirmedCall); err == nil {
			t.Fatalf("the answer was not lost: %+v", a)
		}
		again := r.until(confirmedCall)
		if again.IsError || !again.replayed() {
			t.Errorf("the call that was sent again got %+v", again)
		}
		wantSame(t, again, r.until(confirmedCall))
		yes.wantAsked(1)
		w.wantEffects("A-1", 1)
	})
}

// TestConfirm_M08_NoSessionNoQuestion: a stateless server cannot ask a client of an older revision, and does not know whether it could. The
// call is refused, not done unasked.
func TestConfirm_M08_NoSessionNoQuestion(t *testing.T) {
	t.Parallel()
	for _, p := range allPeers() {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			c := conversation{wire{"stateless", &mcp.StreamableHTTPOptions{Stateless: true}}, revision2025Nov, newPool(t)}
			w, url := c.talk(t, nil)
			yes := &person{t: t, says: "accept"}
			session, err := p.dial(t, w, c.wire, url, kind{ask: yes.ask})
			if err != nil {
				t.Fatal(err)
			}
			wantRefusal(t, must(t, session, confirmedCall), "confirmation_needed", "Nothing was done.")
			yes.wantAsked(0)
			w.wantEffects("A-1", 0)
		})
	}
}
