package mcpidem

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/toolcall"
	"github.com/txonce/txonce/txidem"
)

// What follows is for a package that puts tools of its own beside the protected ones, such as statustool: an [*Adapter] is its
// Host.

// Server returns the server that the tools are on.
func (a *Adapter) Server() *mcp.Server { return a.server }

// ScopeOf names the caller of a request, by [Config].Scope.
func (a *Adapter) ScopeOf(ctx context.Context, req *mcp.CallToolRequest) (string, error) {
	return a.cfg.Scope(ctx, req)
}

// Tools returns the protected tools as clients see them, in the order in which they were added. They are for reading. Those whose
// protection is switched off (txidem.Policy.Disabled) are not among them: nothing is known of their calls.
func (a *Adapter) Tools() []*mcp.Tool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.guarded)
}

// OnTool has f called for each protected tool that is added from now on, when it is on the server. An error refuses the tool: what
// adds it panics. It may call the adapter.
func (a *Adapter) OnTool(f func(*mcp.Tool) error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.onTool = append(a.onTool, f)
}

// Reserve takes a name for a tool that the caller puts on the server itself. It returns an error if the adapter has a tool of that
// name; one that was put on the server without the adapter is not seen, and the SDK replaces it.
func (a *Adapter) Reserve(name string) error { return a.add(name, classRead) }

// Recorded makes the result of a call of what is recorded as its answer, as a repetition of the call would get it, but
// for the marks of a replay. The status is one of a call that has succeeded.
func (a *Adapter) Recorded(status toolcall.Status) (*mcp.CallToolResult, error) {
	if status.State != toolcall.StateSucceeded || !json.Valid(status.Answer) {
		return nil, fmt.Errorf("%w: call %s is %s and has no answer in JSON", txidem.ErrRecord, status.ID, status.State)
	}
	return answer(txidem.Result[json.RawMessage]{Raw: status.Answer, ID: status.ID, FinishedAt: status.FinishedAt})
}

// announce remembers a protected tool, and tells those who asked.
func (a *Adapter) announce(t *mcp.Tool) error {
	a.mu.Lock()
	a.guarded = append(a.guarded, t)
	told := slices.Clone(a.onTool)
	a.mu.Unlock()
	for _, f := range told {
		if err := f(t); err != nil {
			return err
		}
	}
	return nil
}
