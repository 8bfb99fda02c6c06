package mcpidem

import (
	"context"
	"maps"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/internal/idemkey"
	"github.com/txonce/txonce/txidem"
)

// Extension is the name under which a server says in its capabilities, and each guarded tool in its _meta, how calls are
// protected. The settings are those of the server's and of the tool's policy:
//
//	retentionSeconds  how long a call with a key is remembered
//	windowSeconds     how long a call without one is
//	metaKey, header   where a harness may put its key (server)
//	class, key        "guarded", and whether the argument idempotency_key is "optional", "required" or "off" (tool)
const Extension = idemkey.Extension

func settings(policy txidem.Policy) map[string]any {
	return map[string]any{"retentionSeconds": seconds(policy.Retention), "windowSeconds": seconds(policy.Window)}
}

func seconds(d time.Duration) float64 { return float64(d) / float64(time.Second) }

// advertise adds the extension to what the server says of itself: in the handshake, and in the discovery that takes its
// place since 2026-07-28. The SDK's own answer is left as it is: it may be shared.
func advertise(policy txidem.Policy) mcp.Middleware {
	own := settings(policy)
	own["metaKey"], own["header"] = MetaKey, HeaderKey
	with := func(given *mcp.ServerCapabilities) *mcp.ServerCapabilities {
		var capabilities mcp.ServerCapabilities
		if given != nil {
			capabilities = *given
		}
		capabilities.Extensions = maps.Clone(capabilities.Extensions)
		capabilities.AddExtension(Extension, own)
		return &capabilities
	}
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			result, err := next(ctx, method, req)
			switch said := result.(type) {
			case *mcp.InitializeResult:
				if said != nil {
					answer := *said
					answer.Capabilities = with(said.Capabilities)
					return &answer, err
				}
			case *mcp.DiscoverResult:
				if said != nil {
					answer := *said
					answer.Capabilities = with(said.Capabilities)
					return &answer, err
				}
			}
			return result, err
		}
	}
}
