package intent

import (
	"context"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const methodCall = "tools/call"

// Middleware makes the sending middleware for clients: client.AddSendingMiddleware(intent.Middleware(cfg)). It serves all
// sessions of a client, and several clients, at once.
//
// Like the SDK's AddTool it panics on what cannot be meant: no Config.Tools, a duration below 0, a MinBackoff above MaxBackoff.
func Middleware(cfg *Config) mcp.Middleware {
	c, err := cfg.withDefaults()
	if err != nil {
		panic(err)
	}
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			params, ok := req.GetParams().(*mcp.CallToolParams)
			if method != methodCall || !ok || params == nil || params.Name == c.StatusTool || !c.Tools(params.Name) {
				return next(ctx, method, req)
			}
			key, err := keyFor(ctx, params)
			switch {
			case err != nil:
				return nil, err
			case key == "" && c.Require:
				return nil, fmt.Errorf("intent: the call of %s belongs to no step: %w", params.Name, errNoIntent)
			case key == "":
				return next(ctx, method, req)
			}
			return (&call{cfg: &c, next: next, req: req, params: params, key: key}).run(ctx)
		}
	}
}
