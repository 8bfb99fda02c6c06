package httpidem

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/txonce/txonce/toolcall"
)

// typePrefix and a word are a problem's type. The words are those of package mcpidem for the same things.
const typePrefix = "tag:txonce.dev,2026:"

const (
	wordInProgress   = "in_progress"
	wordKeyReused    = "key_reused"
	wordExpired      = "expired"
	wordNotAllowed   = "not_allowed"
	wordOverQuota    = "over_quota"
	wordUnknown      = "outcome_unknown"
	wordFailed       = "failed"      // recorded: the same request fails in the same way
	wordNotDone      = "not_done"    // rolled back, nothing is recorded
	wordUnavailable  = "unavailable" // the database cannot be used at the moment
	wordNoKey        = "no_key"
	wordBadKey       = "bad_key"
	wordBadBody      = "bad_body"
	wordSlowBody     = "slow_body"
	wordLargeBody    = "large_body"
	wordNoCaller     = "no_caller"
	wordBadSignature = "bad_signature"
	wordFault        = "fault" // for the people who run the server
)

// problem is a problem document (RFC 9457). What clients read in it is a contract.
type problem struct {
	Type       string   `json:"type"`
	Title      string   `json:"title"`
	Status     int      `json:"status"`
	Detail     string   `json:"detail,omitempty"`
	Instance   string   `json:"instance,omitempty"`
	Code       string   `json:"code,omitempty"` // the handler's own
	CallID     string   `json:"call_id,omitempty"`
	RetryAfter int      `json:"retry_after_seconds,omitempty"`
	Repeat     bool     `json:"repeat_same_call"` // whether repeating the same request with the same key makes sense
	Paths      []string `json:"differing_arguments,omitempty"`
}

func newProblem(status int, word, title, detail string) *problem {
	return &problem{Type: typePrefix + word, Title: title, Status: status, Detail: detail}
}

// repeat says that the same request makes sense, after some seconds.
func (p *problem) repeat(seconds int) *problem {
	p.Repeat, p.RetryAfter = true, seconds
	return p
}

// of says which call the problem is about.
func (p *problem) of(id toolcall.ID) *problem {
	if !id.IsZero() {
		p.CallID, p.Instance = id.String(), "urn:uuid:"+id.String()
	}
	return p
}

const contentType = "application/problem+json"

func (p *problem) send(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	if p.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(p.RetryAfter))
	}
	body := marshal(p)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(p.Status)
	_, _ = w.Write(body)
}

// failed is the problem that a handler's txidem.Fail becomes. It is recorded as a response.
func failed(f *toolcall.Failure, id toolcall.ID) *response {
	p := newProblem(http.StatusUnprocessableEntity, wordFailed, "The request cannot be fulfilled", f.Message).of(id)
	p.Code = f.Code
	header := http.Header{"Content-Type": {contentType}}
	resp := newResponse(p.Status, header, nil, []string{"Content-Type"}, string(marshal(p)))
	resp.recorded = true
	return resp
}

func largeBody(most int64) *problem {
	return newProblem(http.StatusRequestEntityTooLarge, wordLargeBody, "The body is too large",
		fmt.Sprintf("The body has more than %d bytes. Nothing was done. Send less.", most))
}

func slowBody(timeout time.Duration) *problem {
	return newProblem(http.StatusRequestTimeout, wordSlowBody, "The body came too slowly",
		fmt.Sprintf("The body was not complete after %v. Nothing was done. Repeat the same request with the same key.", timeout)).repeat(1)
}

func badBody() *problem {
	return newProblem(http.StatusBadRequest, wordBadBody, "The body cannot be read",
		"The body ended before its end, or breaks the rules of HTTP. Nothing was done. Repeat the same request with the same key.").repeat(1)
}

func takenBody() *problem {
	return fault("Another part of the server has read the body and not put it back, so that it cannot be compared. Nothing was done.")
}

// unknownBare is for requests that run without protection: nothing is recorded, and a repeated one would be done again. So it is
// no 503, which many clients repeat by themselves.
func unknownBare() *problem {
	return newProblem(http.StatusInternalServerError, wordUnknown, "The outcome is not known",
		"It is not known whether this request was done. Do not repeat it: it might be done twice. Look up what it did.")
}

func noKey() *problem {
	return newProblem(http.StatusBadRequest, wordNoKey, "The header Idempotency-Key is missing",
		"This operation needs the header Idempotency-Key: choose a new key, such as a UUID, for each new intent, and send the same one with each repeat. Nothing was done.")
}

func badKey(reason error) *problem {
	return newProblem(http.StatusBadRequest, wordBadKey, "The header Idempotency-Key cannot be used", sentence(reason)+" Nothing was done.")
}

func noCaller() *problem {
	return newProblem(http.StatusUnauthorized, wordNoCaller, "The caller is not known", "It cannot be told who is calling. Nothing was done.")
}

func badSignature() *problem {
	return newProblem(http.StatusUnauthorized, wordBadSignature, "The signature does not fit",
		"The signature, its timestamp or the id of the event cannot be verified. Nothing was done.")
}

func badEventID() *problem {
	return newProblem(http.StatusBadRequest, wordBadKey, "The id of the event cannot be used", "It must have 1 to 255 bytes of printable text. Nothing was done.")
}

// seconds rounds up: who comes back too early is told to wait again.
func seconds(d time.Duration) int { return int(math.Ceil(d.Seconds())) }
