package mcpidem

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/toolcall"
	"github.com/txonce/txonce/txidem"
)

// What a model reads is a contract: each text says what happened, what not to do, and what to do next. The codes are
// for programs and stand in structuredContent.
const (
	codeInProgress  = "in_progress"
	codeKeyReused   = "key_reused"
	codeExpired     = "expired"
	codeNotAllowed  = "not_allowed"
	codeUnknown     = "outcome_unknown"
	codeFailed      = "failed"     // recorded
	codeReleased    = "not_done"   // rolled back, may be repeated
	codeUnavailable = "not_asked"  // the database was not reached
	codeBadKey      = "bad_key"    //
	codeBadArgs     = "bad_args"   //
	codeNoCaller    = "no_caller"  //
	codeBroken      = "tool_fault" // the handler's own fault
)

// The _meta of results.
const (
	// MetaCallID is the id under which the outcome is recorded.
	MetaCallID = "dev.txonce/call-id"
	// MetaReplayed is true on an answer that an earlier call was given.
	MetaReplayed = "dev.txonce/replayed"
	// MetaFinishedAt is when the work was done, RFC 3339, by the database's clock.
	MetaFinishedAt = "dev.txonce/finished-at"
)

const keyArgumentText = "Optional key that makes repeating this call safe: choose a new one, such as a UUID, for each new intent, " +
	"and give the same one each time you repeat the call for the same intent."

// describe adds to a tool's description what its callers may rely on.
func describe(description string, key KeyArgument, keep keep) string {
	var b strings.Builder
	b.WriteString(strings.TrimSpace(description))
	if b.Len() > 0 {
		b.WriteString("\n\n")
	}
	b.WriteString("Repeating a call is safe: the same call is done once and gets the same answer again")
	switch key {
	case KeyOff:
		fmt.Fprintf(&b, ", when its arguments are the same, for %s.", span(keep.window))
	case KeyRequired:
		fmt.Fprintf(&b, ", when its idempotency_key is the same, for %s. Give a new idempotency_key for each new intent.", span(keep.retention))
	default:
		fmt.Fprintf(&b, ": for %s when its idempotency_key is the same, or for %s when it has none and its arguments are the same. "+
			"To do the same thing once more on purpose, give a new idempotency_key.", span(keep.retention), span(keep.window))
	}
	return b.String()
}

// succeeded makes a new result each time: the SDK writes into it.
func succeeded(r txidem.Result[json.RawMessage]) *mcp.CallToolResult {
	result := &mcp.CallToolResult{
		Meta:              metaOf(r),
		Content:           []mcp.Content{&mcp.TextContent{Text: string(r.Raw)}},
		StructuredContent: r.Raw,
	}
	if string(r.Raw) == "null" { // a tool that answers nothing
		result.StructuredContent = nil
		result.Content = []mcp.Content{}
	}
	if r.Replayed {
		result.Content = append(result.Content, &mcp.TextContent{Text: fmt.Sprintf(
			"(Recorded answer: this call was done once, at %s, and was not done again.)", r.FinishedAt.UTC().Format(time.RFC3339))})
	}
	return result
}

func metaOf(r txidem.Result[json.RawMessage]) mcp.Meta {
	meta := mcp.Meta{MetaCallID: r.ID.String()}
	if !r.FinishedAt.IsZero() {
		meta[MetaFinishedAt] = r.FinishedAt.UTC().Format(time.RFC3339Nano)
	}
	if r.Replayed {
		meta[MetaReplayed] = true
	}
	return meta
}

// refusal is the structured content of a result that is an error.
type refusal struct {
	Status     string   `json:"status"`
	Message    string   `json:"message"`
	Code       string   `json:"code,omitempty"` // the tool's own
	CallID     string   `json:"call_id,omitempty"`
	RetryAfter int      `json:"retry_after_seconds,omitempty"`
	Repeat     bool     `json:"repeat_same_call"` // whether repeating the same call with the same key makes sense
	Paths      []string `json:"differing_arguments,omitempty"`
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

// explain turns an error of the call into what the model reads. Errors of the handler keep their text, as with the SDK;
// errors of the database and panics do not leave the server.
func (d *definition) explain(ctx context.Context, r txidem.Result[json.RawMessage], err error) *mcp.CallToolResult {
	meta, id := metaOf(r), r.ID.String()
	if r.ID.IsZero() {
		meta, id = nil, ""
	}
	if said, ok := outcomeOf(err, id, r.Replayed); ok {
		return said.result(meta)
	}
	d.adapter.log.ErrorContext(ctx, "mcpidem: a call failed", "tool", d.name, "call", id, "error", err, "stack", stackOf(err))
	return faultOf(err, id).result(meta)
}

// outcomeOf explains what the caller or the request brought about.
func outcomeOf(err error, id string, replayed bool) (refusal, bool) {
	var failure *toolcall.Failure
	var running *txidem.InProgressError
	var reused *txidem.KeyReusedError
	var expired *txidem.ExpiredError
	switch {
	case errors.As(err, &failure):
		said := refusal{Status: codeFailed, Code: failure.Code, CallID: id, Message: failure.Error() +
			" (This outcome is recorded: the same call fails in the same way. Nothing was changed. Correct the arguments before you call again.)"}
		if replayed {
			said.Message = failure.Error() +
				" (Recorded outcome of an earlier identical call; it was not tried again. Nothing was changed. Correct the arguments before you call again.)"
		}
		if errors.Is(err, txidem.ErrHandlerEndedTx) || failure.Code == txidem.CodeHandlerEndedTx {
			said.Message = failure.Error()
		}
		return said, true
	case errors.As(err, &running):
		seconds := int(math.Ceil(running.RetryAfter.Seconds()))
		return refusal{Status: codeInProgress, CallID: id, RetryAfter: seconds, Repeat: true, Message: fmt.Sprintf(
			"This call is already running and has not ended yet. Do not change it and do not try another way. "+
				"Wait %d seconds, then repeat exactly the same call with the same arguments: you will get its answer, and it will not be done twice.", seconds)}, true
	case errors.As(err, &reused):
		return refusal{Status: codeKeyReused, CallID: id, Paths: reused.Paths, Message: differing(reused.Paths) +
			" Nothing was done. If you mean the earlier call, repeat it with its own arguments; if this is a new intent, call again with a new idempotency_key."}, true
	case errors.As(err, &expired):
		return refusal{Status: codeExpired, CallID: id, Message: fmt.Sprintf(
			"This call was done at %s and its answer is no longer kept. It was not done again. Do not repeat it; look up what it did. For a new intent, call again with a new idempotency_key.",
			expired.FinishedAt.UTC().Format(time.RFC3339))}, true
	case errors.Is(err, txidem.ErrNotAllowed):
		return refusal{Status: codeNotAllowed, CallID: id, Message: "You may not see the answer of this call. Nothing was done. Do not repeat it."}, true
	case errors.Is(err, errArguments):
		return refusal{Status: codeBadArgs, CallID: id, Message: err.Error() + ". Nothing was done. Correct the arguments and call again."}, true
	case errors.Is(err, txidem.ErrKey):
		return refusal{Status: codeBadKey, Message: err.Error() + ". Nothing was done."}, true
	case errors.Is(err, txidem.ErrArgs):
		return refusal{Status: codeBadArgs, Message: err.Error() + ". Nothing was done. Correct the arguments and call again."}, true
	}
	return refusal{}, false
}

func differing(paths []string) string {
	if len(paths) == 0 {
		return "This idempotency_key was used before, for other arguments."
	}
	return fmt.Sprintf("This idempotency_key was used before, for other arguments: %s differ.", strings.Join(paths, ", "))
}

// faultOf explains what went wrong on the server.
func faultOf(err error, id string) refusal {
	switch {
	case errors.Is(err, txidem.ErrOutcomeUnknown):
		return refusal{Status: codeUnknown, CallID: id, Repeat: true, RetryAfter: 1, Message: "It is not known whether this call was done: the answer of the database was lost. " +
			"Do not try another way. Repeat exactly the same call with the same arguments: if it was done you will get its answer, and it will not be done twice."}
	case errors.Is(err, txidem.ErrHandlerPanicked), errors.Is(err, txidem.ErrTxAborted), errors.Is(err, txidem.ErrAnswer),
		errors.Is(err, txidem.ErrAnswerTooLarge), errors.Is(err, txidem.ErrRecord), errors.Is(err, txidem.ErrHandlerEndedTx),
		errors.Is(err, txidem.ErrNested), errors.Is(err, txidem.ErrScope):
		return refusal{Status: codeBroken, CallID: id, Message: "This tool has a fault. Nothing was changed by this call. Do not repeat it; tell the people who run this tool."}
	case errors.Is(err, txidem.ErrUnavailable), errors.Is(err, txidem.ErrNotMigrated), errors.Is(err, txidem.ErrServerTooOld):
		return refusal{Status: codeUnavailable, CallID: id, Repeat: txidem.Retryable(err), RetryAfter: 5, Message: "The database of this tool cannot be used at the moment. Nothing was changed by this call. " +
			"Wait 5 seconds, then repeat exactly the same call with the same arguments."}
	}
	return refusal{Status: codeReleased, CallID: id, Repeat: true, Message: err.Error() +
		" (Nothing was changed by this call and nothing is recorded: it may be repeated with the same arguments.)"}
}

func stackOf(err error) string {
	var panicked *txidem.PanicError
	if errors.As(err, &panicked) {
		return string(panicked.Stack)
	}
	return ""
}

// span writes a duration as people do: "24 hours", "90 seconds".
func span(d time.Duration) string {
	for _, unit := range [...]struct {
		size time.Duration
		name string
	}{{24 * time.Hour * 2, "days"}, {time.Hour, "hours"}, {time.Minute, "minutes"}, {time.Second, "seconds"}} {
		size := unit.size
		if unit.name == "days" {
			size = 24 * time.Hour
		}
		if d >= unit.size && d%size == 0 {
			if n := d / size; n > 1 {
				return fmt.Sprintf("%d %s", n, unit.name)
			}
			return "1 " + strings.TrimSuffix(unit.name, "s")
		}
	}
	return d.String()
}
