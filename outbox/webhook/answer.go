package webhook

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/txonce/txonce/outbox"
)

// answered is the outcome of an answer. The reason has nothing in it that the receiver wrote (no text of its status line, no
// Location): a stranger may be the receiver.
func (s *sendings) answered(resp *http.Response) outbox.Outcome {
	out := outbox.Outcome{Class: classOf(resp.StatusCode), Status: resp.StatusCode}
	if out.Class == outbox.Delivered {
		return out
	}
	out.Reason = strings.TrimSpace(fmt.Sprintf("the receiver answered %d %s", resp.StatusCode, http.StatusText(resp.StatusCode)))
	if resp.StatusCode >= 300 && resp.StatusCode < 400 {
		out.Reason += "; redirects are not followed, so give the URL that this one leads to"
	}
	if s.n.Load() > 1 { // it speaks of the last sending, and not of the ones before (I5)
		out.Class = outbox.Unanswered
		out.Reason += ", after a connection broke on which the message may have arrived"
	}
	if out.Class == outbox.Retry || out.Class == outbox.Unanswered {
		out.RetryAfter = retryAfter(resp.Header, time.Now())
	}
	status := resp.StatusCode
	out.Throttled = out.RetryAfter > 0 && (status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable)
	return out
}

// classOf says what a status proves.
func classOf(status int) outbox.Class {
	switch status {
	case http.StatusSeeOther, http.StatusRequestTimeout:
		return outbox.Unanswered
	case http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests:
		return outbox.Retry
	case http.StatusGone:
		return outbox.Gone
	case http.StatusNotImplemented, http.StatusHTTPVersionNotSupported:
		return outbox.Rejected
	}
	switch {
	case status >= 200 && status < 300:
		return outbox.Delivered
	case status >= 300 && status < 500:
		return outbox.Rejected
	}
	return outbox.Unanswered
}

// longestAfter is what the outbox heeds at most.
const longestAfter = 24 * time.Hour

// retryAfter reads the header Retry-After, as seconds or as a date. A date is one of the receiver's clock, so it is compared with
// the answer's own date, if there is one.
func retryAfter(h http.Header, now time.Time) time.Duration {
	text := h.Get("Retry-After")
	if seconds, err := strconv.ParseUint(text, 10, 64); err == nil || isDigits(text) {
		return time.Duration(min(seconds, uint64(longestAfter/time.Second))) * time.Second
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	return min(max(at.Sub(now), 0), longestAfter)
}

func isDigits(text string) bool {
	return text != "" && strings.Trim(text, "0123456789") == ""
}
