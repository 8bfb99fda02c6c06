package httpidem

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/toolcall"
	"github.com/txonce/txonce/txidem"
)

// WebhookConfig is what [Webhook] must and may be told.
type WebhookConfig struct {
	// Source names the sender, such as "payments": ids of two sources are two events. It is the scope of the calls.
	// Mandatory, at most 255 bytes of printable text.
	Source string

	// Verifier checks the signature: [StandardWebhooks], or a [VerifierFunc]. Mandatory.
	Verifier Verifier

	// Policy overrides the store's, field by field. Its Retention must be longer than the source goes on trying. Defaults to the
	// store's policy with a Retention of 30 days.
	Policy *txidem.Policy

	// MaxBody is the size in bytes above which a body is refused with 413. Defaults to 1 MiB.
	MaxBody int64

	// BodyTimeout is how long the sender may take to send the body, as in [Config]. Defaults to 30 seconds.
	BodyTimeout time.Duration

	// Logger hears of events that are refused or fail. Defaults to a logger that discards.
	Logger *slog.Logger
}

// Event is a webhook whose signature is good.
type Event struct {
	ID     string      // as the Verifier returned it: the key of the call
	Header http.Header // of this delivery
	Body   []byte      // as it came
}

// WebhookTool is the name under which events are recorded, in the scope of their source.
const WebhookTool = "incoming webhook"

// webhookRetention is longer than senders go on trying.
const webhookRetention = 30 * 24 * time.Hour

// Webhook makes a handler for events that source sends, at least once, and which have their effect once (H03).
//
// The signature is checked over the raw bytes, before anything else is looked at; an event that fails is refused with 401,
// and nothing is recorded. The key is the signed id. The response is 200, without a body, once what h wrote through
// tx has committed; each later delivery gets 200 at once.
//
// The body does not count when two deliveries are compared: many senders count attempts in it, or sign it anew, and the
// id is what they promise to keep.
//
// An error that h returns, or a panic, rolls back and answers 500, or 503 where the database is at fault or the event is being
// processed: the source tries again. One made by [txidem.Fail] says that no further try will help: what h wrote is
// rolled back, the failure is recorded and logged, and the source hears 200, for the event is settled. So it does of an
// event whose record has expired, under Policy.OnExpired = Refuse.
func Webhook(store *txidem.Store, cfg *WebhookConfig, h func(ctx context.Context, tx pgx.Tx, ev Event) error) (http.Handler, error) {
	switch {
	case store == nil:
		return nil, errors.New("httpidem: Webhook needs a store; make one with txidem.New")
	case cfg == nil || cfg.Verifier == nil:
		return nil, errors.New("httpidem: WebhookConfig.Verifier is missing; use StandardWebhooks, or a VerifierFunc for another scheme")
	case !isName(cfg.Source):
		return nil, fmt.Errorf("httpidem: WebhookConfig.Source is %q; name the sender in 1 to 255 bytes of printable text", cfg.Source)
	case h == nil:
		return nil, errors.New("httpidem: Webhook needs a function that handles events")
	}
	policy := txidem.Policy{}
	if cfg.Policy != nil {
		policy = *cfg.Policy
	}
	if policy.Retention == 0 {
		policy.Retention = webhookRetention
	}
	if _, err := store.PolicyFor(&policy); err != nil {
		return nil, fmt.Errorf("httpidem: WebhookConfig.Policy: %w", err)
	}
	reader, err := newBodyReader("WebhookConfig", cfg.MaxBody, cfg.BodyTimeout, cfg.Logger)
	if err != nil {
		return nil, err
	}
	return &webhook{store: store, source: cfg.Source, verifier: cfg.Verifier, policy: &policy, reader: reader, log: loggerOr(cfg.Logger), handle: h}, nil
}

type webhook struct {
	store    *txidem.Store
	source   string
	verifier Verifier
	policy   *txidem.Policy
	reader   bodyReader
	log      *slog.Logger
	handle   func(context.Context, pgx.Tx, Event) error
}

func (h *webhook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, refused := h.reader.read(w, r)
	if refused != nil {
		h.refused(r, "", errors.New(refused.Detail))
		refused.send(w)
		return
	}
	id, err := h.verifier.Verify(r.Header, body)
	if err == nil && id == "" { // all such events would be one
		err = errors.New("httpidem: the Verifier returned no id")
	}
	if err != nil {
		h.refused(r, "", err)
		badSignature().send(w)
		return
	}
	request := txidem.Request{Scope: h.source, Tool: WebhookTool, Key: id, Policy: h.policy}
	out, err := txidem.Run(r.Context(), h.store, request, func(ctx context.Context, tx pgx.Tx) (struct{}, error) {
		return struct{}{}, fromHandler(h.handle(ctx, tx, Event{ID: id, Header: r.Header.Clone(), Body: bytes.Clone(body)}))
	})
	h.answer(w, r, id, out, err)
}

// refused tells the people who run the server of an event that they may miss.
func (h *webhook) refused(r *http.Request, id string, err error) {
	h.log.WarnContext(r.Context(), "httpidem: an event was refused", "source", h.source, "event", id, "error", err)
}

// answer tells the sender whether to try again.
func (h *webhook) answer(w http.ResponseWriter, r *http.Request, id string, out txidem.Result[struct{}], err error) {
	var failure *toolcall.Failure
	var panicked *txidem.PanicError
	switch {
	case errors.As(err, &failure) && failure != nil && failure.Code != txidem.CodeHandlerEndedTx:
		h.log.WarnContext(r.Context(), "httpidem: an event was settled as failed", "source", h.source, "event", id, "call", out.ID,
			"code", failure.Code, "failure", failure.Message, "replayed", out.Replayed)
		err = nil
	case errors.Is(err, txidem.ErrExpired) && !isFromHandler(err): // it was settled, and the sender needs no answer
		err = nil
		out.Replayed = true
	case errors.As(err, &panicked) && panicked.Value == http.ErrAbortHandler:
		panic(http.ErrAbortHandler)
	}
	if err == nil {
		if out.Replayed {
			w.Header().Set(HeaderReplayed, "true")
		}
		w.WriteHeader(http.StatusOK)
		return
	}
	p, ours := explain(err)
	switch p.Status {
	case http.StatusConflict: // senders may give up on what is below 500
		p.Status = http.StatusServiceUnavailable
	case http.StatusBadRequest:
		p = badEventID()
	}
	switch { // nobody reads what a sender is told
	case r.Context().Err() != nil, errors.Is(err, txidem.ErrInProgress) && !isFromHandler(err):
	case ours:
		logFailure(r.Context(), h.log, err, "source", h.source, "event", id, "call", out.ID)
	default:
		h.refused(r, id, err)
	}
	p.of(out.ID).send(w)
}
