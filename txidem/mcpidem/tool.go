package mcpidem

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/txidem"
)

// ToolConfig says how one tool is protected. The zero value of a field means its default.
type ToolConfig struct {
	// Policy overrides the store's, field by field. Defaults to the store's policy.
	Policy *txidem.Policy

	// Rules say which arguments count, beside the struct tags of the input type (`idem:"-"`, `idem:"round=1m"`), whose
	// type stands for RuleSpec.Args where that is nil. Defaults to what the tags say.
	Rules txidem.RuleSpec

	// Key says whether the model may or must give an idempotency key as an argument. Defaults to KeyOptional.
	Key KeyArgument
}

// KeyArgument says what becomes of the reserved argument idempotency_key. Keys that the harness gives, in _meta or in
// a header, win over it and always count.
type KeyArgument int

const (
	KeyOptional KeyArgument = iota // the model may give a key
	KeyRequired                    // a call without any key is refused
	KeyOff                         // the tool has no such argument
)

// AddTool adds a tool whose handler writes through tx. The answer, the record of it and what was written commit
// together; a repeated call gets the recorded answer. The handler has the shape of the SDK's, but for tx and the
// result, and everything that [txidem.Run] says of handlers holds. Arguments are checked against the input schema and
// the result against the output schema, both inside the transaction: a result that does not fit rolls back.
//
// Like the SDK's AddTool it panics on a tool that cannot be added: a bad schema, a name that the adapter has already, an argument of
// its own called idempotency_key.
func AddTool[In, Out any](a *Adapter, t *mcp.Tool, h func(ctx context.Context, tx pgx.Tx, in In) (Out, error)) {
	AddToolWith(a, t, nil, h)
}

// AddToolWith is AddTool with a config of its own. A nil cfg means the defaults.
func AddToolWith[In, Out any](a *Adapter, t *mcp.Tool, cfg *ToolConfig, h func(ctx context.Context, tx pgx.Tx, in In) (Out, error)) {
	if cfg == nil {
		cfg = &ToolConfig{}
	}
	def, err := define[In, Out](a, t, cfg)
	if err != nil {
		panic(err)
	}
	a.server.AddTool(def.published, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return def.call(ctx, req, func(ctx context.Context, tx pgx.Tx, args json.RawMessage) (json.RawMessage, error) {
			var in In
			if err := def.in.decode(args, &in); err != nil {
				return nil, err
			}
			out, err := h(ctx, tx, in)
			if err != nil {
				return nil, err
			}
			return def.out.encode(out)
		})
	})
}

// definition is a tool as it was registered.
type definition struct {
	adapter   *Adapter
	name      string
	cfg       ToolConfig
	keep      keep
	rules     *txidem.Rules
	in        *input
	out       *output
	published *mcp.Tool // what clients see
}

// keep is how long calls are remembered, as the description tells it.
type keep struct{ window, retention time.Duration }

func define[In, Out any](a *Adapter, t *mcp.Tool, cfg *ToolConfig) (*definition, error) {
	if t == nil || t.Name == "" {
		return nil, fmt.Errorf("mcpidem: a tool needs a name")
	}
	policy, err := a.store.PolicyFor(cfg.Policy)
	if err != nil {
		return nil, fmt.Errorf("mcpidem: tool %q: %w", t.Name, err)
	}
	def := &definition{adapter: a, name: t.Name, cfg: *cfg, keep: keep{policy.Window, policy.Retention}}
	if cfg.Rules.Args == nil {
		def.cfg.Rules.Args = reflect.TypeFor[In]()
	}
	if def.rules, err = txidem.NewRules(def.cfg.Rules); err != nil {
		return nil, fmt.Errorf("mcpidem: tool %q: %w", t.Name, err)
	}
	if def.in, err = inputFor[In](t, cfg.Key); err != nil {
		return nil, fmt.Errorf("mcpidem: tool %q: %w", t.Name, err)
	}
	if def.out, err = outputFor[Out](t); err != nil {
		return nil, fmt.Errorf("mcpidem: tool %q: %w", t.Name, err)
	}
	if err := a.add(t.Name); err != nil {
		return nil, err
	}
	published := *t
	published.InputSchema = def.in.published
	if def.out.schema != nil {
		published.OutputSchema = def.out.schema
	}
	published.Description = describe(t.Description, cfg.Key, def.keep)
	def.published = &published
	return def, nil
}
