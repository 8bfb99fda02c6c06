package statustool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/toolcall"
)

// Add puts the tool on the host's server, and those that cfg asks for beside. The sources are the store of the protected tools
// and, if there are jobs, their runner. cfg may be nil. The protected tools may be added before or after.
//
// It returns an error that names the field for a bad config, and one for a name that is taken. With an error, what has been
// reserved stays reserved.
func Add(host Host, cfg *Config, sources ...toolcall.Source) error {
	if err := check(sources); err != nil {
		return err
	}
	if host == nil {
		return errors.New("statustool: Add needs a host; make one with mcpidem.New")
	}
	c, err := cfg.withDefaults()
	if err != nil {
		return err
	}
	t := &tool{
		host: host, cfg: c, reader: newReader(sources, c.Poll, c.Logger), mailbox: newMailbox(c.Outbox, c.Logger),
		kinds: kindsOf(sources), variants: make(map[string]bool), words: wordsOfTool(c.Name, c.MaxWait),
	}
	if err := t.reserve(); err != nil {
		return err
	}
	host.OnTool(func(*mcp.Tool) error { return t.publish() })
	if err := t.publish(); err != nil {
		return err
	}
	if c.Canceller != nil {
		host.Server().AddTool(t.cancelTool(), t.guard(t.cancel))
	}
	host.UseStatusTool(c.Name)
	if c.Tasks {
		return t.addTasks()
	}
	return nil
}

func check(sources []toolcall.Source) error {
	if len(sources) == 0 || slices.Contains(sources, nil) {
		return errors.New("statustool: a source is missing; give the store of the protected tools, and the runner of the jobs if there are any")
	}
	return nil
}

// tool is the tool with its variants.
type tool struct {
	host    Host
	cfg     Config
	reader  *reader
	mailbox *mailbox
	kinds   map[string]reflect.Type
	words   words

	mu       sync.Mutex // held while tools are published
	variants map[string]bool
}

func wordsOfTool(name string, longest time.Duration) words {
	return words{ask: func(id string) string {
		return fmt.Sprintf(`call %s with {"id":%q,"wait_seconds":%v}`, name, id, longest.Seconds())
	}}
}

// kindsOf are the kinds of jobs that the sources know, with the types of their results.
func kindsOf(sources []toolcall.Source) map[string]reflect.Type {
	kinds := make(map[string]reflect.Type)
	for _, source := range sources {
		if s, ok := source.(typed); ok {
			maps.Copy(kinds, s.Results())
		}
	}
	return kinds
}

func (t *tool) reserve() error {
	names := []string{t.cfg.Name}
	if t.cfg.Canceller != nil {
		names = append(names, t.cfg.CancelName)
	}
	for _, name := range names {
		if err := t.host.Reserve(name); err != nil {
			return fmt.Errorf("statustool: the name %q is taken; choose another one in Config: %w", name, err)
		}
	}
	return nil
}

// publish puts on the server what the protected tools make of the tool. It is done again for each tool that is added later.
func (t *tool) publish() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	tools := t.host.Tools()
	for _, of := range tools {
		name := variantName(of.Name)
		if !t.cfg.PerTool || t.variants[name] {
			continue
		}
		if err := t.addVariant(name, of); err != nil {
			return err
		}
	}
	names := namesOf(tools)
	t.host.Server().AddTool(t.definition(t.cfg.Name, names, "", resultSchema(tools, t.kinds)), t.guard(t.get("")))
	return nil
}

func variantName(tool string) string { return "get_" + tool + "_status" }

func (t *tool) addVariant(name string, of *mcp.Tool) error {
	if !toolName.MatchString(name) {
		return fmt.Errorf("statustool: %q is too long for the name of a tool; leave Config.PerTool unset, or give %s a shorter name", name, of.Name)
	}
	if err := t.host.Reserve(name); err != nil {
		return fmt.Errorf("statustool: the name %q, for the status of %s, is taken; leave Config.PerTool unset: %w", name, of.Name, err)
	}
	t.variants[name] = true
	var kinds map[string]reflect.Type
	if isHandle(of) {
		kinds = t.kinds
	}
	t.host.Server().AddTool(t.definition(name, nil, of.Name, resultSchema([]*mcp.Tool{of}, kinds)), t.guard(t.get(of.Name)))
	return nil
}

// definition is a tool that reads: for all tools, or for only one.
func (t *tool) definition(name string, tools []string, only string, result *jsonschema.Schema) *mcp.Tool {
	no, messages := false, t.mailbox != nil
	return &mcp.Tool{
		Name: name, Description: description(tools, only, messages),
		InputSchema: inputSchema(tools, only, t.cfg.MaxWait, messages), OutputSchema: outputSchema(result, messages),
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true, DestructiveHint: &no, OpenWorldHint: &no, IdempotentHint: true},
	}
}

// reports is a handler that knows who asks.
type reports func(ctx context.Context, req *mcp.CallToolRequest, scope string) (*Report, []mcp.Content, error)

// guard makes a tool's handler that outlives panics, such as of the host's function that names the caller.
func (t *tool) guard(h reports) mcp.ToolHandler {
	return func(ctx context.Context, req *mcp.CallToolRequest) (result *mcp.CallToolResult, err error) {
		defer func() {
			if v := recover(); v != nil {
				t.cfg.Logger.ErrorContext(ctx, "statustool: a question panicked", "panic", v, "stack", string(debug.Stack()))
				result, err = t.words.unavailable("").answer()
			}
		}()
		scope, err := t.host.ScopeOf(ctx, req)
		if err != nil || scope == "" {
			t.cfg.Logger.ErrorContext(ctx, "statustool: a question was refused because it is not known who asks", "error", err)
			return noCaller().answer()
		}
		report, more, err := h(ctx, req, scope)
		if err != nil {
			return nil, err // nobody is left to read a result
		}
		return report.answer(more...)
	}
}

// get answers for all tools, or for one.
func (t *tool) get(only string) reports {
	allowed := []string{argID, argTool, argKey, argWait}
	if only != "" {
		allowed = []string{argID, argKey, argWait}
	}
	return func(ctx context.Context, req *mcp.CallToolRequest, scope string) (*Report, []mcp.Content, error) {
		args := &arguments{variant: only != ""}
		problem := args.read(req.Params.Arguments, allowed)
		var q asked
		if problem == "" {
			if only != "" {
				args.tool = only
			}
			q, problem = args.ask(scope, namesOf(t.host.Tools()), t.cfg.MaxWait)
		}
		if problem != "" {
			return badArgs(problem), nil, nil
		}
		status, err := t.reader.follow(ctx, q.ask, q.wait, teller(ctx, req))
		switch {
		case ctx.Err() != nil:
			return nil, nil, ctx.Err()
		case err != nil:
			return t.words.unavailable(q.ask.ID.String()), nil, nil
		case args.tool == "" || status.Job != nil || status.Tool == "" || status.Tool == args.tool:
		case only != "":
			return badArgs(fmt.Sprintf("This id is that of a call of %s, not of %s; ask %s.", status.Tool, only, t.cfg.Name)), nil, nil
		default:
			return badArgs(fmt.Sprintf("The arguments contradict each other: this id is that of a call of %s, not of %s. Give id alone.", status.Tool, quoted(args.tool))), nil, nil
		}
		return t.report(ctx, q.ask, status)
	}
}

// report says all there is to say of a status.
func (t *tool) report(ctx context.Context, ask toolcall.Ask, status toolcall.Status) (*Report, []mcp.Content, error) {
	r := reportOf(status)
	var rest []mcp.Content
	var err error
	if status.State == toolcall.StateSucceeded {
		r.Result, rest, err = t.result(status)
	}
	t.words.write(r, status, time.Now())
	switch {
	case err != nil:
		t.cfg.Logger.ErrorContext(ctx, "statustool: an answer cannot be shown", "id", status.ID, "error", err)
		r.Next = noResult
	case len(rest) > 0:
		r.Next += besideText
	}
	r.add(t.mailbox.of(ctx, ask, status.State), status)
	return r, rest, nil
}

// result makes of an answer what stands in the report. That of a job is JSON as it is.
func (t *tool) result(status toolcall.Status) (json.RawMessage, []mcp.Content, error) {
	if status.Job != nil {
		return asJSON(status.Answer)
	}
	recorded, err := t.host.Recorded(status)
	if err != nil {
		return nil, nil, err
	}
	return resultIn(recorded)
}
