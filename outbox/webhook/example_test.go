package webhook_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/txonce/txonce/outbox"
	"github.com/txonce/txonce/outbox/webhook"
)

// The receiver is anybody who knows Standard Webhooks; here it is a test server, so plain HTTP to this machine is allowed.
func ExampleNew() {
	const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

	verifier, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		log.Fatal(err)
	}
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Printf("received %s, signature: %v, key: %s\n", body, verifier.Verify(body, r.Header), r.Header.Get("Idempotency-Key"))
		w.Header().Set("Request-Id", "ch_1")
	}))
	defer receiver.Close()

	hooks, err := webhook.New(&webhook.Config{
		URL:              receiver.URL + "/v1/charges",
		Secrets:          []string{secret},
		ProviderIDHeader: "Request-Id",
		AllowHTTP:        true,
		AllowPrivate:     true,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer hooks.CloseIdleConnections()

	// An outbox does this: outbox.New(pool, nil, outbox.Destination{Name: "payments", Publisher: hooks}).
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out, err := hooks.Deliver(ctx, outbox.Delivery{Key: "charge-A-1", Body: []byte(`{"cents":1050}`), Attempt: 1})
	fmt.Println(out.Class == outbox.Delivered, out.Status, out.ProviderID, err)
	// Output:
	// received {"cents":1050}, signature: <nil>, key: "charge-A-1"
	// true 200 ch_1 <nil>
}

// Customers name the URLs themselves, and each has a secret of its own. What they may name is checked when the message is published.
func ExampleNew_addresses() {
	hooks, err := webhook.New(&webhook.Config{
		SecretsFor: func(_ context.Context, d outbox.Delivery) ([]string, error) {
			return []string{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}, nil // look up the one of d.Address
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, address := range []string{
		"https://customer.example/hooks",
		"http://customer.example/hooks",
		"https://169.254.169.254/latest/meta-data/",
		"https://customer.example:25/",
	} {
		fmt.Println(hooks.Check(outbox.Message{Address: address}))
	}
	// Output:
	// <nil>
	// webhook: Message.Address has no TLS; use https://, or set Config.AllowHTTP
	// webhook: Message.Address leads to 169.254.169.254, which is not a public address; use a public one, or see Config.Allow
	// webhook: Message.Address has the port 25, which is of another protocol; use 443 (80 for http), or one from 1024 on
}
