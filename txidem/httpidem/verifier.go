package httpidem

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// Verifier decides whether an event was sent by its source. It gets the raw bytes of the body, of which nothing has been
// parsed, and returns the event's id, which must be a part of what is signed: the same one for each delivery of the event.
type Verifier interface {
	Verify(h http.Header, body []byte) (id string, err error)
}

// VerifierFunc makes a [Verifier] of a function, for sources with a scheme of their own.
type VerifierFunc func(h http.Header, body []byte) (id string, err error)

// Verify calls the function.
func (f VerifierFunc) Verify(h http.Header, body []byte) (string, error) { return f(h, body) }

// StandardWebhooks verifies signatures of the kind v1 of standardwebhooks.com (HMAC-SHA256; headers webhook-id,
// webhook-timestamp, webhook-signature), which are good for five minutes to both sides. Secrets are as the source shows them: "whsec_"
// and base64. Several are for rotation: one that fits is enough.
func StandardWebhooks(secrets ...string) (Verifier, error) {
	if len(secrets) == 0 {
		return nil, errors.New("httpidem: StandardWebhooks needs a secret; without one everybody could sign")
	}
	hooks := make([]*standardwebhooks.Webhook, len(secrets))
	for i, secret := range secrets {
		hook, err := standardwebhooks.NewWebhook(secret)
		switch {
		case err != nil:
			return nil, fmt.Errorf("httpidem: secret %d is not base64 behind whsec_; copy it from the source as it is shown: %w", i+1, err)
		case strings.Trim(strings.TrimPrefix(secret, "whsec_"), "\r\n") == "": // base64 takes no notice of line ends
			return nil, fmt.Errorf("httpidem: secret %d is empty; with it everybody could sign", i+1)
		}
		hooks[i] = hook
	}
	return VerifierFunc(func(h http.Header, body []byte) (string, error) {
		var all error
		for _, hook := range hooks {
			err := hook.Verify(body, h)
			if err == nil {
				return h.Get(standardwebhooks.HeaderWebhookID), nil
			}
			all = errors.Join(all, err)
		}
		return "", all
	}), nil
}
