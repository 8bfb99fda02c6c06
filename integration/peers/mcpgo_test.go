package peers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os/exec"
	"testing"

	mcpgo "github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	mcpgotypes "github.com/mark3labs/mcp-go/mcp"
)

// mcpgoClient is a session of mcp-go's client.
type mcpgoClient struct{ client *mcpgo.Client }

func connectMCPGo(t *testing.T, over transport.Interface, k kind) (*mcpgoClient, error) {
	t.Helper()
	var opts []mcpgo.ClientOption
	if k.ask != nil {
		opts = append(opts, mcpgo.WithElicitationHandler(mcpgoPerson(k.ask)))
	}
	c := mcpgo.NewClient(over, opts...)
	if k.hears != nil {
		c.OnNotification(func(n mcpgotypes.JSONRPCNotification) {
			if fields := n.Params.AdditionalFields; n.Method == "notifications/progress" {
				done, _ := fields["progress"].(float64)
				message, _ := fields["message"].(string)
				k.hear(progress{fields["progressToken"], done, message})
			}
		})
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.Start(context.WithoutCancel(t.Context())); err != nil {
		return nil, err
	}
	var hello mcpgotypes.InitializeRequest
	hello.Params.ClientInfo = mcpgotypes.Implementation{Name: "agent", Version: "1"}
	if _, err := c.Initialize(t.Context(), hello); err != nil {
		return nil, err
	}
	return &mcpgoClient{c}, nil
}

func (c *mcpgoClient) revision() string { return c.client.ProtocolVersion() }

func (c *mcpgoClient) call(ctx context.Context, what call) (*answer, error) {
	var req mcpgotypes.CallToolRequest
	req.Params.Name, req.Params.Arguments = what.name(), json.RawMessage(what.args)
	if meta := what.allMeta(); meta != nil {
		req.Params.Meta = &mcpgotypes.Meta{AdditionalFields: meta} // the progress token among them
	}
	r, err := c.client.CallTool(ctx, req)
	if err != nil {
		return nil, err
	}
	a := &answer{Structured: string(r.RawStructuredContent), IsError: r.IsError}
	if r.Meta != nil {
		a.Meta = r.Meta.AdditionalFields
	}
	for _, content := range r.Content {
		text, ok := content.(mcpgotypes.TextContent)
		if !ok {
			return nil, fmt.Errorf("a content of type %T", content)
		}
		a.Texts = append(a.Texts, text.Text)
	}
	return a, nil
}

// mcpgoChild is its transport to a process of its own.
func mcpgoChild(cmd *exec.Cmd) transport.Interface {
	return transport.NewStdioWithOptions(cmd.Path, nil, nil, transport.WithCommandLogger(quiet()),
		transport.WithCommandFunc(func(context.Context, string, []string, []string) (*exec.Cmd, error) { return cmd, nil }))
}

// mcpgoPipe is its transport over two pipes.
func mcpgoPipe(in io.Reader, out io.WriteCloser) transport.Interface {
	return transport.NewIO(in, out, io.NopCloser(errReader{}))
}

// errReader is a standard error that says nothing.
type errReader struct{}

func (errReader) Read([]byte) (int, error) { return 0, errors.New("closed") }

func mcpgoWeb(t *testing.T, url string, k kind) (transport.Interface, error) {
	return transport.NewStreamableHTTP(url, transport.WithHTTPLogger(quiet()),
		transport.WithHTTPBasicClient(&http.Client{Transport: k.over(newTransport(t))}))
}

// mcpgoPerson is who its client asks.
type mcpgoPerson func(question string) (action string)

func (p mcpgoPerson) Elicit(_ context.Context, req mcpgotypes.ElicitationRequest) (*mcpgotypes.ElicitationResult, error) {
	var said mcpgotypes.ElicitationResult
	said.Action = mcpgotypes.ElicitationResponseAction(p(req.Params.Message))
	return &said, nil
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }
