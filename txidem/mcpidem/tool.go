package mcpidem

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/toolcall"
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

	// Confirm says what a person is asked before the call is made. The client asks, and calls again with the answer; meanwhile
	// nothing is held. A call that is done is not asked about again. A "yes" is for this caller, key, arguments and question, and is good
	// for half of the time for which the call is remembered (5 minutes by default; an hour at most), so that it counts once. Needs
	// Config.Secret, and clients that can ask (elicitation). Defaults to asking nothing.
	Confirm ConfirmFunc
}

// KeyArgument says what becomes of the reserved argument idempotency_key. Keys that the harness gives, in _meta or in
// a header, win over it and always count.
type KeyArgument int

const (
	KeyOptional KeyArgument = iota // the model may give a key
	KeyRequired                    // a call without any key is refused
	KeyOff                         // the tool has no such argument
)

// String is "optional", "required" or "off".
func (k KeyArgument) String() string {
	switch k {
	case KeyOptional:
		return "optional"
	case KeyRequired:
		return "required"
	default:
		return "off"
	}
}

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
	guarded(a, t, cfg, h).add()
}

// guarded is a tool that runs in a transaction.
func guarded[In, Out any](a *Adapter, t *mcp.Tool, cfg *ToolConfig, h func(ctx context.Context, tx pgx.Tx, in In) (Out, error)) *definition {
	def := mustDefine(a, t, cfg, reflect.TypeFor[In](), reflect.TypeFor[Out](), h != nil)
	def.handle = func(ctx context.Context, _ *mcp.CallToolRequest, call txidem.Request, gate error) (txidem.Result[json.RawMessage], error) {
		return txidem.Run(ctx, a.store, call, func(ctx context.Context, tx pgx.Tx) (json.RawMessage, error) {
			in, err := arguments[In](def, call, gate)
			if err != nil {
				return nil, err
			}
			out, err := h(ctx, tx, in)
			if err != nil {
				return nil, realError(err)
			}
			return def.out.encode(out)
		})
	}
	return def
}

// AddLeasedTool adds a tool whose effect is outside the database and must be answered synchronously, such as a payment: see
// [txidem.RunLeased] for what do and ask promise each other. do finds the key for the other system in its context
// (toolcall.FromContext, DownstreamKey). An error of do leaves open what happened, as if the attempt had been
// cut off, unless txidem.Fail made it (recorded) or txidem.NotDone did (the next call runs). ask finds out what became of
// such an attempt; it may be nil, and then Policy.OnLeaseLost decides, which blocks the call by default. Arguments that do
// not fit are refused before do; a result that does not fit is found out behind the effect, and counts as an attempt that
// was cut off. Else as [AddToolWith].
func AddLeasedTool[In, Out any](a *Adapter, t *mcp.Tool, cfg *ToolConfig, do func(ctx context.Context, in In) (Out, error), ask func(ctx context.Context, in In) (answer Out, found bool, err error)) {
	def := mustDefine(a, t, cfg, reflect.TypeFor[In](), reflect.TypeFor[Out](), do != nil)
	def.handle = func(ctx context.Context, _ *mcp.CallToolRequest, call txidem.Request, gate error) (txidem.Result[json.RawMessage], error) {
		if gate != nil && def.neverMade(ctx, call) {
			_, err := arguments[In](def, call, gate)
			return txidem.Result[json.RawMessage]{}, err
		}
		begun := false
		does := func(ctx context.Context) (json.RawMessage, error) {
			in, err := arguments[In](def, call, gate)
			if err != nil {
				return nil, txidem.NotDone(err)
			}
			begun = true
			out, err := do(ctx, in)
			if err != nil {
				return nil, realError(err)
			}
			return def.out.encode(out)
		}
		if ask == nil {
			result, err := txidem.RunLeased(ctx, a.store, call, does, nil)
			return result, def.leftOpen(err, begun)
		}
		result, err := txidem.RunLeased(ctx, a.store, call, does, func(ctx context.Context) (json.RawMessage, bool, error) {
			in, err := arguments[In](def, call, nil)
			if err != nil {
				return nil, false, err
			}
			out, found, err := ask(ctx, in)
			if err != nil || !found {
				return nil, false, realError(err)
			}
			raw, err := def.out.encode(out)
			return raw, true, err
		})
		return result, def.leftOpen(err, begun)
	}
	def.add()
}

// neverMade reports whether nothing at all is known of the call. One that waits for a person is then not even claimed: the claim of a
// leased call is committed, and a crash behind it would block a call that was never made.
func (d *definition) neverMade(ctx context.Context, call txidem.Request) bool {
	status, err := d.adapter.store.Status(ctx, call)
	return err == nil && status.State == toolcall.StateNone
}

// leftOpen names an error behind which it is open whether the effect happened, where Policy.Disabled leaves nobody else to say it.
func (d *definition) leftOpen(err error, begun bool) error {
	if failure := (*toolcall.Failure)(nil); err == nil || !begun || !d.keep.unprotected || errors.As(err, &failure) {
		return err
	}
	return fmt.Errorf("%w: %w", txidem.ErrBlocked, err)
}

// arguments reads what the handler gets, if it may run. Bad arguments are told before what the gate has to say.
func arguments[In any](d *definition, call txidem.Request, gate error) (in In, err error) {
	if err := d.in.decode(call.Args, &in); err != nil {
		return in, err
	}
	return in, gate
}

// definition is a tool as it was registered.
type definition struct {
	adapter       *Adapter
	name          string
	cfg           ToolConfig
	keep          keep
	confirmWithin time.Duration
	rules         *txidem.Rules
	in            *input
	out           *output
	published     *mcp.Tool // what clients see

	handle handler
}

// keep is how long calls are remembered, as the description tells it.
type keep struct {
	window, retention time.Duration
	forGood           bool // Policy.OnExpired is Refuse
	unprotected       bool // Policy.Disabled: not at all
}

// mustDefine panics on a tool that cannot be added, as the SDK does.
func mustDefine(a *Adapter, t *mcp.Tool, cfg *ToolConfig, in, out reflect.Type, handled bool) *definition {
	if cfg == nil {
		cfg = &ToolConfig{}
	}
	if t == nil || t.Name == "" {
		panic(errNoName)
	}
	def, err := define(a, t, cfg, in, out)
	if !handled { // found out by a call, it would block that for good where the effect is elsewhere
		err = errNoHandler
	}
	if err == nil {
		err = a.add(t.Name, classGuarded)
	}
	if err != nil {
		panic(fmt.Errorf("mcpidem: tool %q: %w", t.Name, err))
	}
	return def
}

// add puts the tool on the server.
func (d *definition) add() {
	d.adapter.server.AddTool(d.published, d.call)
	if d.keep.unprotected { // who asked for the status of its calls would be told that none was made
		return
	}
	if err := d.adapter.announce(d.published); err != nil {
		panic(fmt.Errorf("mcpidem: tool %q: %w", d.name, err))
	}
}

func define(a *Adapter, t *mcp.Tool, cfg *ToolConfig, in, out reflect.Type) (*definition, error) {
	policy, err := a.store.PolicyFor(cfg.Policy)
	if err != nil {
		return nil, err
	}
	def := &definition{
		adapter: a, name: t.Name, cfg: *cfg,
		keep: keep{policy.Window, policy.Retention, policy.OnExpired == txidem.Refuse, policy.Disabled}, confirmWithin: toConfirm(policy, cfg.Key),
	}
	if cfg.Confirm != nil && len(a.cfg.Secret) == 0 {
		return nil, fmt.Errorf("a tool that asks for confirmation needs Config.Secret: %d random bytes, the same on all servers", shortestSecret)
	}
	if cfg.Rules.Args == nil {
		def.cfg.Rules.Args = in
	}
	if def.rules, err = txidem.NewRules(def.cfg.Rules); err != nil {
		return nil, err
	}
	if def.in, err = inputFor(t, cfg.Key, policy.Disabled, in); err != nil {
		return nil, err
	}
	if def.out, err = outputFor(t, out); err != nil {
		return nil, err
	}
	def.published, err = publish(t, def, policy)
	return def, err
}

// publish makes the tool that clients see. The given one stays as it is.
func publish(t *mcp.Tool, def *definition, policy txidem.Policy) (*mcp.Tool, error) {
	published := *t
	published.InputSchema = def.in.published
	if def.out.schema != nil {
		published.OutputSchema = def.out.schema
	}
	published.Description = describe(t.Description, &def.cfg, def.keep)
	published.Meta = maps.Clone(t.Meta)
	if published.Meta == nil {
		published.Meta = make(mcp.Meta)
	}
	own := settings(policy)
	own["class"], own["key"] = string(classGuarded), def.cfg.Key.String()
	published.Meta[Extension] = own
	var err error
	published.Annotations, err = annotate(t.Annotations, classGuarded, repeatableFor(policy))
	return &published, err
}
