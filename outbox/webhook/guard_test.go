package webhook_test

import (
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/txonce/txonce/outbox"
	"github.com/txonce/txonce/outbox/webhook"
)

func TestCheck_O07_AddressesThatAreNotPublic(t *testing.T) {
	t.Parallel()
	p := newPublisher(t, webhook.Config{})
	for _, c := range []struct {
		public bool
		ips    string
	}{
		{false, `0.0.0.0 0.1.2.3 10.0.0.1 10.255.255.255 100.64.0.1 100.127.255.255 127.0.0.1 127.1.2.3 169.254.169.254 169.254.170.2
			172.16.0.1 172.31.255.255 192.0.0.1 192.0.0.192 192.0.2.1 192.88.99.1 192.168.0.1 198.18.0.1 198.19.255.255 198.51.100.1 203.0.113.1
			224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255`},
		{true, `1.1.1.1 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.0 169.253.255.255 169.255.0.0
			172.15.255.255 172.32.0.0 192.0.1.0 192.167.255.255 192.169.0.0 198.17.255.255 198.20.0.0 223.255.255.255`},
		{false, `[::] [::1] [::2] [::127.0.0.1] [::8.8.8.8] [::ffff:127.0.0.1] [::ffff:169.254.169.254] [::ffff:0:8.8.8.8] [64:ff9b::7f00:1] [64:ff9b::808:808] [64:ff9b:1::1]
			[100::1] [2001::1] [2001:0:808:808::1] [2001:20::1] [2001:1ff::1] [2001:db8::1] [2002:7f00:1::] [2002:808:808::1] [3fff::1] [3fff:fff::1]
			[4000::1] [5f00::1] [fc00::1] [fd00:ec2::254] [fe80::1] [fe80::1%25lo] [febf::1] [fec0::1] [ff02::1] [ff0e::1]`},
		{true, `[2001:200::1] [2001:4860:4860::8888] [2606:4700::1111] [2a00::1] [3ffe::1] [::ffff:8.8.8.8]`},
	} {
		for _, ip := range strings.Fields(c.ips) {
			if err := p.Check(outbox.Message{Address: "https://" + ip + "/"}); (err == nil) != c.public {
				t.Errorf("%s: %v", ip, err)
			}
		}
	}
}

func TestCheck_O07_AllowedAddresses(t *testing.T) {
	t.Parallel()
	var allow []netip.Prefix
	for _, text := range []string{"10.1.0.0/16", "::ffff:10.2.0.0/112", "fd00:1::/32", "fe80::/64", "64:ff9b::/96"} {
		allow = append(allow, netip.MustParsePrefix(text))
	}
	p := newPublisher(t, webhook.Config{Allow: allow})
	for ip, good := range map[string]bool{
		"10.1.2.3": true, "[::ffff:10.1.2.3]": true, "10.2.3.4": true, "10.3.0.1": false, "127.0.0.1": false, "[fd00:1::1]": true, "[fd00:2::1]": false, "[fe80::1%25lo]": true,
		"[64:ff9b::808:808]": true, "[::1]": false, "8.8.8.8": true,
	} {
		if err := p.Check(outbox.Message{Address: "https://" + ip + "/"}); (err == nil) != good {
			t.Errorf("%s: %v", ip, err)
		}
	}
}

// TestDeliver_O07_NameThatLeadsInside: Check cannot know where a name leads, and it may lead elsewhere by then. The connection's own
// address is what counts.
func TestDeliver_O07_NameThatLeadsInside(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was connected to") }))
	t.Cleanup(server.Close)
	inside := "http://localhost:" + netip.MustParseAddrPort(server.Listener.Addr().String()).String()[len("127.0.0.1:"):]
	p := newPublisher(t, webhook.Config{AllowHTTP: true})
	if err := p.Check(outbox.Message{Address: inside}); err != nil {
		t.Errorf("Check has looked up the name: %v", err)
	}
	out := post(t, p, outbox.Delivery{Address: inside})
	if out.Class != outbox.Rejected || !strings.Contains(out.Reason, "not a public address") {
		t.Errorf("%+v", out)
	}
	out = post(t, p, outbox.Delivery{Address: server.URL}) // published by a process that allowed it
	if out.Class != outbox.Rejected || !strings.Contains(out.Reason, "127.0.0.1") {
		t.Errorf("%+v", out)
	}
}

// TestDeliver_O07_NoProxyOfTheEnvironment: it would connect to what is refused here. (net/http reads the environment once in a
// process, so this test is not parallel, and cannot set it for localhost, which is never sent to a proxy.)
func TestDeliver_O07_NoProxyOfTheEnvironment(t *testing.T) {
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { t.Errorf("the proxy was asked for %s", r.URL) }))
	defer proxy.Close()
	t.Setenv("HTTP_PROXY", proxy.URL)
	t.Setenv("http_proxy", proxy.URL)
	t.Setenv("HTTPS_PROXY", proxy.URL)
	t.Setenv("https_proxy", proxy.URL)
	p := newPublisher(t, webhook.Config{AllowHTTP: true, Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	out := post(t, p, outbox.Delivery{Address: "http://169.254.169.254/"})
	if out.Class != outbox.Rejected {
		t.Errorf("%+v", out)
	}
	out = post(t, p, outbox.Delivery{Address: "http://name.invalid/"})
	if out.Class != outbox.Retry {
		t.Errorf("%+v", out)
	}
}

// TestDeliver_O07_NoConnection: it was not done, for certain.
func TestDeliver_O07_NoConnection(t *testing.T) {
	t.Parallel()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	secure := tlsServer(t, nil, func(http.ResponseWriter, *http.Request) { t.Error("it was sent") })
	plain := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was sent") }))
	t.Cleanup(plain.Close)
	for name, url := range map[string]string{
		"nobody listens":          "http://" + closed.Addr().String(),
		"no such name":            "http://name.invalid/",
		"an unknown authority":    secure.URL,
		"no TLS on the far side":  strings.Replace(plain.URL, "http:", "https:", 1),
		"another name in its TLS": strings.Replace(secure.URL, "127.0.0.1", "localhost", 1),
	} {
		p := newPublisher(t, webhook.Config{URL: url, AllowHTTP: true, AllowPrivate: true})
		if out := post(t, p, outbox.Delivery{}); out.Class != outbox.Retry || !strings.HasPrefix(out.Reason, "no connection: ") {
			t.Errorf("%s: %+v", name, out)
		}
	}
}

// TestDeliver_O07_TLSOfTheConfig is used, and never one older than 1.2 by default.
func TestDeliver_O07_TLSOfTheConfig(t *testing.T) {
	t.Parallel()
	old := tlsServer(t, &tls.Config{MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10}, func(http.ResponseWriter, *http.Request) {})
	roots := old.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	p := newPublisher(t, webhook.Config{URL: old.URL, AllowPrivate: true, TLS: &tls.Config{RootCAs: roots}})
	if out := post(t, p, outbox.Delivery{}); out.Class != outbox.Retry || !strings.Contains(out.Reason, "version") {
		t.Errorf("%+v", out)
	}
}

// tlsServer logs nothing of the handshakes that fail.
func tlsServer(t *testing.T, cfg *tls.Config, h http.HandlerFunc) *httptest.Server {
	server := httptest.NewUnstartedServer(h)
	server.TLS, server.Config.ErrorLog = cfg, slog.NewLogLogger(slog.DiscardHandler, 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}
