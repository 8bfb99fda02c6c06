package mcpidem

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/toolcall"
	"github.com/txonce/txonce/txidem"
)

// What a model reads is a contract: each text says what happened, what not to do, and what to do next. The statuses are
// for programs and stand in structuredContent.
const (
	statusInProgress  = "in_progress"
	statusKeyReused   = "key_reused"
	statusExpired     = "expired"
	statusNotAllowed  = "not_allowed"
	statusOverQuota   = "over_quota"
	statusUnknown     = "outcome_unknown"
	statusBlocked     = "blocked" // cut off, and nothing but people can find out
	statusDeclined    = "declined"
	statusUnconfirmed = "confirmation_needed"
	statusFailed      = "failed"      // recorded: the same call fails in the same way
	statusNotDone     = "not_done"    // rolled back, nothing is recorded
	statusUnavailable = "unavailable" // the database cannot be used at the moment
	statusBadKey      = "bad_key"
	statusBadArgs     = "bad_args"
	statusNoCaller    = "no_caller"
	statusFault       = "tool_fault" // for the people who run the tool
)

// refusal is the structured content of a result that is an error.
type refusal struct {
	Status     string   `json:"status"`
	Message    string   `json:"message"`
	Code       string   `json:"code,omitempty"` // the tool's own
	CallID     string   `json:"call_id,omitempty"`
	RetryAfter int      `json:"retry_after_seconds,omitempty"`
	Repeat     bool     `json:"repeat_same_call"` // whether repeating the same call with the same key makes sense
	Paths      []string `json:"differing_arguments,omitempty"`
	StatusTool string   `json:"status_tool,omitempty"` // takes the call_id as its argument "id"
}

func (r refusal) result(meta mcp.Meta) *mcp.CallToolResult {
	raw, _ := marshal(r) // strings, numbers and bools: it cannot fail
	return &mcp.CallToolResult{
		Meta:              meta,
		Content:           []mcp.Content{&mcp.TextContent{Text: r.Message}},
		StructuredContent: raw,
		IsError:           true,
	}
}

func refused(status, message string) *mcp.CallToolResult {
	return refusal{Status: status, Message: message}.result(nil)
}

// explain turns an error of the call into what the model reads. The handler's own errors keep their text, as with the
// SDK; what the database said, and what a handler panicked with, goes to the log and does not leave the server.
func (d *definition) explain(ctx context.Context, call txidem.Request, r txidem.Result[json.RawMessage], origin keyOrigin, err error) *mcp.CallToolResult {
	meta, id := metaOf(r), r.ID.String()
	if r.ID.IsZero() {
		meta, id = nil, ""
	}
	said, ok := ofThePerson(err)
	if !ok {
		said, ok = d.ofTheCall(err, r, origin)
	}
	if !ok {
		said, ok = ofTheServer(err)
		attrs := []any{"tool", d.name, "scope", call.Scope, "call", id, "error", err}
		if panicked := (*txidem.PanicError)(nil); errors.As(err, &panicked) {
			attrs = append(attrs, "stack", string(panicked.Stack))
		}
		d.adapter.log.ErrorContext(ctx, "mcpidem: a call failed", attrs...)
	}
	if !ok {
		said = refusal{Status: statusNotDone, Repeat: true, Message: err.Error() +
			" (Nothing was changed by this call and nothing is recorded: it may be repeated with the same arguments.)"}
	}
	if said.Status == statusUnknown {
		said = d.unknown()
	}
	if said.CallID = id; id != "" && !d.keep.unprotected {
		said.pointTo(d.adapter.status())
	}
	return said.result(meta)
}

// pointTo has the model ask instead of repeating, where there is a tool to ask.
func (r *refusal) pointTo(tool string) {
	if tool == "" {
		return
	}
	ask := fmt.Sprintf(`call %s with {"id":%q}`, tool, r.CallID)
	switch r.Status {
	case statusInProgress:
		r.Message = fmt.Sprintf("This call is already running and has not ended yet. Do not repeat it, do not change it and do not try another way. "+
			"In %s, %s: it tells how this call ended, and gives its answer.", count(int64(r.RetryAfter), "second"), ask)
	case statusUnknown:
		r.Message = fmt.Sprintf("It is not known whether this call was done. Do not try another way and do not repeat it yet. First %s. "+
			"If it says that the call was not done, repeat exactly the same call with the same arguments: it will not be done twice.", ask)
	case statusExpired:
		r.Message += fmt.Sprintf(" To look it up, %s.", ask)
	default:
		return
	}
	r.StatusTool = tool
}

// ofTheCall explains what the caller or the request brought about. What a handler heard of another call, which it made itself, is
// not this one's.
func (d *definition) ofTheCall(err error, r txidem.Result[json.RawMessage], origin keyOrigin) (refusal, bool) {
	var failure *toolcall.Failure
	var running *txidem.InProgressError
	var reused *txidem.KeyReusedError
	var expired *txidem.ExpiredError
	switch {
	case errors.Is(err, txidem.ErrBlocked), errors.Is(err, txidem.ErrOutcomeUnknown): // whatever they wrap
		return refusal{}, false
	case errors.As(err, &failure) && failure != nil && !errors.Is(err, txidem.ErrHandlerEndedTx):
		return d.failure(failure, r.Replayed, origin), true
	case errors.As(err, &running) && running.ID == r.ID:
		seconds := int(math.Ceil(running.RetryAfter.Seconds()))
		return refusal{Status: statusInProgress, RetryAfter: seconds, Repeat: true, Message: fmt.Sprintf(
			"This call is already running and has not ended yet. Do not change it and do not try another way. "+
				"Wait %s, then repeat exactly the same call with the same arguments: you will get its answer, and it will not be done twice.",
			count(int64(seconds), "second"))}, true
	case errors.As(err, &reused) && reused.ID == r.ID:
		return refusal{Status: statusKeyReused, Paths: reused.Paths, Message: differing(reused.Paths) +
			" Nothing was done. If you mean the earlier call, repeat it with its own arguments. " + d.newIntent(origin)}, true
	case errors.As(err, &expired) && expired.ID == r.ID:
		return refusal{Status: statusExpired, Message: fmt.Sprintf(
			"This call was done at %s and its answer is no longer kept. It was not done again. Do not repeat it; look up what it did. %s",
			expired.FinishedAt.UTC().Format(time.RFC3339), d.newIntent(origin))}, true
	case errors.Is(err, txidem.ErrNotAllowed):
		return refusal{Status: statusNotAllowed, Message: "You may not see the answer of this call. Nothing was done now. Do not repeat it."}, true
	case errors.Is(err, txidem.ErrQuota):
		return refusal{Status: statusOverQuota, Repeat: true, RetryAfter: 60, Message: "Too many calls of this caller are on record at the moment. Nothing was done. " +
			"Do not try another way. Wait a minute, then repeat exactly the same call with the same arguments."}, true
	case errors.Is(err, txidem.ErrScope):
		return refusal{Status: statusNoCaller, Message: noCallerText}, true
	case errors.Is(err, txidem.ErrKey):
		return refusal{Status: statusBadKey, Message: plain(err) + ". Nothing was done."}, true
	case errors.Is(err, errArguments), errors.Is(err, txidem.ErrArgs):
		return refusal{Status: statusBadArgs, Message: plain(err) + ". Nothing was done. Correct the arguments and call again."}, true
	}
	return refusal{}, false
}

// ofThePerson explains why nobody has confirmed the call. That nothing was done is true of this call; an earlier attempt at an
// effect elsewhere may have been cut off.
func ofThePerson(err error) (refusal, bool) {
	done := "Nothing was done."
	if errors.Is(err, txidem.ErrBlocked) || errors.Is(err, txidem.ErrOutcomeUnknown) {
		done = "Nothing was done now, but an earlier attempt of this call was cut off, and it is not known whether it had its effect."
	}
	switch {
	case errors.Is(err, errDeclined):
		return refusal{Status: statusDeclined, Message: "The person who was asked said no. " + done + " Do not repeat this call and do not try another way; ask what to do instead."}, true
	case errors.Is(err, errDismissed):
		return refusal{Status: statusUnconfirmed, Message: "The person who was asked did not decide. " + done + " Do not try another way; ask whether you should repeat this call."}, true
	case errors.Is(err, errCannotAsk):
		return refusal{Status: statusUnconfirmed, Message: "A person has to confirm this call, and the program that calls this tool cannot ask one: it does not support elicitation. " +
			done + " Do not repeat it and do not try another way; tell the person what you wanted to do."}, true
	}
	return refusal{}, false
}

// failure tells of an outcome that the handler wants kept. It holds the key, so corrected arguments need another one.
func (d *definition) failure(failure *toolcall.Failure, replayed bool, origin keyOrigin) refusal {
	said := refusal{Status: statusFailed, Code: failure.Code, Message: failure.Error()}
	correct := "Nothing was changed. Correct the arguments before you call again"
	switch {
	case origin == fromModel && !d.keep.unprotected:
		correct += ", and give a new idempotency_key with them."
	case origin == fromHarness && !d.keep.unprotected:
		correct += "; the program that calls this tool must choose a new idempotency key for them: it was set outside of your arguments."
	default:
		correct += "."
	}
	switch {
	case failure.Code == txidem.CodeHandlerEndedTx: // its text says all there is
	case d.keep.unprotected:
		said.Message += " (" + correct + ")"
	case replayed:
		said.Message += " (Recorded outcome of an earlier identical call; it was not tried again. " + correct + ")"
	default:
		said.Message += " (This outcome is recorded: the same call fails in the same way. " + correct + ")"
	}
	return said
}

func differing(paths []string) string {
	if len(paths) == 0 {
		return "This idempotency_key was used before, for other arguments."
	}
	return fmt.Sprintf("This idempotency_key was used before, for other arguments: %s differ.", strings.Join(paths, ", "))
}

// unknown tells of a call that may have been done or not.
func (d *definition) unknown() refusal {
	if d.keep.unprotected {
		return refusal{Status: statusUnknown, Message: unknownBareText}
	}
	return refusal{Status: statusUnknown, Repeat: true, RetryAfter: 1, Message: unknownText}
}

const unknownText = "It is not known whether this call was done. Do not try another way. " +
	"Repeat exactly the same call with the same arguments: if it was done you will get its answer, and it will not be done twice."

// unknownBareText is for calls that run without protection: nothing is recorded, and a repeated one would be done again.
const unknownBareText = "It is not known whether this call was done. Do not repeat it and do not try another way: it might be done twice. Look up what it did, or tell the people who run this tool."

const noCallerText = "This server cannot tell who is calling, so it did nothing. Do not repeat the call; the people who run this server have to set up who may call it."

// ofTheServer explains what went wrong on the server.
func ofTheServer(err error) (refusal, bool) {
	var failure *toolcall.Failure
	var fromDatabase *pgconn.PgError
	switch {
	case errors.As(err, &failure) && failure != nil: // the handler committed by itself
		return refusal{Status: statusFailed, Code: failure.Code, Message: failure.Message}, true
	case errors.Is(err, txidem.ErrBlocked):
		return refusal{Status: statusBlocked, Message: "This call was cut off, and it is not known whether it had its effect. It will not be done again by itself. " +
			"Do not repeat it and do not try another way; tell the people who run this tool."}, true
	case errors.Is(err, txidem.ErrOutcomeUnknown):
		return refusal{Status: statusUnknown}, true
	case errors.Is(err, txidem.ErrHandlerEndedTx):
		return refusal{Status: statusFault, Message: "This tool has a fault, and it is not known what it did. Do not repeat the call; tell the people who run this tool."}, true
	case errors.Is(err, txidem.ErrUnavailable), errors.As(err, &fromDatabase) && passes(fromDatabase.Code):
		return refusal{Status: statusUnavailable, Repeat: true, RetryAfter: 5, Message: "The database of this tool cannot be used at the moment. Nothing was changed by this call. " +
			"Wait 5 seconds, then repeat exactly the same call with the same arguments."}, true
	case errors.Is(err, txidem.ErrCodec), errors.Is(err, txidem.ErrRecord), errors.Is(err, txidem.ErrOtherWay):
		return refusal{Status: statusFault, Message: "This tool has a fault: the answer of this call cannot be read or written. Nothing was changed by this call now; " +
			"it may have been done earlier. Do not repeat it; tell the people who run this tool."}, true
	case fromDatabase != nil, !txidem.Retryable(err):
		return refusal{Status: statusFault, Message: "This tool has a fault. Nothing was changed by this call. Do not repeat it; tell the people who run this tool."}, true
	}
	return refusal{}, false
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

// plain is the error's text without the names of packages, which mean nothing to a model.
func plain(err error) string {
	return strings.NewReplacer("txidem: ", "", "canonjson: ", "", "json: ", "").Replace(err.Error())
}
