package mcpidem

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/txidem"
)

// Config is what an [Adapter] must and may be told.
type Config struct {
	// Scope names the caller of each request: [ScopeFromToken] where requests carry a verified token, [ScopeIs] where
	// one process serves one caller. Mandatory: one caller's answers must never reach another.
	Scope ScopeFunc

	// Logger hears what the model should not: database errors and panics of handlers. Never write it to stdout: that is
	// the protocol's channel of a stdio server. Defaults to a logger that discards.
	Logger *slog.Logger
}

// Adapter puts protected tools on an MCP server and remembers which.
type Adapter struct {
	server *mcp.Server
	store  *txidem.Store
	scope  ScopeFunc
	log    *slog.Logger

	mu    sync.Mutex
	tools map[string]bool
}

// New makes an adapter. It returns an error where the config leaves open who is calling.
func New(server *mcp.Server, store *txidem.Store, cfg *Config) (*Adapter, error) {
	switch {
	case server == nil:
		return nil, errors.New("mcpidem: New needs a server; make one with mcp.NewServer")
	case store == nil:
		return nil, errors.New("mcpidem: New needs a store; make one with txidem.New")
	case cfg == nil || cfg.Scope == nil:
		return nil, errors.New("mcpidem: Config.Scope is missing; use ScopeFromToken where requests carry a verified token, " +
			`or ScopeIs("name") where one process serves one caller`)
	}
	log := cfg.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Adapter{server: server, store: store, scope: cfg.Scope, log: log, tools: make(map[string]bool)}, nil
}

// add remembers a tool; the SDK would silently replace one of the same name.
func (a *Adapter) add(name string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.tools[name] {
		return fmt.Errorf("mcpidem: there is a tool %q already", name)
	}
	a.tools[name] = true
	return nil
}
