package mcpidem

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/internal/canonjson"
	"github.com/txonce/txonce/toolcall"
	"github.com/txonce/txonce/txidem"
)

// ConfirmFunc says what a person is asked before a call is made: nothing (""), if this call needs no confirmation, or one
// question, such as "Refund 1,050.00 EUR for order A-1?". It is called outside of any transaction, before the call is
// claimed, with arguments that fit the input schema, and again when the answer comes: a "yes" is one to this very question, and
// when the function says another by then, that one is asked. So leave out of it what changes by itself, such as the
// time. An error refuses the call; nothing is recorded.
type ConfirmFunc func(ctx context.Context, args json.RawMessage) (question string, err error)

// ConfirmArgs makes a ConfirmFunc of one that takes the input type of the tool.
func ConfirmArgs[In any](question func(ctx context.Context, in In) (string, error)) ConfirmFunc {
	return func(ctx context.Context, args json.RawMessage) (string, error) {
		var in In
		if err := unmarshalExactNames(args, &in); err != nil {
			return "", fmt.Errorf("%w: %w", errArguments, err)
		}
		return question(ctx, in)
	}
}

const (
	confirmRequest   = "confirm" // the id of the question in an answer that asks
	shortestSecret   = 32
	longestToConfirm = time.Hour
)

// toConfirm is how long a person's "yes" is good for: half of the time for which the call is remembered. So it counts once: as long
// as it is good, the record of the call that it was given for is there.
func toConfirm(policy txidem.Policy, key KeyArgument) time.Duration {
	kept := policy.Retention
	if key != KeyRequired {
		kept = min(kept, policy.Window)
	}
	return min(kept/2, longestToConfirm)
}

// gate decides whether the call may have its effect. Where it may not, the error is what the handler is to return in
// place of having it: what is recorded already is replayed all the same, and so a call that is done is never asked about
// again.
func (d *definition) gate(ctx context.Context, req *mcp.CallToolRequest, call txidem.Request) error {
	if d.cfg.Confirm == nil {
		return nil
	}
	args, err := d.in.normal(call.Args)
	if err != nil {
		return err // said behind the claim, for a replay comes first
	}
	question, err := d.question(ctx, args)
	if err != nil || question == "" {
		return err
	}
	said, answered := req.Params.InputResponses[confirmRequest].(*mcp.ElicitResult)
	switch {
	case !answered || said == nil || !d.isConfirmed(call, question, req.Params.RequestState):
		return d.ask(req, call, question)
	case said.Action == "accept":
		return nil
	case said.Action == "decline":
		return errDeclined
	default:
		return errDismissed
	}
}

// question is what Confirm says. Whatever goes wrong in it is said behind the claim, like its errors: a call that is done must find
// its answer. A failure made by txidem.Fail is an error like others here, for it would be recorded as the call's.
func (d *definition) question(ctx context.Context, args json.RawMessage) (question string, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &txidem.PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	question, err = d.cfg.Confirm(ctx, bytes.Clone(args))
	err = realError(err)
	if failure := (*toolcall.Failure)(nil); errors.As(err, &failure) {
		err = errors.New(err.Error())
	}
	return question, err
}

var (
	errDeclined   = errors.New("mcpidem: the person who was asked said no")
	errDismissed  = errors.New("mcpidem: the person who was asked did not decide")
	errCannotAsk  = errors.New("mcpidem: the client cannot ask a person")
	confirmSchema = json.RawMessage(`{"type":"object","properties":{}}`)
)

// ask makes the answer that has the client ask.
func (d *definition) ask(req *mcp.CallToolRequest, call txidem.Request, question string) error {
	if !canAsk(req.ClientCapabilities()) {
		return errCannotAsk
	}
	state, err := d.state(call, question, d.adapter.now().Add(d.confirmWithin))
	if err != nil {
		return err
	}
	return &unrecorded{&mcp.CallToolResult{
		InputRequests: mcp.InputRequestMap{confirmRequest: &mcp.ElicitParams{Mode: "form", Message: question, RequestedSchema: confirmSchema}},
		RequestState:  state,
	}}
}

// canAsk reports whether the client shows forms. One that names no kind of elicitation means forms.
func canAsk(c *mcp.ClientCapabilities) bool {
	return c != nil && c.Elicitation != nil && (c.Elicitation.Form != nil || c.Elicitation.URL == nil)
}

// state is what the client sends back with the person's word: until when that is good, and a signature that binds it to caller,
// tool, key, arguments and question.
func (d *definition) state(call txidem.Request, question string, until time.Time) (string, error) {
	canonical, err := canonjson.Canonical(canonjson.Version, call.Args, nil)
	if err != nil {
		return "", fmt.Errorf("%w: %w", errArguments, err)
	}
	expiry := binary.BigEndian.AppendUint64(nil, uint64(until.UnixNano()))
	mac := hmac.New(sha256.New, d.adapter.cfg.Secret)
	for _, part := range [...]string{"mcpidem confirmation 1", string(expiry), call.Scope, call.Tool, call.Key, string(canonical), question} {
		mac.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		mac.Write([]byte(part))
	}
	return base64.RawURLEncoding.EncodeToString(append(expiry, mac.Sum(nil)...)), nil
}

// isConfirmed reports whether the state was made for this very call and question, and is still good.
func (d *definition) isConfirmed(call txidem.Request, question, state string) bool {
	raw, err := base64.RawURLEncoding.DecodeString(state)
	if err != nil || len(raw) != 8+sha256.Size {
		return false
	}
	until := time.Unix(0, int64(binary.BigEndian.Uint64(raw)))
	want, err := d.state(call, question, until)
	return err == nil && hmac.Equal([]byte(want), []byte(state)) && d.adapter.now().Before(until)
}
