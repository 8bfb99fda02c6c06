package intent

import (
	"context"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// clear asks the status tool before the call is made again, and reports whether it may be. A call that runs is waited for; one whose
// record has expired must not be repeated, for it would run. Everything else, and a status tool that fails, leaves it to the
// key: a call that was done is answered from its record.
func (c *call) clear(ctx context.Context) bool {
	for {
		said, err := c.ask(ctx)
		if err != nil {
			c.cfg.Logger.InfoContext(ctx, "intent: the status tool did not answer", "tool", c.cfg.StatusTool, "of", c.params.Name, "error", err)
			return ctx.Err() == nil
		}
		switch said["state"] {
		case "running":
			c.last = fmt.Errorf("%s answered that it is running", c.cfg.StatusTool)
			if !c.pause(ctx, seconds(said)) {
				return false
			}
		case "expired":
			c.last = ErrExpired
			return false
		default:
			return true
		}
	}
}

// ask goes through the session, not through next: the SDK puts the headers of the called tool on a request. The middleware lets
// calls of the status tool pass.
func (c *call) ask(ctx context.Context) (map[string]any, error) {
	session, ok := c.req.GetSession().(*mcp.ClientSession)
	if !ok || session == nil {
		return nil, fmt.Errorf("the request has no session")
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Attempt)
	defer cancel()
	result, err := session.CallTool(ctx, &mcp.CallToolParams{
		Name:      c.cfg.StatusTool,
		Arguments: map[string]any{"tool": c.params.Name, "idempotency_key": c.key},
	})
	if err != nil {
		return nil, err
	}
	said, _ := result.StructuredContent.(map[string]any)
	if result.IsError || said == nil {
		return nil, fmt.Errorf("the answer is none: %v", said)
	}
	return said, nil
}
