package statustool

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/toolcall"
)

// Host is a server with protected tools, such as a *mcpidem.Adapter.
type Host interface {
	// Server is the server that the tools are on.
	Server() *mcp.Server
	// ScopeOf names the caller of a request. An error refuses it.
	ScopeOf(ctx context.Context, req *mcp.CallToolRequest) (string, error)
	// Tools are the protected tools as clients see them, in order.
	Tools() []*mcp.Tool
	// OnTool has f called for each tool that is protected from now on. An error refuses the tool.
	OnTool(f func(*mcp.Tool) error)
	// Reserve takes the name of a tool, and returns an error if it is taken.
	Reserve(name string) error
	// Recorded makes of a call that has succeeded the result that the call got.
	Recorded(toolcall.Status) (*mcp.CallToolResult, error)
	// UseStatusTool names the tool to which the texts of the protected tools point.
	UseStatusTool(name string)
}

// Canceller cancels jobs. A *jobs.Runner is one. It returns the status of the job behind the request, or an error; what the job
// came to then is read from the sources.
type Canceller interface {
	Cancel(ctx context.Context, scope string, id toolcall.ID) (toolcall.Status, error)
}
