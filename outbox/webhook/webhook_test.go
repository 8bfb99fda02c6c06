package webhook_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/txonce/txonce/outbox"
	"github.com/txonce/txonce/outbox/webhook"
)

// secret makes the n-th secret.
func secret(n int) string {
	return "whsec_" + base64.StdEncoding.EncodeToString([]byte(fmt.Sprintf("secret number %18d", n)))
}

func TestNew_O07_RefusesWhatIsWrong(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cfg  *webhook.Config
		want string
	}{
		"nil":               {nil, ""},
		"fixed":             {&webhook.Config{URL: "https://pay.example/v1?x=1", Secrets: []string{secret(1), secret(2)}}, ""},
		"low port":          {&webhook.Config{URL: "https://pay.example:900/"}, ""}, // the operator's choice, not a customer's
		"in-house":          {&webhook.Config{URL: "http://10.1.2.3/", AllowHTTP: true, Allow: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}}, ""},
		"private":           {&webhook.Config{URL: "https://10.1.2.3/"}, "Config.URL leads to 10.1.2.3"},
		"no TLS":            {&webhook.Config{URL: "http://pay.example/"}, "Config.URL has no TLS"},
		"no host":           {&webhook.Config{URL: "https:///v1"}, "no host"},
		"no port":           {&webhook.Config{URL: "https://pay.example:0/"}, "port"},
		"garbage":           {&webhook.Config{URL: "https://pay.example/%zz?token=123"}, "Config.URL is no URL"},
		"no secret":         {&webhook.Config{Secrets: []string{""}}, "Config.Secrets: secret 1 has 0 bytes"},
		"short secret":      {&webhook.Config{Secrets: []string{secret(1), "whsec_QUJD"}}, "secret 2 has 3 bytes"},
		"no base64":         {&webhook.Config{Secrets: []string{"whsk_QUJD"}}, "secret 1 is not base64"},
		"many secrets":      {&webhook.Config{Secrets: make([]string, 11)}, "at most 10"},
		"both":              {&webhook.Config{Secrets: []string{secret(1)}, SecretsFor: secretsFor()}, "keep one"},
		"key in the length": {&webhook.Config{KeyHeader: "Content-Length"}, "KeyHeader"},
		"key in the id":     {&webhook.Config{KeyHeader: "webhook-id"}, "KeyHeader"},
		"key in the type":   {&webhook.Config{KeyHeader: "content-type"}, "KeyHeader"},
		"key with a space":  {&webhook.Config{KeyHeader: "My Key"}, "KeyHeader"},
		"provider id":       {&webhook.Config{ProviderIDHeader: "a:b"}, "ProviderIDHeader"},
		"agent":             {&webhook.Config{UserAgent: "a\r\nb: c"}, "UserAgent"},
		"response":          {&webhook.Config{MaxResponse: 65537}, "MaxResponse"},
		"negative":          {&webhook.Config{MaxResponse: -1}, "MaxResponse"},
		"prefix":            {&webhook.Config{Allow: []netip.Prefix{{}}}, "Config.Allow"},
	} {
		_, err := webhook.New(c.cfg)
		if (err == nil) != (c.want == "") || err != nil && (!strings.HasPrefix(err.Error(), "webhook: ") || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && (strings.Contains(err.Error(), "token") || strings.Contains(err.Error(), "QUJD")) {
			t.Errorf("%s: the error has the secret in it: %v", name, err)
		}
	}
}

func TestCheck_O07_Addresses(t *testing.T) {
	t.Parallel()
	p := newPublisher(t, webhook.Config{})
	plain := newPublisher(t, webhook.Config{AllowHTTP: true})
	for address, want := range map[string]string{
		"https://a.example":                              "",
		"https://a.example/x?y=z":                        "",
		"https://a.example:443/":                         "",
		"https://a.example:1024/":                        "",
		"https://a.example:65535/":                       "",
		"https://1.1.1.1/":                               "",
		"https://[2606:4700::1111]/":                     "",
		"":                                               "Address is empty",
		"a.example":                                      "scheme",
		"//a.example/":                                   "scheme",
		"file:///etc/passwd":                             "scheme",
		"gopher://a.example/":                            "scheme",
		"https:a.example":                                "no host",
		"https://:443/":                                  "no host",
		"https://user@a.example/":                        "user",
		"https://user:word@a.example/":                   "user",
		"https://a.example/#f":                           "fragment",
		"https://a.example/#":                            "fragment",
		"https://a.example:25/":                          "port 25",
		"https://a.example:80/":                          "port 80",
		"https://a.example:1023/":                        "port 1023",
		"https://a.example:65536/":                       "port",
		"https://a.example/\r\nX-A: b":                   "no URL",
		"https://a example/":                             "no URL",
		"https://127.0.0.1/":                             "127.0.0.1",
		"https://[::1]/":                                 "::1",
		"https://[::ffff:10.0.0.1]/":                     "10.0.0.1",
		"https://[fe80::1%25eth0]/":                      "fe80::1",
		"https://a.example/" + strings.Repeat("a", 2030): "",
		"https://a.example/" + strings.Repeat("a", 2031): "2049 bytes",
	} {
		err := p.Check(outbox.Message{Address: address})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v", address, err)
		}
	}
	for address, good := range map[string]bool{"http://a.example/": true, "http://a.example:80/": true, "http://a.example:443/": true, "http://a.example:81/": false} {
		if err := plain.Check(outbox.Message{Address: address}); (err == nil) != good {
			t.Errorf("%q: %v", address, err)
		}
	}
}

// TestCheck_O07_HeadersOfTheConnectionAreNotTheMessages, in none of the spellings that receivers take for one another.
func TestCheck_O07_HeadersOfTheConnectionAreNotTheMessages(t *testing.T) {
	t.Parallel()
	p := newPublisher(t, webhook.Config{URL: "https://a.example/", KeyHeader: "X-Request-Key"})
	for _, name := range []string{
		"Webhook-Id", "webhook-timestamp", "WEBHOOK-SIGNATURE", "Webhook_Id", "X-Request-Key", "x_request_key", "User-Agent",
		"Host", "Content-Length", "content_length", "Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authorization", "Proxy-Authenticate",
		"TE", "Trailer", "Transfer-Encoding", "Transfer_Encoding", "Upgrade", "Expect", "HTTP2-Settings",
		"", "a b", "a:b", "a\r\nb", "ä", ":path",
	} {
		if err := p.Check(outbox.Message{Headers: map[string]string{name: "1"}}); err == nil {
			t.Errorf("%q is taken", name)
		}
	}
	for _, value := range []string{"a\r\nb: c", "a\nb", "a\x00", "ä", " a", "a ", "\ta"} {
		if err := p.Check(outbox.Message{Headers: map[string]string{"X-A": value}}); err == nil {
			t.Errorf("%q is taken", value)
		}
	}
	for _, name := range []string{"Content-Type", "Content-Encoding", "Authorization", "X-A", "x_a", "Idempotency-Key", "ce-id", "traceparent"} {
		if err := p.Check(outbox.Message{Headers: map[string]string{name: "a b"}}); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func secretsFor(secrets ...string) func(context.Context, outbox.Delivery) ([]string, error) {
	return func(context.Context, outbox.Delivery) ([]string, error) { return secrets, nil }
}
