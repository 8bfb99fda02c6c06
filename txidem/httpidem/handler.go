package httpidem

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/internal/keyheader"
	"github.com/txonce/txonce/toolcall"
	"github.com/txonce/txonce/txidem"
)

// Handler protects h, whatever the method. What h writes through tx commits together with the record of its response, which
// is sent then. Everything that [txidem.Run] says of handlers holds, and r.Context() carries the [toolcall.Call].
//
// An error that h returns rolls back, in place of what it may have written to w: one made by [txidem.Fail] is recorded
// and becomes a problem with the status 422, another one frees the key and becomes one with 500, or 503 where the database is at
// fault, without its text. Its body can be read once per run; the request's may be run again (40001, 40P01).
func (a *Adapter) Handler(h func(w http.ResponseWriter, r *http.Request, tx pgx.Tx) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { a.serve(w, r, h) })
}

// Middleware protects handlers that have the signature of net/http. They find the transaction with [Tx], and end with an
// error by [Abort]. Requests with a safe method (GET, HEAD, OPTIONS, TRACE) pass through untouched.
func (a *Adapter) Middleware(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Method {
		case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
			next.ServeHTTP(w, r)
			return
		}
		a.serve(w, r, func(w http.ResponseWriter, r *http.Request, _ pgx.Tx) error {
			next.ServeHTTP(w, r)
			return nil
		})
	})
}

// current is what a handler finds in its context.
type current struct {
	tx pgx.Tx

	mu    sync.Mutex
	abort error
}

type currentKey struct{}

// Tx returns the transaction of the request that ctx belongs to, if it is protected.
func Tx(ctx context.Context) (pgx.Tx, bool) {
	c, ok := ctx.Value(currentKey{}).(*current)
	if !ok {
		return nil, false
	}
	return c.tx, true
}

// Abort ends a protected request with err, as if the handler of [Adapter.Handler] had returned it: what was written to the
// ResponseWriter is discarded. The handler should return behind it. The first error counts. It reports false, and does
// nothing, where the request is not protected or err is nil.
func Abort(ctx context.Context, err error) bool {
	c, ok := ctx.Value(currentKey{}).(*current)
	if !ok || err == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.abort == nil {
		c.abort = err
	}
	return true
}

func (c *current) aborted() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.abort
}

// handler is what the adapter protects.
type handler func(w http.ResponseWriter, r *http.Request, tx pgx.Tx) error

func (a *Adapter) serve(w http.ResponseWriter, r *http.Request, h handler) {
	body, refused := a.reader.read(w, r)
	if refused != nil {
		refused.send(w)
		return
	}
	request, refused := a.identify(r, body)
	if refused != nil {
		refused.send(w)
		return
	}
	var last *response
	out, err := txidem.Run(r.Context(), a.store, request, func(ctx context.Context, tx pgx.Tx) (json.RawMessage, error) {
		resp, err := a.respond(ctx, w.Header(), withBody(r, body), tx, h)
		if err != nil {
			return nil, err
		}
		last = resp
		return a.settle(resp)
	})
	a.answer(w, r, request, out, last, err)
}

// identify says which call the request is. Nothing has been claimed yet.
func (a *Adapter) identify(r *http.Request, body []byte) (txidem.Request, *problem) {
	seen := withBody(r, body)
	defer removeFiles(seen, r.MultipartForm)
	scope, err := a.scope(seen)
	if err != nil {
		a.log.WarnContext(r.Context(), "httpidem: a request was refused because its caller is not known", "path", r.URL.Path, "error", err)
		return txidem.Request{}, noCaller()
	}
	key, err := keyheader.Parse(r.Header.Values(HeaderKey))
	switch {
	case err != nil:
		return txidem.Request{}, badKey(err)
	case key == "" && a.key == KeyRequired:
		return txidem.Request{}, noKey()
	}
	called := withBody(r, body)
	defer removeFiles(called, r.MultipartForm)
	return txidem.Request{
		Scope: scope, Tool: a.operation(called), Key: key, Args: argsOf(r, body), Rules: a.rules, Policy: a.policy,
	}, nil
}

// respond runs the handler and returns what it responds.
func (a *Adapter) respond(ctx context.Context, before http.Header, r *http.Request, tx pgx.Tx, h handler) (*response, error) {
	c := &current{tx: tx}
	rec := newRecorder(before, a.maxAnswer)
	defer rec.close()
	r = r.WithContext(context.WithValue(ctx, currentKey{}, c))
	defer removeFiles(r, r.MultipartForm)
	err := h(rec, r, tx)
	if err == nil {
		err = c.aborted()
	}
	var failure *toolcall.Failure
	switch {
	case errors.As(err, &failure) && failure != nil:
		call, _ := toolcall.FromContext(ctx)
		return failed(failure, call.ID), nil
	case err != nil:
		return nil, fromHandler(err)
	}
	return rec.end(a.kept)
}

// settle says what becomes of the transaction: nil commits it (H02).
func (a *Adapter) settle(resp *response) (json.RawMessage, error) {
	switch {
	case resp.Status < 400:
		return marshal(resp), nil
	case resp.recorded, resp.Status < 500 && a.records(resp.Status):
		return nil, resp.failure()
	}
	return nil, &unrecordedError{resp}
}

// unrecordedError carries a response that is a property of the moment: it is sent, and the next request runs.
type unrecordedError struct{ resp *response }

func (e *unrecordedError) Error() string {
	return fmt.Sprintf("httpidem: the handler responded with %d, which is not recorded", e.resp.Status)
}

// answer sends what the call came to. last is what the handler responded in this request, if it ran.
func (a *Adapter) answer(w http.ResponseWriter, r *http.Request, request txidem.Request, out txidem.Result[json.RawMessage], last *response, err error) {
	var unrecorded *unrecordedError
	if errors.As(err, &unrecorded) {
		unrecorded.resp.send(w, r.Method)
		return
	}
	var panicked *txidem.PanicError
	if errors.As(err, &panicked) && panicked.Value == http.ErrAbortHandler { // rolled back; the handler wants the connection closed
		panic(http.ErrAbortHandler)
	}
	resp, err := spoken(out, last, err)
	switch {
	case err != nil:
		p, ours := explain(err)
		if a.bare && errors.Is(err, txidem.ErrOutcomeUnknown) {
			p = unknownBare()
		}
		if ours && r.Context().Err() == nil {
			logFailure(r.Context(), a.log, err, "operation", request.Tool, "call", out.ID)
		}
		p.of(out.ID).send(w)
	case out.Replayed:
		resp.replay(w, r.Method)
	default:
		resp.send(w, r.Method)
	}
}

// spoken returns the response that was recorded, in this request or earlier, if there is one.
func spoken(out txidem.Result[json.RawMessage], last *response, err error) (*response, error) {
	var failure *toolcall.Failure
	switch {
	case err == nil && out.Replayed:
		return decodeResponse(out.Raw)
	case err == nil:
		return last, nil
	case errors.As(err, &failure) && failure != nil && failure.Code != txidem.CodeHandlerEndedTx:
		if !out.Replayed {
			return last, nil
		}
		return responseIn(failure)
	}
	return nil, err
}

func logFailure(ctx context.Context, log *slog.Logger, err error, attrs ...any) {
	attrs = append(attrs, "error", err)
	if panicked := (*txidem.PanicError)(nil); errors.As(err, &panicked) {
		attrs = append(attrs, "stack", string(panicked.Stack))
	}
	log.ErrorContext(ctx, "httpidem: a request failed", attrs...)
}
