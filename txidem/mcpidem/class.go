package mcpidem

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/internal/idemkey"
	"github.com/txonce/txonce/txidem"
)

// class is what repeating a tool's call does. Only guarded tools pay for protection (M02).
type class string

const (
	classRead       class = "read"          // it changes nothing
	classIdempotent class = "idempotent"    // a second time changes nothing more: set a field, upsert by a stable id
	classGuarded    class = idemkey.Guarded // charge, refund, send, create, append: recorded, and done once
)

// AddReadTool adds a tool that changes nothing, with the annotations that say so. It is the SDK's AddTool with two
// differences: a panic of the handler does not take the server with it, and a name that the adapter has already is
// refused. It panics like the SDK's on a tool that cannot be added.
func AddReadTool[In, Out any](a *Adapter, t *mcp.Tool, h mcp.ToolHandlerFor[In, Out]) {
	addPlain(a, t, classRead, h)
}

// AddIdempotentTool adds a tool that changes something, and nothing more when it is called again with the same arguments: it
// sets a value, or upserts by an id that is among the arguments. Nothing is recorded, and the annotations say that
// repeating it is safe. Be sure: one that also appends to a history, or sends mail, is for [AddTool]. Else as
// [AddReadTool].
func AddIdempotentTool[In, Out any](a *Adapter, t *mcp.Tool, h mcp.ToolHandlerFor[In, Out]) {
	addPlain(a, t, classIdempotent, h)
}

func addPlain[In, Out any](a *Adapter, t *mcp.Tool, c class, h mcp.ToolHandlerFor[In, Out]) {
	if t == nil || t.Name == "" {
		panic(errNoName)
	}
	published := *t
	var err error
	if h == nil {
		err = errNoHandler
	} else if published.Annotations, err = annotate(t.Annotations, c, c == classIdempotent); err == nil {
		err = a.add(t.Name, c)
	}
	if err != nil {
		panic(fmt.Errorf("mcpidem: tool %q: %w", t.Name, err))
	}
	mcp.AddTool(a.server, &published, func(ctx context.Context, req *mcp.CallToolRequest, in In) (result *mcp.CallToolResult, out Out, err error) {
		defer func() {
			if v := recover(); v != nil {
				a.log.ErrorContext(ctx, "mcpidem: a handler panicked", "tool", t.Name, "panic", v, "stack", string(debug.Stack()))
				err = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "This tool has a fault. Tell the people who run this tool."}
			}
		}()
		result, out, err = h(ctx, req, in)
		return result, out, realError(err)
	})
}

var (
	errNoName    = errors.New("mcpidem: a tool needs a name")
	errNoHandler = errors.New("it has no handler; give the function that does its work")
)

// annotate returns the annotations that are true of the class, with what the author said beside. A hint of the author's that is
// not true is an error: clients repeat calls on the strength of it.
func annotate(given *mcp.ToolAnnotations, c class, repeatable bool) (*mcp.ToolAnnotations, error) {
	var hints mcp.ToolAnnotations
	if given != nil {
		hints = *given
	}
	switch {
	case hints.ReadOnlyHint && c != classRead:
		return nil, errors.New("it says ReadOnlyHint, but it is added as one that writes; add it with AddReadTool, or remove the hint")
	case hints.IdempotentHint && c == classGuarded && !repeatable:
		return nil, errors.New("it says IdempotentHint, which is true for as long as calls are remembered only; " +
			"remove the hint, set Policy.OnExpired to Refuse, or, if repeating it does no more by itself, add it with AddIdempotentTool")
	}
	hints.ReadOnlyHint, hints.IdempotentHint = c == classRead, repeatable
	return &hints, nil
}

// repeatableFor reports whether repeating a guarded call never does more. Protection that ends after a time is none for a
// client that takes the hint for a licence to repeat: that needs records that refuse for ever.
func repeatableFor(policy txidem.Policy) bool {
	return policy.OnExpired == txidem.Refuse && !policy.Disabled
}
