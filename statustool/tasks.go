package statustool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/toolcall"
)

// The methods of the extension, and the first revision of the protocol that has it.
const (
	methodGet    = "tasks/get"
	methodUpdate = "tasks/update"
	methodCancel = "tasks/cancel"
	firstWith    = "2026-07-28"
	headerName   = "Mcp-Name"
)

// addTasks has the server speak the extension.
func (t *tool) addTasks() error {
	server := t.host.Server()
	server.AddReceivingMiddleware(t.tasks)
	return errors.Join(
		addMethod(t, server, methodGet, t.getTask),
		addMethod(t, server, methodUpdate, func(context.Context, toolcall.Status, toolcall.Ask) (*done, error) {
			return &done{ResultType: typeComplete}, nil // no job asks for input, so no response has a request
		}),
		addMethod(t, server, methodCancel, t.cancelTask),
	)
}

// taskParams are those of all three methods.
type taskParams struct {
	mcp.ParamsBase
	TaskID string `json:"taskId"`
}

type extraKey struct{}

// tasks is the middleware that makes tasks of handles, and knows what the methods of the extension are not told of a request.
func (t *tool) tasks(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if own, ok := req.(*mcp.ServerRequest[*taskParams]); ok {
			if err := admits(own); err != nil {
				return nil, err
			}
			return next(context.WithValue(ctx, extraKey{}, own.Extra), method, req)
		}
		result, err := next(ctx, method, req)
		if err != nil {
			return result, err
		}
		switch said := result.(type) {
		case *mcp.DiscoverResult:
			return advertised(said), nil
		case *mcp.CallToolResult:
			if call, ok := req.(*mcp.CallToolRequest); ok && said != nil {
				if made := t.taskFor(ctx, call, said); made != nil {
					return made, nil
				}
			}
		}
		return result, nil
	}
}

// advertised adds the extension to what the server says of itself. The SDK's own answer is left as it is: it may be shared.
func advertised(said *mcp.DiscoverResult) *mcp.DiscoverResult {
	if said == nil {
		return nil
	}
	answer := *said
	var capabilities mcp.ServerCapabilities
	if said.Capabilities != nil {
		capabilities = *said.Capabilities
	}
	capabilities.Extensions = maps.Clone(capabilities.Extensions)
	capabilities.AddExtension(extension, nil)
	answer.Capabilities = &capabilities
	return &answer
}

// declares reports whether the request itself says that its client knows the extension. What was said on the session before does
// not count.
func declares[P mcp.Params](req *mcp.ServerRequest[P], meta mcp.Meta) bool {
	if _, said := meta[mcp.MetaKeyClientCapabilities]; !said {
		return false
	}
	capabilities := req.ClientCapabilities()
	if capabilities == nil {
		return false
	}
	_, ok := capabilities.Extensions[extension]
	return ok
}

// admits refuses a request of the extension from a client that may not make it.
func admits(req *mcp.ServerRequest[*taskParams]) error {
	switch {
	case req.Params == nil || req.ProtocolVersion() < firstWith:
		return &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "the extension " + extension + " needs protocol version " + firstWith}
	case !declares(req, req.Params.Meta):
		return &jsonrpc.Error{
			Code: mcp.CodeMissingRequiredClientCapabilities, Message: "Missing required client capability",
			Data: json.RawMessage(`{"requiredCapabilities":{"extensions":{"` + extension + `":{}}}}`),
		}
	case req.Extra != nil && req.Extra.Header.Get(headerName) != "" && req.Extra.Header.Get(headerName) != req.Params.TaskID:
		return &jsonrpc.Error{Code: mcp.CodeHeaderMismatch, Message: "The header Mcp-Name is not the taskId of the request"}
	}
	return nil
}

// taskFor makes a task of the answer of a protected tool that is the handle of a job. The job is there, for its call has committed; a
// call that is repeated is answered with the same handle, and so with the same task. It returns nil where the answer is to
// stay as it is, as it may in any case.
func (t *tool) taskFor(ctx context.Context, req *mcp.CallToolRequest, said *mcp.CallToolResult) (made mcp.Result) {
	defer func() {
		if v := recover(); v != nil {
			t.cfg.Logger.ErrorContext(ctx, "statustool: a task panicked", "panic", v, "stack", string(debug.Stack()))
			made = nil
		}
	}()
	if said.IsError || said.StructuredContent == nil || !declares(req, req.Params.Meta) || req.ProtocolVersion() < firstWith ||
		!slices.Contains(namesOf(t.host.Tools()), req.Params.Name) {
		return nil
	}
	answer, err := marshal(said.StructuredContent)
	if err != nil {
		return nil
	}
	id, ok := handleIn(answer)
	if !ok {
		return nil
	}
	scope, err := t.host.ScopeOf(ctx, req)
	if err != nil || scope == "" {
		return nil
	}
	status, err := t.reader.follow(ctx, toolcall.Ask{Scope: scope, ID: id}, 0, nil)
	if err != nil || status.Job == nil {
		return nil
	}
	created := taskOf(typeTask, status)
	created.Meta = maps.Clone(said.Meta)
	return created
}

// addMethod adds one of the methods. What it does is told the job's status, if the caller has that job.
func addMethod[R mcp.Result](t *tool, server *mcp.Server, method string, does func(context.Context, toolcall.Status, toolcall.Ask) (R, error)) error {
	return mcp.AddReceivingCustomMethod(server, method, func(ctx context.Context, session *mcp.ServerSession, params *taskParams) (result R, err error) {
		defer func() {
			if v := recover(); v != nil {
				t.cfg.Logger.ErrorContext(ctx, "statustool: a question panicked", "method", method, "panic", v, "stack", string(debug.Stack()))
				err = errInternal()
			}
		}()
		extra, _ := ctx.Value(extraKey{}).(*mcp.RequestExtra)
		scope, err := t.host.ScopeOf(ctx, &mcp.CallToolRequest{
			Session: session, Params: &mcp.CallToolParamsRaw{Meta: params.Meta, Name: method}, Extra: extra,
		})
		if err != nil || scope == "" {
			t.cfg.Logger.ErrorContext(ctx, "statustool: a question was refused because it is not known who asks", "method", method, "error", err)
			return result, errNoTask(method)
		}
		id, err := toolcall.ParseID(params.TaskID)
		if err != nil {
			return result, errNoTask(method)
		}
		ask := toolcall.Ask{Scope: scope, ID: id}
		status, err := t.reader.follow(ctx, ask, 0, nil)
		switch {
		case err != nil:
			return result, errInternal()
		case status.Job == nil: // none, or a call
			return result, errNoTask(method)
		}
		return does(ctx, status, ask)
	})
}

// errInternal is what cannot be found out.
func errInternal() error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "The task cannot be read at the moment. Ask again later."}
}

func errNoTask(method string) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("%s: there is no task with this id, or it is no longer kept", method)}
}

func (t *tool) getTask(ctx context.Context, status toolcall.Status, ask toolcall.Ask) (*task, error) {
	got := taskOf(typeComplete, status)
	result, err := outcome(status, t.mailbox.of(ctx, ask, status.State))
	if err != nil {
		t.cfg.Logger.Error("statustool: the result of a task cannot be shown", "id", status.ID, "error", err)
		return nil, errInternal()
	}
	got.Result = result
	return got, nil
}

// cancelTask acknowledges. Whether the job ends is seen in its status: it may have ended, or there is nobody to cancel it.
func (t *tool) cancelTask(ctx context.Context, status toolcall.Status, ask toolcall.Ask) (*done, error) {
	if t.cfg.Canceller != nil && !settled(finding{status: status}) {
		if _, err := t.cancelJob(ctx, ask); err != nil {
			return nil, errInternal()
		}
	}
	return &done{ResultType: typeComplete}, nil
}
