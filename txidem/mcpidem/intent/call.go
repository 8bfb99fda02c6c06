package intent

import (
	"context"
	"maps"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/internal/idemkey"
)

// call is one call with all its attempts. It runs in the caller's goroutine and starts none.
type call struct {
	cfg    *Config
	next   mcp.MethodHandler
	req    mcp.Request
	params *mcp.CallToolParams // the caller's: never written to
	key    string

	attempts int
	pauses   int
	unknown  bool  // an attempt may have been done, or is running
	last     error // what was heard last
}

// run makes attempts until one is answered or the time is over.
func (c *call) run(parent context.Context) (mcp.Result, error) {
	if err := parent.Err(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(parent, c.cfg.Deadline)
	defer cancel()
	for {
		result, err := c.attempt(ctx)
		heard := judge(result, err)
		c.note(ctx, heard)
		switch heard.what {
		case answered:
			return result, err
		case evasive:
			if c.unknown {
				return nil, c.giveUp(parent)
			}
			return result, err
		case ended, endedUnsent:
			return nil, c.giveUp(parent)
		}
		if !c.pause(ctx, heard.after) || c.unsure(heard) && !c.clear(ctx) {
			if !c.unknown && result != nil && parent.Err() == nil {
				return result, nil // it says truly that nothing was done
			}
			return nil, c.giveUp(parent)
		}
	}
}

// attempt sends the call once, with a copy of the params that is this attempt's own.
func (c *call) attempt(ctx context.Context) (mcp.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Attempt)
	defer cancel()
	params := *c.params
	params.Meta = maps.Clone(params.Meta)
	if params.Meta == nil {
		params.Meta = mcp.Meta{}
	}
	params.Meta[idemkey.Meta] = c.key
	session, _ := c.req.GetSession().(*mcp.ClientSession)
	c.attempts++
	return c.next(ctx, methodCall, &mcp.ClientRequest[*mcp.CallToolParams]{Session: session, Params: &params})
}

// note remembers what an attempt means for those before it.
func (c *call) note(ctx context.Context, heard verdict) {
	switch heard.what {
	case lost, running, ended:
		c.unknown = true
	}
	c.last = heard.err
	if heard.what != answered {
		c.cfg.Logger.InfoContext(ctx, "intent: a call was not answered", "tool", c.params.Name, "attempt", c.attempts, "heard", heard.err)
	}
}

// pause waits as long as the server asks for and a random time more. It reports false at once if that would go beyond the
// deadline, and as soon as the caller goes.
func (c *call) pause(ctx context.Context, after time.Duration) bool {
	wait := after + c.cfg.backoff(c.pauses)
	c.pauses++
	if deadline, ok := ctx.Deadline(); ctx.Err() != nil || ok && time.Until(deadline) <= wait {
		return false
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// unsure reports whether the status tool has something to add to what was heard.
func (c *call) unsure(heard verdict) bool { return heard.what == lost && c.cfg.StatusTool != "" }
