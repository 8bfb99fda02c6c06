package webhook_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/txonce/txonce/outbox"
	"github.com/txonce/txonce/outbox/webhook"
)

// at serves h, and makes a publisher that posts to it.
func at(t *testing.T, cfg webhook.Config, h http.HandlerFunc) *webhook.Publisher {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	cfg.URL, cfg.AllowHTTP, cfg.AllowPrivate = server.URL, true, true
	return newPublisher(t, cfg)
}

// post makes one attempt. What hangs is held for a failure after a minute.
func post(t *testing.T, p *webhook.Publisher, d outbox.Delivery) outbox.Outcome {
	t.Helper()
	if d.Key == "" {
		d.Key = "k"
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errors.New("it hangs"))
	defer cancel()
	out, err := p.Deliver(ctx, d)
	if err != nil {
		t.Errorf("Deliver returned %v", err)
	}
	if ctx.Err() != nil {
		t.Error("Deliver came to no end within a minute")
	}
	return out
}

func TestDeliver_O04_O05_WhatAStatusMeans(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	p := at(t, webhook.Config{}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "http://169.254.169.254/latest/meta-data/")
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(int(asked.Load()))
	})
	is := map[int]outbox.Class{
		303: outbox.Unanswered, 408: outbox.Unanswered, 409: outbox.Retry, 410: outbox.Gone, 425: outbox.Retry, 429: outbox.Retry, 501: outbox.Rejected, 505: outbox.Rejected,
	}
	for status := 200; status < 700; status++ {
		asked.Store(int64(status))
		want, special := is[status]
		switch {
		case special:
		case status < 300:
			want = outbox.Delivered
		case status < 500:
			want = outbox.Rejected
		}
		out := post(t, p, outbox.Delivery{})
		if out.Class != want || out.Status != status {
			t.Errorf("%d is %+v, and not class %d", status, out, want)
		}
		after := want == outbox.Retry || want == outbox.Unanswered
		if (out.RetryAfter == 7*time.Second) != after || out.RetryAfter != 0 && !after || out.Throttled != (status == 429 || status == 503) {
			t.Errorf("%d: come again after %v, throttled: %v", status, out.RetryAfter, out.Throttled)
		}
		if (out.Reason == "") != (want == outbox.Delivered) || strings.Contains(out.Reason, "169.254") {
			t.Errorf("%d: the reason is %q", status, out.Reason)
		}
	}
}

// TestDeliver_O07_RedirectToMetadataIsNotFollowed: nor is any other.
func TestDeliver_O07_RedirectToMetadataIsNotFollowed(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	var to string
	p := at(t, webhook.Config{}, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		http.Redirect(w, r, to, http.StatusFound)
	})
	for _, to = range []string{"http://169.254.169.254/latest/meta-data/", "/again"} {
		if out := post(t, p, outbox.Delivery{}); out.Class != outbox.Rejected || out.Status != 302 || !strings.Contains(out.Reason, "redirect") {
			t.Errorf("it is %+v", out)
		}
	}
	if asked.Load() != 2 {
		t.Errorf("the endpoint was asked %d times", asked.Load())
	}
}

func TestDeliver_O04_RetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Now().UTC()
	dated := func(after time.Duration) string { return now.Add(after).Format(http.TimeFormat) }
	var header, date string
	p := at(t, webhook.Config{}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Retry-After"] = []string{header}
		if w.Header()["Date"] = nil; date != "" {
			w.Header()["Date"] = []string{date}
		}
		w.WriteHeader(http.StatusTooManyRequests)
	})
	for _, c := range []struct {
		header, date string
		want         time.Duration
	}{
		{"0", "", 0},
		{"1", "", time.Second},
		{"120", "", 2 * time.Minute},
		{"86401", "", 24 * time.Hour},
		{"99999999999999999999999999", "", 24 * time.Hour},
		{"-1", "", 0},
		{"+1", "", 0},
		{"1.5", "", 0},
		{"soon", "", 0},
		{"", "", 0},
		{dated(time.Hour), dated(0), time.Hour},
		{dated(0), dated(-time.Hour), time.Hour}, // the receiver's clock is an hour behind
		{dated(-time.Hour), dated(0), 0},
		{dated(365 * 24 * time.Hour), "", 24 * time.Hour},
		{dated(365 * 24 * time.Hour), "no date", 24 * time.Hour},
		{dated(-365 * 24 * time.Hour), "", 0},
		{now.Add(time.Hour).Format("Monday, 02-Jan-06 15:04:05 GMT"), dated(0), time.Hour}, // RFC 850
	} {
		header, date = c.header, c.date
		out := post(t, p, outbox.Delivery{})
		if out.Class != outbox.Retry || out.RetryAfter != c.want || out.Throttled != (c.want > 0) {
			t.Errorf("%q at %q: %+v, want %v", c.header, c.date, out, c.want)
		}
	}
}

func TestDeliver_O07_WhatIsKeptOfAnAnswer(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 100_000)
	for _, c := range []struct {
		cfg        webhook.Config
		body, want string
		id         string
	}{
		{webhook.Config{}, "private", "", ""},
		{webhook.Config{KeepResponse: true}, "", "", ""},
		{webhook.Config{KeepResponse: true}, long, long[:4096], ""},
		{webhook.Config{KeepResponse: true, MaxResponse: 3}, "abc", "abc", ""},
		{webhook.Config{KeepResponse: true, MaxResponse: 2, ProviderIDHeader: "x-id"}, "abc", "ab", "ch_1"},
	} {
		for _, status := range []int{200, 422, 500} {
			p := at(t, c.cfg, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("X-Id", "ch_1")
				w.WriteHeader(status)
				fmt.Fprint(w, c.body)
			})
			if out := post(t, p, outbox.Delivery{}); string(out.Response) != c.want || out.ProviderID != c.id || out.Status != status {
				t.Errorf("%+v: %d with %.10q (%d bytes), id %q", c.cfg, out.Status, out.Response, len(out.Response), out.ProviderID)
			}
		}
	}
}

// raw answers each connection's requests with what answer returns, and closes it.
func raw(t *testing.T, cfg webhook.Config, answer func(net.Conn)) *webhook.Publisher {
	t.Helper()
	return at(t, cfg, func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		answer(conn)
	})
}

// TestDeliver_O03_NoWholeAnswer: what was sent may have been done, whatever became of the answer (I5).
func TestDeliver_O03_NoWholeAnswer(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"nothing":            "",
		"half a status line": "HTTP/1.1 20",
		"no headers' end":    "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n",
		"no HTTP":            "SSH-2.0-OpenSSH_9.2\r\n",
		"no status":          "HTTP/1.1 abc OK\r\n\r\n",
		"endless headers":    "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 1<<20) + "\r\n\r\n",
		"another protocol":   "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
	} {
		p := raw(t, webhook.Config{}, func(conn net.Conn) { fmt.Fprint(conn, answer) })
		if out := post(t, p, outbox.Delivery{}); out.Class != outbox.Unanswered || out.Reason == "" {
			t.Errorf("%s: %+v", name, out)
		}
	}
}

// TestDeliver_O03_StatusCountsWithoutItsBody: cut short, or without an end.
func TestDeliver_O03_StatusCountsWithoutItsBody(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"cut short":   "HTTP/1.1 %d X\r\nContent-Length: 10\r\n\r\nabc",
		"cut chunk":   "HTTP/1.1 %d X\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n9",
		"without end": "HTTP/1.1 %d X\r\nContent-Length: 10\r\n\r\nabc",
	} {
		for status, want := range map[int]outbox.Class{200: outbox.Delivered, 400: outbox.Rejected, 429: outbox.Retry} {
			if name == "without end" && status != 200 { // it takes two seconds each
				continue
			}
			p := raw(t, webhook.Config{KeepResponse: true}, func(conn net.Conn) {
				fmt.Fprintf(conn, answer, status)
				if name == "without end" {
					_, _ = conn.Read(make([]byte, 1)) // until the publisher goes
				}
			})
			if out := post(t, p, outbox.Delivery{}); out.Class != want || out.Status != status || string(out.Response) != "abc" {
				t.Errorf("%s, %d: %+v", name, status, out)
			}
		}
	}
}

// TestDeliver_O03_LateAnswerIsNone: when the context ends first.
func TestDeliver_O03_LateAnswerIsNone(t *testing.T) {
	t.Parallel()
	there, gone := make(chan struct{}), make(chan struct{})
	p := at(t, webhook.Config{}, func(_ http.ResponseWriter, r *http.Request) {
		close(there)
		<-gone // the answer is 200, and too late
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-there; cancel() }()
	out, err := p.Deliver(ctx, outbox.Delivery{Key: "k"})
	close(gone)
	if out.Class != outbox.Unanswered || err != nil {
		t.Errorf("%+v, %v", out, err)
	}
}

// TestDeliver_O03_SecondSendingSaysNothingOfTheFirst: net/http sends again on a new connection when a kept one breaks.
func TestDeliver_O03_SecondSendingSaysNothingOfTheFirst(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]outbox.Class{200: outbox.Delivered, 409: outbox.Unanswered, 422: outbox.Unanswered, 410: outbox.Unanswered} {
		var n atomic.Int64
		var ids sync.Map
		p := at(t, webhook.Config{}, func(w http.ResponseWriter, r *http.Request) {
			ids.Store(r.Header.Get("Idempotency-Key")+r.Header.Get("Webhook-Id"), true)
			switch n.Add(1) {
			case 1: // a connection that is kept
			case 2:
				panic(http.ErrAbortHandler)
			default:
				w.WriteHeader(status)
			}
		})
		if out := post(t, p, outbox.Delivery{}); out.Class != outbox.Delivered {
			t.Errorf("the first: %+v", out)
		}
		if out := post(t, p, outbox.Delivery{}); out.Class != want || out.Status != status {
			t.Errorf("%d: %+v", status, out)
		}
		names := 0
		ids.Range(func(_, _ any) bool { names++; return true })
		if n.Load() != 3 || names != 1 {
			t.Errorf("%d requests with %d keys and ids", n.Load(), names)
		}
	}
}

// TestDeliver_O03_SentAndThenRefusedAConnection: the last error is one of connecting, and the message was sent before that.
func TestDeliver_O03_SentAndThenRefusedAConnection(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if n.Add(1) == 2 {
			server.Listener.Close()
			panic(http.ErrAbortHandler)
		}
	}))
	t.Cleanup(server.Close)
	p := newPublisher(t, webhook.Config{URL: server.URL, AllowHTTP: true, AllowPrivate: true})
	post(t, p, outbox.Delivery{})
	if out := post(t, p, outbox.Delivery{}); out.Class != outbox.Unanswered || n.Load() != 2 {
		t.Errorf("%+v behind %d requests", out, n.Load())
	}
}
