package mcpidem

import (
	"context"
	"errors"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// ScopeFunc names the caller of a request: the same caller by the same name in every request, on every session and
// every server. An error refuses the call.
type ScopeFunc func(ctx context.Context, req *mcp.CallToolRequest) (string, error)

// ErrNoToken is returned by [ScopeFromToken] for a request without a verified token.
var ErrNoToken = errors.New("mcpidem: the request carries no verified token with a user id; put auth.RequireBearerToken in front of the handler, or use ScopeIs")

// ScopeFromToken takes the user id of the token that the SDK's auth.RequireBearerToken has verified for this very
// request. It never looks at the context: on a stateful session that holds the token of the first request (M04).
func ScopeFromToken(_ context.Context, req *mcp.CallToolRequest) (string, error) {
	if req.Extra == nil || req.Extra.TokenInfo == nil || req.Extra.TokenInfo.UserID == "" {
		return "", ErrNoToken
	}
	return req.Extra.TokenInfo.UserID, nil
}

// ScopeIs states the caller for servers that have one only, such as a server on stdio. An empty name is no caller: New
// refuses it.
func ScopeIs(name string) ScopeFunc {
	if name == "" {
		return nil
	}
	return func(context.Context, *mcp.CallToolRequest) (string, error) { return name, nil }
}
