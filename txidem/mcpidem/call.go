package mcpidem

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/internal/canonjson"
	"github.com/txonce/txonce/txidem"
)

// Where a caller's key may stand. What the harness says beats what the model says (K02).
const (
	// MetaKey is the name under which a harness puts the idempotency key into a request's _meta.
	MetaKey = "dev.txonce/idempotency-key"
	// HeaderKey is the HTTP header that is looked at next.
	HeaderKey = "Idempotency-Key"
)

// rawHandler is a tool's handler behind its types.
type rawHandler func(ctx context.Context, tx pgx.Tx, args json.RawMessage) (json.RawMessage, error)

// call answers one request.
func (d *definition) call(ctx context.Context, req *mcp.CallToolRequest, h rawHandler) (*mcp.CallToolResult, error) {
	scope, err := d.adapter.scope(ctx, req)
	if err != nil {
		d.adapter.log.ErrorContext(ctx, "mcpidem: a call was refused because its caller is not known", "tool", d.name, "error", err)
		return refused(codeNoCaller, "This server cannot tell who is calling, so it did nothing. Do not repeat the call; the people who run this server have to set up who may call it."), nil
	}
	key, args, problem := d.keyAndArguments(req)
	if problem != "" {
		return refused(codeBadKey, problem+" Nothing was done."), nil
	}
	request := txidem.Request{Scope: scope, Tool: d.name, Key: key, Args: args, Rules: d.rules, Policy: d.cfg.Policy}
	result, err := txidem.Run(ctx, d.adapter.store, request, func(ctx context.Context, tx pgx.Tx) (json.RawMessage, error) {
		return h(ctx, tx, args)
	})
	if err != nil {
		return d.failed(ctx, result, err)
	}
	return succeeded(result), nil
}

// keyAndArguments finds the caller's key, if there is one, and returns the arguments without it. A problem is in the
// model's words.
func (d *definition) keyAndArguments(req *mcp.CallToolRequest) (key string, args json.RawMessage, problem string) {
	args = req.Params.Arguments
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	if d.cfg.Key != KeyOff {
		given, found, rest, err := canonjson.TakeString(args, keyArgument)
		switch {
		case err != nil:
			return "", nil, fmt.Sprintf("The arguments cannot be read: %v.", err)
		case found && given == "":
			return "", nil, "The argument idempotency_key is empty: give a key of 1 to 255 characters, the same one each time you repeat this call, or leave it out."
		}
		key, args = given, rest
	}
	if req.Extra != nil {
		if header := req.Extra.Header.Get(HeaderKey); header != "" {
			key = header
		}
	}
	if meta, found := req.Params.Meta[MetaKey]; found {
		text, ok := meta.(string)
		if !ok || text == "" {
			return "", nil, fmt.Sprintf("_meta[%q] must be a string of 1 to 255 characters.", MetaKey)
		}
		key = text
	}
	if key == "" && d.cfg.Key == KeyRequired {
		return "", nil, "This tool needs the argument idempotency_key: choose a new key, such as a UUID, for this intent, and give the same key each time you repeat this call."
	}
	return key, args, ""
}

// failed says in the model's words what err means. A protocol error that the handler made stays one.
func (d *definition) failed(ctx context.Context, result txidem.Result[json.RawMessage], err error) (*mcp.CallToolResult, error) {
	if wire, ok := err.(*jsonrpc.Error); ok { //nolint:errorlint // as the SDK does: a wrapped one is the tool's own
		return nil, wire
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil, err // nobody is left to read a result
	}
	return d.explain(ctx, result, err), nil
}
