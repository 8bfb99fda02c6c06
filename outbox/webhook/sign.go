package webhook

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

type signer = *standardwebhooks.Webhook

// leastSecret is from the specification: 192 bits.
const leastSecret = 24

// signersOf reads secrets. Its errors do not repeat them.
func signersOf(secrets []string) ([]signer, error) {
	if len(secrets) > mostSecrets {
		return nil, fmt.Errorf("%d secrets; use at most %d", len(secrets), mostSecrets)
	}
	signers := make([]signer, len(secrets))
	for i, secret := range secrets {
		raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
		switch {
		case err != nil:
			return nil, fmt.Errorf("secret %d is not base64 behind whsec_", i+1)
		case len(raw) < leastSecret:
			return nil, fmt.Errorf("secret %d has %d bytes; make one of at least %d random bytes", i+1, len(raw), leastSecret)
		}
		if signers[i], err = standardwebhooks.NewWebhookRaw(raw); err != nil {
			return nil, fmt.Errorf("secret %d: %w", i+1, err)
		}
	}
	return signers, nil
}

// sign sets the three headers of the specification. The timestamp is that of the attempt: receivers refuse old ones.
func sign(h http.Header, signers []signer, id string, body []byte, at time.Time) error {
	h.Set(standardwebhooks.HeaderWebhookID, id)
	h.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(at.Unix(), 10))
	var signatures []string
	for _, signer := range signers {
		signature, err := signer.Sign(id, at, body)
		if err != nil {
			return err
		}
		signatures = append(signatures, signature)
	}
	if signatures != nil {
		h.Set(standardwebhooks.HeaderWebhookSignature, strings.Join(signatures, " "))
	}
	return nil
}
