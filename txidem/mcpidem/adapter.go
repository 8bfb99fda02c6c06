package mcpidem

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/txidem"
)

// Config is what an [Adapter] must and may be told.
type Config struct {
	// Scope names the caller of each request: [ScopeFromToken] where requests carry a verified token, [ScopeIs] where
	// one process serves one caller. Mandatory: one caller's answers must never reach another.
	Scope ScopeFunc

	// Secret signs what a client sends back when a person has confirmed a call (ToolConfig.Confirm): at least 32 random
	// bytes, the same on all servers that stand side by side. Mandatory where a tool asks for confirmation.
	Secret []byte

	// Progress is how often a client hears that its call has not ended yet, if it gave a progress token: many clients
	// time out later then. Defaults to 5 s, at least 10 ms; negative means never.
	Progress time.Duration

	// Logger hears what the model should not: database errors and panics of handlers. Never write it to stdout: that is
	// the protocol's channel of a stdio server. Defaults to a logger that discards.
	Logger *slog.Logger
}

// Adapter puts protected tools on an MCP server and remembers which.
type Adapter struct {
	server *mcp.Server
	store  *txidem.Store
	cfg    Config
	log    *slog.Logger
	now    func() time.Time

	mu         sync.Mutex
	tools      map[string]class
	guarded    []*mcp.Tool // in the order in which they were added
	onTool     []func(*mcp.Tool) error
	statusTool string
}

// New makes an adapter. It returns an error that names the field for a bad config, such as one that leaves open who is calling.
func New(server *mcp.Server, store *txidem.Store, cfg *Config) (*Adapter, error) {
	switch {
	case server == nil:
		return nil, errors.New("mcpidem: New needs a server; make one with mcp.NewServer")
	case store == nil:
		return nil, errors.New("mcpidem: New needs a store; make one with txidem.New")
	case cfg == nil || cfg.Scope == nil:
		return nil, errors.New("mcpidem: Config.Scope is missing; use ScopeFromToken where requests carry a verified token, " +
			`or ScopeIs("name") where one process serves one caller`)
	case len(cfg.Secret) != 0 && len(cfg.Secret) < shortestSecret:
		return nil, fmt.Errorf("mcpidem: Config.Secret has %d bytes; give %d random ones or more", len(cfg.Secret), shortestSecret)
	case cfg.Progress > 0 && cfg.Progress < shortestProgress:
		return nil, fmt.Errorf("mcpidem: Config.Progress is %v; give %v or more, or a negative value for never", cfg.Progress, shortestProgress)
	}
	policy, err := store.PolicyFor(nil)
	if err != nil {
		return nil, fmt.Errorf("mcpidem: %w", err)
	}
	log := cfg.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	a := &Adapter{server: server, store: store, cfg: *cfg, log: log, now: time.Now, tools: make(map[string]class)}
	if a.cfg.Progress == 0 {
		a.cfg.Progress = 5 * time.Second
	}
	server.AddReceivingMiddleware(advertise(policy))
	return a, nil
}

// UseStatusTool names the tool of the server that tells how a call ended, given its id (argument "id"): the texts of
// calls whose outcome is open then point to it. Package intent asks such a tool by tool and idempotency_key instead. It is for
// the package that adds such a tool.
func (a *Adapter) UseStatusTool(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.statusTool = name
}

func (a *Adapter) status() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.statusTool
}

// add remembers a tool; the SDK would silently replace one of the same name.
func (a *Adapter) add(name string, c class) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, ok := a.tools[name]; ok {
		return fmt.Errorf("mcpidem: there is a tool %q already; give one of the two another name", name)
	}
	a.tools[name] = c
	return nil
}
