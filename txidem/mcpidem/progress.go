package mcpidem

import (
	"context"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const shortestProgress = 10 * time.Millisecond

// tell lets a client that gave a progress token know, for as long as the call goes on or waits for another one, that
// there is somebody (M09). Clients may start their clock anew with each message. The function ends it.
func (d *definition) tell(ctx context.Context, req *mcp.CallToolRequest) (stop func()) {
	token, every := req.Params.GetProgressToken(), d.adapter.cfg.Progress
	if token == nil || req.Session == nil || every < 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	over := make(chan struct{})
	go func() {
		defer close(over)
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for n := 1.0; ; n++ {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			// An error means that the client is gone, and the call does not depend on it.
			_ = req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
				ProgressToken: token, Progress: n, Message: fmt.Sprintf("%s has not ended yet. Do not call it again; wait for its answer.", d.name),
			})
		}
	}()
	return func() { cancel(); <-over }
}
