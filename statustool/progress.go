package statustool

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/toolcall"
)

// tiny is how much further a report without progress is: the protocol wants each number to be larger than the one before.
const tiny = 1e-6

// teller hands on what a job reports to a client that gave a progress token, while its question waits. It is nil for others.
func teller(ctx context.Context, req *mcp.CallToolRequest) func(toolcall.Status) {
	token := req.Params.GetProgressToken()
	if token == nil || req.Session == nil {
		return nil
	}
	told, last := -1.0, toolcall.Progress{}
	return func(s toolcall.Status) {
		if s.Job == nil || s.Job.Progress == nil || *s.Job.Progress == last {
			return
		}
		last = *s.Job.Progress
		value := max(last.Fraction, told+tiny) // an attempt that begins anew reports less
		if value > 1 {
			return
		}
		told = value
		// An error means that the client is gone; its context will say so.
		_ = req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: value, Total: 1, Message: last.Message})
	}
}
