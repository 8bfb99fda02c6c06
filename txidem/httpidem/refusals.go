package httpidem

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txonce/txonce/toolcall"
	"github.com/txonce/txonce/txidem"
)

// explain says in the client's words what err means. What the database said, and what a handler panicked with, does not
// leave the server: ours says whether it is one for the log.
func explain(err error) (p *problem, ours bool) {
	if !isFromHandler(err) {
		if p := ofTheCall(err); p != nil {
			return p, false
		}
	}
	return ofTheServer(err), true
}

// handlerError is what a handler has returned. A handler may call other protected operations, by txidem.RunTx: what becomes of
// those says nothing of the request, which was rolled back, nor may the client read it.
type handlerError struct{ error }

func (e *handlerError) Unwrap() error { return e.error }

func fromHandler(err error) error {
	if err == nil {
		return nil
	}
	return &handlerError{err}
}

func isFromHandler(err error) bool { return errors.As(err, new(*handlerError)) }

// ofTheCall explains what the client or the request brought about.
func ofTheCall(err error) *problem {
	var running *txidem.InProgressError
	var reused *txidem.KeyReusedError
	var expired *txidem.ExpiredError
	switch {
	case errors.As(err, &running):
		return newProblem(http.StatusConflict, wordInProgress, "The same request is in progress",
			"The request with this key is running and has not ended yet. Repeat the same request with the same key later: it gets the response, and nothing is done twice.").
			repeat(seconds(running.RetryAfter))
	case errors.As(err, &reused):
		p := newProblem(http.StatusUnprocessableEntity, wordKeyReused, "The key was used for another request", differing(reused.Paths)+
			" Nothing was done. Repeat the earlier request as it was, or choose a new key for a new intent.")
		p.Paths = reused.Paths
		return p
	case errors.As(err, &expired):
		return newProblem(http.StatusGone, wordExpired, "The request was done earlier", fmt.Sprintf(
			"This request was done at %s and its response is no longer kept. It was not done again. Look up what it did, or choose a new key for a new intent.",
			expired.FinishedAt.UTC().Format(time.RFC3339)))
	case errors.Is(err, txidem.ErrNotAllowed):
		return newProblem(http.StatusForbidden, wordNotAllowed, "The response may not be given again", "The caller may not have the response of this request. Nothing was done.")
	case errors.Is(err, txidem.ErrQuota):
		return newProblem(http.StatusTooManyRequests, wordOverQuota, "Too many requests are on record",
			"Too many requests of this caller are on record at the moment. Nothing was done. Repeat the same request with the same key later.").repeat(60)
	case errors.Is(err, txidem.ErrScope):
		return noCaller()
	case errors.Is(err, txidem.ErrKey):
		return badKey(err)
	}
	return nil
}

// ofTheServer explains what went wrong on the server.
func ofTheServer(err error) *problem {
	var failure *toolcall.Failure
	var fromDatabase *pgconn.PgError
	switch {
	case errors.As(err, &failure) && failure != nil && failure.Code == txidem.CodeHandlerEndedTx: // recorded: each repeat hears it
		p := newProblem(http.StatusInternalServerError, wordFailed, "The outcome is not known",
			"The operation ended its own transaction, so it is not known what it did. Do not repeat the request; tell the people who run this server.")
		p.Code = failure.Code
		return p
	case errors.Is(err, txidem.ErrOutcomeUnknown):
		return newProblem(http.StatusServiceUnavailable, wordUnknown, "The outcome is not known yet",
			"It is not known whether this request was done. Repeat the same request with the same key: if it was done you get its response, and nothing is done twice.").repeat(1)
	case errors.Is(err, txidem.ErrHandlerEndedTx):
		return fault("It is not known what the operation did.")
	case errors.Is(err, txidem.ErrUnavailable), errors.As(err, &fromDatabase) && passes(fromDatabase.Code):
		return newProblem(http.StatusServiceUnavailable, wordUnavailable, "The database cannot be used at the moment",
			"Nothing was changed by this request. Repeat the same request with the same key later.").repeat(5)
	case errors.Is(err, txidem.ErrCodec), errors.Is(err, txidem.ErrRecord):
		return fault("The response of this request cannot be read or written. Nothing was changed by this request now; it may have been done earlier.")
	case fromDatabase != nil, !txidem.Retryable(err), errors.Is(err, ErrUnsupported):
		return fault("Nothing was changed by this request.")
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return newProblem(http.StatusServiceUnavailable, wordNotDone, "The request took too long",
			"The request ended before it was done. Nothing was changed. Repeat the same request with the same key.").repeat(1)
	}
	return newProblem(http.StatusInternalServerError, wordNotDone, "The request failed",
		"Nothing was changed by this request and nothing is recorded: it may be repeated with the same key.").repeat(0)
}

func fault(what string) *problem {
	return newProblem(http.StatusInternalServerError, wordFault, "The server has a fault", what+" Do not repeat it; tell the people who run this server.")
}

func differing(paths []string) string {
	if len(paths) == 0 {
		return "This key was used before, for another request."
	}
	return fmt.Sprintf("This key was used before, for another request: %s differ.", strings.Join(paths, ", "))
}

// passes reports whether an error of the class goes away by itself: lost connections, serialization failures, too few
// resources, locks and shutdowns.
func passes(sqlstate string) bool {
	switch sqlstate[:min(2, len(sqlstate))] {
	case "08", "40", "53", "55", "57":
		return true
	}
	return false
}

// sentence is the error's text for people who do not know this library's packages.
func sentence(err error) string {
	text := strings.ReplaceAll(err.Error(), "txidem: ", "")
	return strings.ToUpper(text[:1]) + text[1:] + "."
}
