package intent_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/txidem"
	"github.com/txonce/txonce/txidem/mcpidem"
	"github.com/txonce/txonce/txidem/mcpidem/intent"
)

// A harness that was killed behind a call makes it again when it resumes, on a new session: the refund is paid once.
func Example() {
	ctx := context.Background()
	server := billing()
	for range 2 { // the run, and the run that resumes from its checkpoint
		client := mcp.NewClient(&mcp.Implementation{Name: "harness", Version: "1"}, nil)
		client.AddSendingMiddleware(intent.Middleware(&intent.Config{
			Tools: func(name string) bool { return name == "issue_refund" },
		}))
		session, done := connect(ctx, client, server)

		ctx := intent.WithStep(ctx, "run-7", "step-3") // from the checkpoint
		result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "issue_refund", Arguments: map[string]any{"order": "A-1", "cents": 1050}})
		switch {
		case errors.Is(err, intent.ErrOutcomeUnknown):
			fmt.Println("ask, before anything else is done:", err)
		case err != nil:
			fmt.Println("not done:", err)
		default:
			fmt.Println(result.StructuredContent, "replayed:", result.Meta["dev.txonce/replayed"] == true)
		}
		done()
	}
	// Output:
	// map[cents:1050 refund:1] replayed: false
	// map[cents:1050 refund:1] replayed: true
}

// billing is a server whose one tool is protected, on a store that needs no Postgres.
func billing() *mcp.Server {
	store, err := txidem.NewMemory(nil, nil)
	if err != nil {
		panic(err)
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "billing", Version: "1"}, nil)
	idem, err := mcpidem.New(server, store, &mcpidem.Config{Scope: mcpidem.ScopeIs("agent")})
	if err != nil {
		panic(err)
	}
	paid := int64(0)
	mcpidem.AddTool(idem, &mcp.Tool{Name: "issue_refund"}, func(_ context.Context, _ pgx.Tx, in refund) (receipt, error) {
		paid++
		return receipt{Refund: paid, Cents: in.Cents}, nil
	})
	return server
}

func connect(ctx context.Context, client *mcp.Client, server *mcp.Server) (session *mcp.ClientSession, done func()) {
	here, there := mcp.NewInMemoryTransports()
	serving, err := server.Connect(ctx, there, nil)
	if err != nil {
		panic(err)
	}
	session, err = client.Connect(ctx, here, nil)
	if err != nil {
		panic(err)
	}
	return session, func() { _ = errors.Join(session.Close(), serving.Wait()) }
}
