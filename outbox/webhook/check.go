package webhook

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/txonce/txonce/outbox"
)

// Check refuses a message that could not be posted: one with an Address that may not be posted to, or with a header that is
// not its to set. It looks up no name: where that leads to is seen when the connection is made.
func (p *Publisher) Check(m outbox.Message) error {
	_, err := p.target(m.Address, m.Headers)
	return err
}

// target is where a message goes.
func (p *Publisher) target(address string, headers map[string]string) (*url.URL, error) {
	if err := p.checkHeaders(headers); err != nil {
		return nil, err
	}
	switch {
	case p.url != nil && address != "":
		return nil, errors.New("webhook: Message.Address is set, and all messages of this destination go to Config.URL; leave it empty")
	case p.url != nil:
		return p.url, nil
	case address == "":
		return nil, errors.New("webhook: Message.Address is empty; give the URL to post to, or set Config.URL")
	}
	u, err := p.parse(address)
	if err == nil {
		err = checkPort(u)
	}
	if err != nil {
		return nil, fmt.Errorf("webhook: Message.Address %w", err)
	}
	return u, nil
}

const mostURL = 2048

// parse refuses what is no URL to post to. Its errors do not repeat the URL, for that may have a secret in it.
func (p *Publisher) parse(text string) (*url.URL, error) {
	if len(text) > mostURL {
		return nil, fmt.Errorf("has %d bytes; use at most %d", len(text), mostURL)
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, fmt.Errorf("is no URL: %w", inner(err))
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, fmt.Errorf("has the scheme %.20q; use https://", u.Scheme)
	case u.Scheme == "http" && !p.cfg.AllowHTTP:
		return nil, errors.New("has no TLS; use https://, or set Config.AllowHTTP")
	case u.User != nil:
		return nil, errors.New("has a user in it; send credentials in a header")
	case u.Hostname() == "":
		return nil, errors.New("has no host; use https://host/path")
	case u.Fragment != "" || strings.HasSuffix(text, "#"):
		return nil, errors.New("has a fragment, which is never sent; leave it out")
	}
	if ip, err := netip.ParseAddr(u.Hostname()); err == nil && p.guard.refuses(ip) {
		return nil, &refusedError{ip}
	}
	if _, err := port(u); err != nil {
		return nil, err
	}
	return u, nil
}

func inner(err error) error {
	var bad *url.Error
	if errors.As(err, &bad) {
		return bad.Err
	}
	return err
}

func port(u *url.URL) (int, error) {
	switch {
	case u.Port() == "" && u.Scheme == "https":
		return 443, nil
	case u.Port() == "":
		return 80, nil
	}
	n, err := strconv.ParseUint(u.Port(), 10, 16)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("has the port %.20q; use 1 to 65535", u.Port())
	}
	return int(n), nil
}

// checkPort refuses the ports of other protocols: who names a URL may not have us talk to a mail server.
func checkPort(u *url.URL) error {
	n, err := port(u)
	if err == nil && n < 1024 && n != 443 && (n != 80 || u.Scheme != "http") {
		err = fmt.Errorf("has the port %d, which is of another protocol; use 443 (80 for http), or one from 1024 on", n)
	}
	return err
}

func (p *Publisher) checkHeaders(headers map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		switch {
		case !isToken(name):
			return fmt.Errorf("webhook: the name %.80q in Message.Headers; use letters, digits, hyphens and underscores", name)
		case ours(name) || plain(name) == plain(p.cfg.KeyHeader):
			return fmt.Errorf("webhook: the header %.80q in Message.Headers is for the publisher or the connection to set; leave it out", name)
		case !carried(headers[name]):
			return fmt.Errorf("webhook: the value of %.80q in Message.Headers; use visible ASCII characters, and spaces between them", name)
		}
	}
	return nil
}

// ours reports whether a message may not have a header: it is the publisher's own, or of the connection.
func ours(name string) bool {
	switch plain(name) {
	case "webhook-id", "webhook-timestamp", "webhook-signature", "user-agent",
		"host", "content-length", "connection", "keep-alive", "proxy-connection", "proxy-authenticate", "proxy-authorization", "proxy-authentication-info",
		"te", "trailer", "transfer-encoding", "upgrade", "expect", "http2-settings":
		return true
	}
	return false
}

// plain spells a header as receivers compare it: for many (CGI, WSGI) Content_Length is Content-Length.
func plain(name string) string { return strings.ToLower(strings.ReplaceAll(name, "_", "-")) }

func isHeader(name string) bool { return isToken(name) && !strings.Contains(name, "_") }

func isToken(name string) bool {
	return name != "" && len(name) <= 64 && !strings.ContainsFunc(name, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '-' || r == '_')
	})
}

// carried reports whether HTTP brings a value to the other side as it is.
func carried(value string) bool {
	return !strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }) && strings.Trim(value, " ") == value
}
