package httpidem_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/txidem"
	"github.com/txonce/txonce/txidem/httpidem"
)

// innerErrors are what calls inside a handler (RunTx, or a store of somebody else's) end with.
func innerErrors() map[string]error {
	return map[string]error{
		"in progress": &txidem.InProgressError{Tool: "inner", RetryAfter: time.Second},
		"key reused":  &txidem.KeyReusedError{Tool: "inner", Paths: []string{"/secret"}},
		"expired":     &txidem.ExpiredError{Tool: "inner", FinishedAt: time.Now()},
		"not allowed": fmt.Errorf("secret: %w", txidem.ErrNotAllowed),
		"quota":       fmt.Errorf("secret: %w", txidem.ErrQuota),
		"scope":       fmt.Errorf("secret: %w", txidem.ErrScope),
		"key":         fmt.Errorf("secret: %w", txidem.ErrKey),
	}
}

// TestHandler_H02_ErrorOfAnInnerCallIsNotTheRequests: an error that the handler returns is about what it called, and the request
// itself was rolled back.
func TestHandler_H02_ErrorOfAnInnerCallIsNotTheRequests(t *testing.T) {
	t.Parallel()
	for name, inner := range innerErrors() {
		h := protect(t, memory(t, nil), nil, func(http.ResponseWriter, *http.Request, pgx.Tx) error { return fmt.Errorf("refund: %w", inner) })
		a := ask(h, "POST", "/x", "", "Idempotency-Key", "k")
		if a.status < 500 || strings.Contains(a.body, "secret") {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
}

// TestWebhook_H03_ErrorOfAnInnerCallIsNotTheEvents: nothing was recorded, so the source has to try again.
func TestWebhook_H03_ErrorOfAnInnerCallIsNotTheEvents(t *testing.T) {
	t.Parallel()
	for name, inner := range innerErrors() {
		h, err := httpidem.Webhook(memory(t, nil), &httpidem.WebhookConfig{
			Source: "s", Verifier: httpidem.VerifierFunc(func(http.Header, []byte) (string, error) { return "a", nil }),
		}, func(context.Context, pgx.Tx, httpidem.Event) error { return fmt.Errorf("settle: %w", inner) })
		if err != nil {
			t.Fatal(err)
		}
		if a := ask(h, "POST", "/", ""); a.status < 500 || strings.Contains(a.body, "secret") {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
}
