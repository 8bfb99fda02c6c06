package mcpidem

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/internal/canonjson"
	"github.com/txonce/txonce/internal/idemkey"
	"github.com/txonce/txonce/internal/keyheader"
	"github.com/txonce/txonce/txidem"
)

// Where a caller's key may stand. What the harness says beats what the model says (K02).
const (
	// MetaKey is the name under which a harness puts the idempotency key into a request's _meta.
	MetaKey = idemkey.Meta
	// HeaderKey is the HTTP header that is looked at next.
	HeaderKey = keyheader.Name
)

// handler runs a call in one of the ways of txidem. gate is nil, or what it is to return in place of having an effect.
type handler func(ctx context.Context, req *mcp.CallToolRequest, call txidem.Request, gate error) (txidem.Result[json.RawMessage], error)

// call answers one request. Whatever panics on the way, in a hook of the server's or in a type of the tool's, does not
// take the server with it (M06); the handler's own panics end in txidem.Run.
func (d *definition) call(ctx context.Context, req *mcp.CallToolRequest) (result *mcp.CallToolResult, err error) {
	defer func() {
		if v := recover(); v != nil {
			d.adapter.log.ErrorContext(ctx, "mcpidem: a call panicked", "tool", d.name, "panic", v, "stack", string(debug.Stack()))
			result, err = d.unknown().result(nil), nil
		}
	}()
	scope, err := d.adapter.cfg.Scope(ctx, req)
	if err != nil {
		d.adapter.log.ErrorContext(ctx, "mcpidem: a call was refused because its caller is not known", "tool", d.name, "error", err)
		return refused(statusNoCaller, noCallerText), nil
	}
	key, origin, args, problem := d.keyAndArguments(req)
	if problem != nil {
		return problem.result(nil), nil
	}
	defer d.tell(ctx, req)()
	call := txidem.Request{Scope: scope, Tool: d.name, Key: key, Args: args, Rules: d.rules, Policy: d.cfg.Policy}
	out, err := d.handle(ctx, req, call, d.gate(ctx, req, call))
	if err == nil {
		result, err = answer(out)
	}
	if err != nil {
		return d.failed(ctx, call, out, origin, err)
	}
	return result, nil
}

// keyOrigin says who chose the key, and so who can choose another one.
type keyOrigin int

const (
	fromArguments keyOrigin = iota // nobody: it is their hash
	fromModel
	fromHarness
)

// newIntent tells the model how to say that it means something new.
func (d *definition) newIntent(o keyOrigin) string {
	switch {
	case o == fromModel, o == fromArguments && d.cfg.Key != KeyOff:
		return "For a new intent, call again with a new idempotency_key."
	case o == fromHarness:
		return "For a new intent, the program that calls this tool must choose a new idempotency key: it was set outside of your arguments."
	default:
		return "For a new intent, call again with other arguments."
	}
}

// keyAndArguments finds the caller's key, if there is one, and returns the arguments without it. A null stands for what
// is absent, as some clients send it.
func (d *definition) keyAndArguments(req *mcp.CallToolRequest) (key string, origin keyOrigin, args json.RawMessage, problem *refusal) {
	bad := func(status, text string) (string, keyOrigin, json.RawMessage, *refusal) {
		return "", 0, nil, &refusal{Status: status, Message: text + " Nothing was done."}
	}
	args = req.Params.Arguments
	if len(args) == 0 || string(args) == "null" {
		args = json.RawMessage("{}")
	}
	if d.cfg.Key != KeyOff && mayHaveKey(args) {
		given, found, rest, err := canonjson.TakeString(args, keyArgument)
		switch {
		case errors.Is(err, canonjson.ErrNotString):
			return bad(statusBadKey, "The argument idempotency_key is not a string: give a key of 1 to 255 characters, or leave it out.")
		case err != nil:
			return bad(statusBadArgs, fmt.Sprintf("The arguments cannot be read: %s.", plain(err)))
		case found && given == "":
			return bad(statusBadKey, "The argument idempotency_key is empty: give a key of 1 to 255 characters, the same one each time you repeat this call, or leave it out.")
		}
		if args = rest; found {
			key, origin = given, fromModel
		}
	}
	switch header, err := headerKey(req); {
	case err != nil:
		return bad(statusBadKey, fmt.Sprintf("The key in the header cannot be used: %v.", err))
	case header != "":
		key, origin = header, fromHarness
	}
	if meta, found := req.Params.Meta[MetaKey]; found {
		text, ok := meta.(string)
		if !ok || text == "" {
			return bad(statusBadKey, fmt.Sprintf("_meta[%q] must be a string of 1 to 255 characters.", MetaKey))
		}
		key, origin = text, fromHarness
	}
	if key == "" && d.cfg.Key == KeyRequired {
		return bad(statusBadKey, "This tool needs the argument idempotency_key: choose a new key, such as a UUID, for this intent, and give the same key each time you repeat this call.")
	}
	return key, origin, args, nil
}

// mayHaveKey reports whether the reserved argument can be among the arguments, whose names may have escapes: most have none, and
// are not read for it.
func mayHaveKey(args []byte) bool {
	return bytes.Contains(args, []byte(keyArgument)) || bytes.IndexByte(args, '\\') >= 0
}

// headerKey is the key in the request's header, if there is one. An empty header is none, as a proxy leaves one that it has
// cleared; an empty string in quotation marks is a mistake, for it would take the model's key away and put none in its place.
func headerKey(req *mcp.CallToolRequest) (key string, err error) {
	if req.Extra == nil {
		return "", nil
	}
	headers := req.Extra.Header.Values(HeaderKey)
	if len(headers) == 1 && headers[0] == "" {
		return "", nil
	}
	return keyheader.Parse(headers)
}

// failed says in the model's words what err means. A protocol error that the handler made stays one.
func (d *definition) failed(ctx context.Context, call txidem.Request, result txidem.Result[json.RawMessage], origin keyOrigin, err error) (*mcp.CallToolResult, error) {
	if wire, ok := err.(*jsonrpc.Error); ok { //nolint:errorlint // as the SDK does: a wrapped one is the tool's own
		return nil, wire
	}
	var notKept *unrecorded
	if errors.As(err, &notKept) { // a fresh one: the SDK writes into it
		result := *notKept.result
		result.Meta = maps.Clone(result.Meta)
		if result.Content == nil {
			result.Content = []mcp.Content{} // null is no list for some clients
		}
		return &result, nil
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil, err // nobody is left to read a result
	}
	return d.explain(ctx, call, result, origin, err), nil
}

// realError names a protocol error that is a nil pointer: nobody may ask it anything, and the SDK would, outside of what recovers.
func realError(err error) error {
	if wire, ok := err.(*jsonrpc.Error); ok && wire == nil { //nolint:errorlint // a nil pointer wraps nothing
		return fmt.Errorf("%w: the handler returned a *jsonrpc.Error that is nil; return nil itself", txidem.ErrAnswer)
	}
	return err
}
