package statustool

import (
	"context"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/toolcall"
)

func (t *tool) cancelTool() *mcp.Tool {
	no := false
	input := object([]string{argID}, member{argID, &jsonschema.Schema{Type: "string", Description: "id of the job: job_id of an answer"}})
	return &mcp.Tool{
		Name: t.cfg.CancelName, Description: cancelDescription, InputSchema: input, OutputSchema: outputSchema(resultSchema(nil, t.kinds), t.mailbox != nil),
		Annotations: &mcp.ToolAnnotations{IdempotentHint: true, OpenWorldHint: &no},
	}
}

// cancel answers with what the job is behind the request.
func (t *tool) cancel(ctx context.Context, req *mcp.CallToolRequest, scope string) (*Report, []mcp.Content, error) {
	args := &arguments{variant: true}
	problem := args.read(req.Params.Arguments, []string{argID})
	var q asked
	if problem == "" && args.id == "" {
		problem = "Give id, the job_id of an answer."
	}
	if problem == "" {
		q, problem = args.ask(scope, nil, t.cfg.MaxWait)
	}
	if problem != "" {
		return badArgs(problem), nil, nil
	}
	status, err := t.cancelJob(ctx, q.ask)
	switch {
	case ctx.Err() != nil:
		return nil, nil, ctx.Err()
	case err != nil:
		return t.words.unavailable(q.ask.ID.String()), nil, nil
	}
	report, more, err := t.report(ctx, q.ask, status)
	if err == nil {
		t.words.writeCancel(report, status)
	}
	return report, more, err
}

// cancelJob cancels, and reads what came of it. Whether the canceller refused, for the job has ended or there is none, is seen
// in that. It is an error where the job could be cancelled still, or where that is not known.
func (t *tool) cancelJob(ctx context.Context, ask toolcall.Ask) (toolcall.Status, error) {
	var refused error
	if isJob(ask.ID) {
		_, refused = t.cfg.Canceller.Cancel(ctx, ask.Scope, ask.ID)
	}
	status, err := t.reader.follow(ctx, ask, 0, nil)
	if err == nil && refused != nil && !settled(finding{status: status}) && (status.Job == nil || !status.Job.CancelRequested) {
		t.cfg.Logger.ErrorContext(ctx, "statustool: a job could not be cancelled", "id", ask.ID, "scope", ask.Scope, "error", refused)
		return status, refused
	}
	return status, err
}
