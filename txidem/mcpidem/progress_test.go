package mcpidem_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/txidem"
	"github.com/txonce/txonce/txidem/mcpidem"
)

func TestProgress_M09_ClientHearsWhileTheCallRunsAndWhileADuplicateWaits(t *testing.T) {
	t.Parallel()
	for _, version := range []string{legacy, modern} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			s := newShop(t, &mcpidem.Config{Progress: 10 * time.Millisecond}, version)
			goOn, there := make(chan struct{}), make(chan struct{})
			mcpidem.AddTool(s.idem, &mcp.Tool{Name: "slow"}, func(context.Context, pgx.Tx, refund) (receipt, error) {
				close(there)
				<-goOn
				return receipt{}, nil
			})
			results := make(chan *mcp.CallToolResult)
			call := func(token string) (heard chan *mcp.ProgressNotificationParams) {
				heard = make(chan *mcp.ProgressNotificationParams, 1000)
				session := s.connect(&mcp.ClientOptions{ProgressNotificationHandler: func(_ context.Context, n *mcp.ProgressNotificationClientRequest) { heard <- n.Params }})
				params := &mcp.CallToolParams{Name: "slow", Arguments: refund{Order: "A"}}
				params.SetProgressToken(token)
				go func() {
					r, err := session.CallTool(t.Context(), params)
					if err != nil {
						t.Error(err)
					}
					results <- r
				}()
				return heard
			}
			runs := call("first")
			<-there
			waits := call("second")
			for token, heard := range map[string]chan *mcp.ProgressNotificationParams{"first": runs, "second": waits} {
				one, two := <-heard, <-heard
				if one.ProgressToken != token || one.Progress != 1 || two.Progress != 2 || !strings.Contains(one.Message, "slow has not ended yet. Do not call it again") {
					t.Errorf("%s heard %+v, %+v", token, one, two)
				}
			}
			close(goOn)
			if a, b := <-results, <-results; replayed(a) == replayed(b) {
				t.Errorf("replayed: %v and %v", replayed(a), replayed(b))
			}
		})
	}
}

func TestProgress_M09_OnlyForClientsThatAsk(t *testing.T) {
	t.Parallel()
	for label, cfg := range map[string]*mcpidem.Config{"no token": {Progress: 10 * time.Millisecond}, "never": {Progress: -1}} {
		t.Run(label, func(t *testing.T) {
			t.Parallel()
			s := newShop(t, cfg)
			mcpidem.AddTool(s.idem, &mcp.Tool{Name: "slow"}, func(ctx context.Context, _ pgx.Tx, _ refund) (receipt, error) {
				select { // long enough for many ticks
				case <-time.After(200 * time.Millisecond):
				case <-ctx.Done():
				}
				return receipt{}, nil
			})
			session := s.connect(&mcp.ClientOptions{ProgressNotificationHandler: func(_ context.Context, n *mcp.ProgressNotificationClientRequest) {
				t.Errorf("heard %+v", n.Params)
			}})
			params := &mcp.CallToolParams{Name: "slow", Arguments: refund{Order: "A"}}
			if label == "never" {
				params.SetProgressToken("x")
			}
			if _, err := session.CallTool(t.Context(), params); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestNew_M09_ProgressIsBounded(t *testing.T) {
	t.Parallel()
	store, err := txidem.NewMemory(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "shop", Version: "1"}, nil)
	if _, err := mcpidem.New(server, store, &mcpidem.Config{Scope: mcpidem.ScopeIs("a"), Progress: time.Millisecond}); err == nil || !strings.Contains(err.Error(), "Config.Progress is 1ms; give 10ms or more") {
		t.Errorf("got %v", err)
	}
}
