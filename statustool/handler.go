package statustool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/txonce/txonce/toolcall"
)

// HandlerConfig is what [Handler] must and may be told.
type HandlerConfig struct {
	// Scope names who is asking, as the calls' own adapter does. An error refuses the request and goes to Logger: with 403 where it
	// is [ErrForbidden], else with 401. Mandatory: one caller's answers must never reach another.
	Scope func(*http.Request) (string, error)

	// Outbox has the answers tell what became of messages, as Config.Outbox does. Defaults to none.
	Outbox toolcall.MessageSource

	// MaxWait, Poll and Logger are those of [Config]. An http.Server with a WriteTimeout below MaxWait cuts answers off.
	MaxWait, Poll time.Duration
	Logger        *slog.Logger
}

// ErrForbidden is for HandlerConfig.Scope to return, or to wrap, where it knows the caller, who may not ask.
var ErrForbidden = errors.New("statustool: the caller may not ask for a status")

// Handler answers GET /…/{id}?wait=SECONDS with a [Report]: the id is the last part of the path, and the wait is as long as the
// tool's. It is for programs beside the tool, and for httpidem. What was recorded stands in result as it is: the answer of
// a tool, the result of a job, the response of an HTTP handler with its status, header and body. (A tool with a handler in the
// full form, mcpidem.AddToolRaw, has its whole result in a member "dev.txonce/result".)
//
//	200  the state is known, whatever it is
//	400  bad_args: the id is none, or wait is not a number
//	401  no_caller; 403 if Scope says so
//	404  none: there is no such call or job, or it is another caller's
//	405  another method than GET and HEAD
//	503  unavailable: ask again after Retry-After seconds
//
// It returns an error that names the field for a bad config.
func Handler(cfg *HandlerConfig, sources ...toolcall.Source) (http.Handler, error) {
	if err := check(sources); err != nil {
		return nil, err
	}
	if cfg == nil || cfg.Scope == nil {
		return nil, errors.New("statustool: HandlerConfig.Scope is missing; give a function that says who is asking")
	}
	h := &handler{cfg: *cfg}
	if err := times("HandlerConfig", &h.cfg.MaxWait, &h.cfg.Poll, &h.cfg.Logger); err != nil {
		return nil, err
	}
	h.reader, h.mailbox = newReader(sources, h.cfg.Poll, h.cfg.Logger), newMailbox(h.cfg.Outbox, h.cfg.Logger)
	h.words = words{ask: func(id string) string {
		return fmt.Sprintf("get the status of %s with ?wait=%v", id, h.cfg.MaxWait.Seconds())
	}}
	return h, nil
}

type handler struct {
	cfg     HandlerConfig
	reader  *reader
	mailbox *mailbox
	words   words
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	report, code := h.answer(r.Context(), r)
	if report == nil {
		return // nobody is left to read it
	}
	body, err := marshal(report)
	if err != nil { // a result is JSON: it cannot fail
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Content-Length", strconv.Itoa(len(body)))
	if report.RetryAfter > 0 {
		header.Set("Retry-After", strconv.Itoa(report.RetryAfter))
	}
	w.WriteHeader(code)
	_, _ = w.Write(body)
}

// answer returns nil for a client that has left.
func (h *handler) answer(ctx context.Context, r *http.Request) (report *Report, code int) {
	defer func() {
		if v := recover(); v != nil {
			h.cfg.Logger.ErrorContext(ctx, "statustool: a question panicked", "panic", v, "stack", string(debug.Stack()))
			report, code = h.words.unavailable(""), http.StatusServiceUnavailable
		}
	}()
	scope, err := h.cfg.Scope(r)
	if err != nil || scope == "" {
		h.cfg.Logger.ErrorContext(ctx, "statustool: a question was refused because it is not known who asks", "error", err)
		if errors.Is(err, ErrForbidden) {
			return noCaller(), http.StatusForbidden
		}
		return noCaller(), http.StatusUnauthorized
	}
	id, wait, problem := h.question(r)
	if problem != "" {
		return badArgs(problem), http.StatusBadRequest
	}
	ask := toolcall.Ask{Scope: scope, ID: id}
	status, err := h.reader.follow(ctx, ask, wait, nil)
	switch {
	case ctx.Err() != nil:
		return nil, 0
	case err != nil:
		return h.words.unavailable(id.String()), http.StatusServiceUnavailable
	case status.State == toolcall.StateNone:
		return h.report(ctx, ask, status), http.StatusNotFound
	}
	return h.report(ctx, ask, status), http.StatusOK
}

func (h *handler) question(r *http.Request) (id toolcall.ID, wait time.Duration, problem string) {
	last := path.Base(r.URL.Path)
	id, err := toolcall.ParseID(last)
	if err != nil {
		return id, 0, fmt.Sprintf("The last part of the path is %s, which is no id of a call or a job; take the call_id or job_id of an answer, which is a UUID.", quoted(last))
	}
	seconds := 0.0
	if given := r.URL.Query().Get("wait"); given != "" {
		if seconds, err = strconv.ParseFloat(given, 64); err != nil || seconds != seconds {
			return id, 0, "The parameter wait is not a number of seconds."
		}
	}
	return id, waitFor(seconds, h.cfg.MaxWait), ""
}

func (h *handler) report(ctx context.Context, ask toolcall.Ask, status toolcall.Status) *Report {
	r := reportOf(status)
	var err error
	if status.State == toolcall.StateSucceeded {
		r.Result, _, err = asJSON(status.Answer)
	}
	h.words.write(r, status, time.Now())
	if err != nil {
		h.cfg.Logger.ErrorContext(ctx, "statustool: an answer cannot be shown", "id", status.ID, "error", err)
		r.Next = noResult
	}
	r.add(h.mailbox.of(ctx, ask, status.State), status)
	return r
}
