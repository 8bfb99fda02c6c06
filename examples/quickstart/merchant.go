package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/txonce/txonce/outbox/webhook"
)

// merchant is who sold what is refunded, and is told of each refund by a signed webhook. The endpoint is a bad one: it fails, hangs
// and cuts connections, before and after it has taken a message. It minds the id of a message: what comes again it does not
// take again.
type merchant struct {
	seed     uint64
	verifier *standardwebhooks.Webhook
	host     *host
	hooks    *webhook.Publisher // the way to it

	mu       sync.Mutex
	attempts int
	forged   int               // attempts without a good signature
	confused int               // messages that came again with another idempotency key
	keys     map[string]string // of what it has taken, by id
	came     map[string]int    // attempts, by order
	took     map[string]int    // messages that it has taken, by order
}

// openMerchant serves the endpoint on this machine, which is why plain HTTP and a private address are allowed.
func openMerchant(ctx context.Context, seed uint64) (*merchant, error) {
	raw := make([]byte, 32)
	_, _ = rand.Read(raw) // it never fails
	secret := "whsec_" + base64.StdEncoding.EncodeToString(raw)
	m := &merchant{seed: seed, keys: make(map[string]string), came: make(map[string]int), took: make(map[string]int)}
	var err error
	if m.verifier, err = standardwebhooks.NewWebhook(secret); err != nil {
		return nil, err
	}
	if m.host, err = listen(ctx, loopback, "/webhooks", m); err != nil {
		return nil, err
	}
	m.hooks, err = webhook.New(&webhook.Config{URL: m.host.url, Secrets: []string{secret}, AllowHTTP: true, AllowPrivate: true})
	if err != nil {
		m.host.close()
	}
	return m, err
}

func (m *merchant) close() {
	m.hooks.CloseIdleConnections()
	m.host.close()
}

func (m *merchant) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the sender is gone
	}
	var notice RefundNotice
	if errors.Join(m.verifier.Verify(body, r.Header), json.Unmarshal(body, &notice)) != nil {
		m.change(func() { m.attempts++; m.forged++ })
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	var met trouble
	m.change(func() {
		m.attempts++
		m.came[notice.OrderID]++
		met = troubleFor(m.seed, notice.OrderID, m.came[notice.OrderID])
		if met != failsBefore && met != cutsBefore {
			m.take(r.Header.Get("Webhook-Id"), r.Header.Get("Idempotency-Key"), notice.OrderID)
		}
	})
	switch met {
	case failsBefore, failsAfter:
		w.WriteHeader(http.StatusInternalServerError)
	case cutsBefore, cutsAfter:
		cut()
	case hangs:
		select {
		case <-r.Context().Done():
		case <-time.After(longestHold):
		}
		cut()
	case noTrouble:
		w.WriteHeader(http.StatusNoContent)
	}
}

// take is called with the mutex held.
func (m *merchant) take(id, key, order string) {
	known, again := m.keys[id]
	switch {
	case !again:
		m.keys[id] = key
		m.took[order]++
	case known != key:
		m.confused++
	}
}

func (m *merchant) change(does func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	does()
}

// notices is what came of the webhooks.
type notices struct {
	webhooks   int // refunds in the database: the merchant is to be told of each
	attempts   int // requests that reached the merchant
	accepted   int // messages that it took
	duplicates int // of them, those beyond the first of an order
	lost       int // refunds that it was not told of
	forged     int
	confused   int
}

// noticesOf counts by the refunds that there are, by order.
func (m *merchant) noticesOf(refunds map[string]int) notices {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := notices{attempts: m.attempts, accepted: len(m.keys), forged: m.forged, confused: m.confused}
	for order, rows := range refunds {
		n.webhooks += rows
		n.lost += max(0, rows-m.took[order])
	}
	for _, took := range m.took {
		n.duplicates += took - 1
	}
	return n
}
