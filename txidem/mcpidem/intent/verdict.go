package intent

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// what an attempt means for the call.
type what int

const (
	answered    what = iota // goes to the caller as it is
	evasive                 // goes to the caller, but says nothing of earlier attempts
	refused                 // nothing was done; repeat
	running                 // another attempt is at work; repeat
	lost                    // it may have been done; repeat
	ended                   // it may have been done, and the session is of no use any more
	endedUnsent             // it was not sent, for the session is of no use any more
)

// verdict is what was heard of an attempt. err puts it in words; it is nil only for an answer.
type verdict struct {
	what  what
	after time.Duration // how long the server asks to wait
	err   error
}

func judge(result mcp.Result, err error) verdict {
	if err != nil {
		return verdict{what: judgeError(err), err: err}
	}
	r, ok := result.(*mcp.CallToolResult)
	if !ok || !r.IsError {
		return verdict{what: answered}
	}
	return judgeRefusal(r)
}

// judgeRefusal reads what mcpidem says in structuredContent. An error that has none of it may be another layer's, which knows nothing
// of earlier attempts.
func judgeRefusal(r *mcp.CallToolResult) verdict {
	said, _ := r.StructuredContent.(map[string]any)
	status, _ := said["status"].(string)
	repeat, _ := said["repeat_same_call"].(bool)
	heard := verdict{after: seconds(said), err: fmt.Errorf("the server answered %s: %v", status, said["message"])}
	switch {
	case status == "":
		heard.what, heard.err = evasive, fmt.Errorf("the server answered an error: %s", textOf(r))
	case repeat && (status == "unavailable" || status == "over_quota"):
		heard.what = refused
	case repeat && status == "in_progress":
		heard.what = running
	case repeat && status == "outcome_unknown":
		heard.what = lost
	case status == "no_caller" || status == "not_allowed" || status == "tool_fault":
		heard.what = evasive // said in front of the record, or because it cannot be read
	}
	return heard
}

// textOf is what a result says to people.
func textOf(r *mcp.CallToolResult) string {
	for _, part := range r.Content {
		if text, ok := part.(*mcp.TextContent); ok {
			return text.Text
		}
	}
	return "no text"
}

// seconds is how long an answer asks to wait. Nonsense counts as nothing; what is too long ends the call.
func seconds(said map[string]any) time.Duration {
	n, _ := said["retry_after_seconds"].(float64)
	switch {
	case !(n > 0):
		return 0
	case n > (24 * time.Hour).Seconds():
		return 24 * time.Hour
	}
	return time.Duration(n * float64(time.Second))
}

// Codes of the SDK that have no name there.
const (
	codeNone      = 0      // an error of Go's on the server, a context that ended among them: it says nothing of what was done
	codeTransport = -32005 // "rejected by transport": for a lost answer too, and for 429 and 5xx
)

// judgeError sorts the errors of the SDK. Whatever is in doubt is lost: repeating is safe, and saying "failed" is not.
func judgeError(err error) what {
	var wire *jsonrpc.Error
	switch {
	case errors.Is(err, mcp.ErrConnectionClosed):
		return endedUnsent // the SDK looks before it writes; a call that is under way when a connection ends gets its own error
	case errors.Is(err, mcp.ErrSessionMissing):
		return ended
	case unsendable(err):
		return evasive
	case unsent(err):
		return refused
	case !errors.As(err, &wire):
		return lost
	}
	switch wire.Code {
	case codeTransport:
		if ownRefusal(err) {
			return evasive
		}
		return lost
	case jsonrpc.CodeInternalError, codeNone:
		return lost
	}
	return evasive
}

// unsendable reports arguments that are not JSON.
func unsendable(err error) bool {
	var badType *json.UnsupportedTypeError
	var badValue *json.UnsupportedValueError
	var bad *json.MarshalerError
	return errors.As(err, &badType) || errors.As(err, &badValue) || errors.As(err, &bad)
}

// unsent reports that no connection came about, so that nothing was sent.
func unsent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// ownRefusal reports that the client itself could not authorise the request. The SDK joins the transport's code with
// the reason then, and the reason is none of the network's. Repeating would ask people again to sign in.
func ownRefusal(err error) bool {
	for err != nil {
		joined, ok := err.(interface{ Unwrap() []error })
		if !ok {
			err = errors.Unwrap(err)
			continue
		}
		for _, part := range joined.Unwrap() {
			var wire *jsonrpc.Error
			var network *url.Error
			if !errors.As(part, &wire) && !errors.As(part, &network) {
				return true
			}
		}
		return false
	}
	return false
}
