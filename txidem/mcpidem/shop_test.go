package mcpidem_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/txidem"
	"github.com/txonce/txonce/txidem/mcpidem"
)

// The protocol's revisions that matter: with a handshake, and without.
const (
	legacy = "2025-11-25"
	modern = "2026-07-28"
)

// shop is a server on a store without Postgres, for what does not depend on the database.
type shop struct {
	t      *testing.T
	server *mcp.Server
	idem   *mcpidem.Adapter
}

// newShop makes a server that speaks one revision of the protocol, or all of them.
func newShop(t *testing.T, cfg *mcpidem.Config, versions ...string) *shop {
	t.Helper()
	store, err := txidem.NewMemory(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if cfg == nil {
		cfg = &mcpidem.Config{}
	}
	if cfg.Scope == nil {
		cfg.Scope = mcpidem.ScopeIs("agent")
	}
	s := &shop{t: t, server: mcp.NewServer(&mcp.Implementation{Name: "shop", Version: "1"}, &mcp.ServerOptions{SupportedProtocolVersions: versions})}
	if s.idem, err = mcpidem.New(s.server, store, cfg); err != nil {
		t.Fatal(err)
	}
	return s
}

// connect opens a session in memory.
func (s *shop) connect(opts *mcp.ClientOptions) *mcp.ClientSession {
	s.t.Helper()
	here, there := mcp.NewInMemoryTransports()
	serving, err := s.server.Connect(s.t.Context(), there, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, opts).Connect(s.t.Context(), here, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if err := errors.Join(session.Close(), serving.Wait()); err != nil {
			s.t.Error(err)
		}
	})
	return session
}

// call calls a tool with raw arguments, under a key that the harness gives.
func (s *shop) call(session *mcp.ClientSession, tool, args, key string) *mcp.CallToolResult {
	s.t.Helper()
	params := &mcp.CallToolParams{Name: tool, Arguments: json.RawMessage(args)}
	if key != "" {
		params.Meta = mcp.Meta{mcpidem.MetaKey: key}
	}
	r, err := session.CallTool(s.t.Context(), params)
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

// tool is what clients see of a tool.
func (s *shop) tool(name string) *mcp.Tool {
	s.t.Helper()
	list, err := s.connect(nil).ListTools(s.t.Context(), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, t := range list.Tools {
		if t.Name == name {
			return t
		}
	}
	s.t.Fatalf("there is no tool %q", name)
	return nil
}

// panics returns what f panics with.
func panics(t *testing.T, f func()) (text string) {
	t.Helper()
	defer func() {
		if err, ok := recover().(error); ok {
			text = err.Error()
		}
	}()
	f()
	return ""
}
