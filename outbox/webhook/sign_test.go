package webhook_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/txonce/txonce/outbox"
	"github.com/txonce/txonce/outbox/webhook"
	"github.com/txonce/txonce/toolcall"
)

// verifies reports whether the signature is good under a secret.
func verifies(t *testing.T, secret string, h http.Header, body []byte) bool {
	t.Helper()
	hook, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	return hook.Verify(body, h) == nil
}

func TestDeliver_O07_Signatures(t *testing.T) {
	t.Parallel()
	id := toolcall.NewID("a", "b", "c")
	for name, c := range map[string]struct {
		cfg       webhook.Config
		good, bad []string
	}{
		"none":          {webhook.Config{}, nil, []string{secret(1)}},
		"one":           {webhook.Config{Secrets: []string{secret(1)}}, []string{secret(1)}, []string{secret(2)}},
		"rotation":      {webhook.Config{Secrets: []string{secret(2), secret(1)}}, []string{secret(1), secret(2)}, []string{secret(3)}},
		"for each":      {webhook.Config{SecretsFor: secretsFor(secret(3), secret(4))}, []string{secret(3), secret(4)}, []string{secret(1)}},
		"for each none": {webhook.Config{SecretsFor: secretsFor()}, nil, []string{secret(1)}},
	} {
		var h http.Header
		var body []byte
		p := at(t, c.cfg, func(_ http.ResponseWriter, r *http.Request) {
			h = r.Header
			body, _ = io.ReadAll(r.Body)
		})
		post(t, p, outbox.Delivery{ID: id, Body: []byte("{\"a\":\xff}\r\n")})
		for _, secret := range c.good {
			if !verifies(t, secret, h, body) || verifies(t, secret, h, append(body, ' ')) {
				t.Errorf("%s: the signature %q is not that of the body", name, h.Get("Webhook-Signature"))
			}
		}
		for _, secret := range c.bad {
			if verifies(t, secret, h, body) {
				t.Errorf("%s: it is signed with a secret that was not given", name)
			}
		}
		signatures := strings.Fields(h.Get("Webhook-Signature"))
		if len(signatures) != len(c.good) || h.Get("Webhook-Id") != id.String() || h.Get("Webhook-Timestamp") == "" {
			t.Errorf("%s: %v", name, h)
		}
	}
}

// TestDeliver_O07_FirstSecretSignsFirst, for receivers that look at one signature only.
func TestDeliver_O07_FirstSecretSignsFirst(t *testing.T) {
	t.Parallel()
	var h http.Header
	p := at(t, webhook.Config{Secrets: []string{secret(2), secret(1)}}, func(_ http.ResponseWriter, r *http.Request) { h = r.Header })
	post(t, p, outbox.Delivery{})
	first, _, _ := strings.Cut(h.Get("Webhook-Signature"), " ")
	h.Set("Webhook-Signature", first)
	if !verifies(t, secret(2), h, nil) {
		t.Errorf("the first signature is %q", first)
	}
}

func TestDeliver_O07_SecretsThatCannotBeHad(t *testing.T) {
	t.Parallel()
	for _, secretsFor := range []func(context.Context, outbox.Delivery) ([]string, error){
		func(context.Context, outbox.Delivery) ([]string, error) { return nil, errors.New("the vault is shut") },
		secretsFor("whsec_"),
	} {
		p := at(t, webhook.Config{SecretsFor: secretsFor}, func(http.ResponseWriter, *http.Request) { t.Error("it was sent") })
		if out := post(t, p, outbox.Delivery{}); out.Class != outbox.Retry || !strings.Contains(out.Reason, "secret") {
			t.Errorf("%+v", out)
		}
	}
}

// TestDeliver_O01_TheRequestAsItIs pins what goes over the wire.
func TestDeliver_O01_TheRequestAsItIs(t *testing.T) {
	t.Parallel()
	base := http.Header{
		"Accept-Encoding": nil, "Content-Length": {"2"}, "Content-Type": {"application/json"}, "User-Agent": {"txonce-webhook"},
		"Idempotency-Key": {`"a\"b\\c"`}, "Webhook-Id": {"00000000-0000-0000-0000-000000000000"},
	}
	for name, c := range map[string]struct {
		cfg     webhook.Config
		headers map[string]string
		change  http.Header
	}{
		"as it comes": {},
		"bare":        {webhook.Config{BareKey: true, UserAgent: "shop/1.0 (ops@shop.example)"}, nil, http.Header{"Idempotency-Key": {`a"b\c`}, "User-Agent": {"shop/1.0 (ops@shop.example)"}}},
		"other name":  {webhook.Config{KeyHeader: "x-request-key"}, nil, http.Header{"Idempotency-Key": nil, "X-Request-Key": {`"a\"b\\c"`}}},
		"headers": {
			webhook.Config{},
			map[string]string{"content-type": "text/plain; charset=utf-8", "traceparent": "00-1-2-03", "authorization": "Bearer x"},
			http.Header{"Content-Type": {"text/plain; charset=utf-8"}, "Traceparent": {"00-1-2-03"}, "Authorization": {"Bearer x"}},
		},
	} {
		var got *http.Request
		p := at(t, c.cfg, func(_ http.ResponseWriter, r *http.Request) { got = r })
		post(t, p, outbox.Delivery{Key: `a"b\c`, Body: []byte("{}"), Headers: c.headers})
		want := http.Header{}
		for _, h := range []http.Header{base, c.change} {
			for name, values := range h {
				if want[name] = values; values == nil {
					delete(want, name)
				}
			}
		}
		got.Header.Del("Webhook-Timestamp")
		if diff := cmp.Diff(want, got.Header); diff != "" || got.Method != "POST" || got.Proto != "HTTP/1.1" || !slices.Equal(got.TransferEncoding, nil) {
			t.Errorf("%s: %s %s, not as wanted:\n%s", name, got.Method, got.Proto, diff)
		}
	}
}

// TestDeliver_O07_PathAndQueryAsTheyAre: the URL is the receiver's, and may have its secret in it.
func TestDeliver_O07_PathAndQueryAsTheyAre(t *testing.T) {
	t.Parallel()
	var got, host string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got, host = r.RequestURI, r.Host }))
	t.Cleanup(server.Close)
	p := newPublisher(t, webhook.Config{AllowHTTP: true, AllowPrivate: true})
	for _, path := range []string{"/", "/a%2Fb//c/../d?x=1&y=%20+;z", "/hooks?token=s3cret"} {
		if out := post(t, p, outbox.Delivery{Address: server.URL + path}); out.Class != outbox.Delivered || got != path || host != server.Listener.Addr().String() {
			t.Errorf("%s became %s at %s: %+v", path, got, host, out)
		}
	}
	server.Close()
	p.CloseIdleConnections()
	if out := post(t, p, outbox.Delivery{Address: server.URL + "/hooks?token=s3cret"}); out.Class != outbox.Retry || strings.Contains(out.Reason, "s3cret") {
		t.Errorf("%+v", out)
	}
}
