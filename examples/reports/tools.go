package main

import (
	"context"
	"errors"
	"log/slog"

	"github.com/jackc/pgx/v5"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/jobs"
	"github.com/txonce/txonce/toolcall"
	"github.com/txonce/txonce/txidem/mcpidem"
)

// The tools' names.
const (
	toolBuild = "build_report"
	toolGet   = "get_report"
)

func buildTool() *mcp.Tool {
	return &mcp.Tool{Name: toolBuild, Description: "Order a report of a region's sales in a year. It takes a while: the answer is a job_id, with which " + toolGet + " tells how far it is."}
}

func getTool() *mcp.Tool {
	return &mcp.Tool{Name: toolGet, Description: "Tell how far an ordered report is, and give it when it is done."}
}

// tools are what the tools need.
type tools struct {
	scope  mcpidem.ScopeFunc // who is calling
	runner *jobs.Runner
	report *reportJob
	log    *slog.Logger
}

func (t *tools) add(idem *mcpidem.Adapter) {
	mcpidem.AddTool(idem, buildTool(), t.buildReport)
	mcpidem.AddReadTool(idem, getTool(), t.getReport)
}

// buildReport submits the job in the call's own transaction: there is one if and only if the call has an answer, so a call that
// is repeated gets the id of the job that there is.
func (t *tools) buildReport(ctx context.Context, tx pgx.Tx, in Order) (jobs.Handle, error) {
	if err := in.check(); err != nil {
		return jobs.Handle{}, err
	}
	return t.report.SubmitTx(ctx, tx, t.runner, in, nil)
}

// Asked is what get_report is asked with.
type Asked struct {
	JobID string `json:"job_id" jsonschema:"what build_report answered"`
}

// Standing is what get_report answers.
type Standing struct {
	State    toolcall.State    `json:"state" jsonschema:"queued or running, and in the end succeeded, failed or cancelled"`
	Progress float64           `json:"progress" jsonschema:"0 to 1"`
	Message  string            `json:"message,omitempty"`
	Attempts int               `json:"attempts" jsonschema:"how often the work was begun"`
	Report   *Report           `json:"report,omitempty"`
	Failure  *toolcall.Failure `json:"failure,omitempty"`
	Next     string            `json:"next" jsonschema:"what to do next"`
}

// errNoReport is all that a caller learns of a job that is not there, or not the caller's.
var errNoReport = errors.New("there is no such report of yours; ask with a job_id that build_report has answered")

// errLater is all that a caller learns of a fault.
var errLater = errors.New("the report could not be looked up; ask again in 5 seconds")

// getReport reads how far the caller's job is. Whose it is comes from the call, never from an argument.
func (t *tools) getReport(ctx context.Context, req *mcp.CallToolRequest, in Asked) (*mcp.CallToolResult, Standing, error) {
	caller, err := t.scope(ctx, req)
	if err != nil {
		return nil, Standing{}, err
	}
	id, err := toolcall.ParseID(in.JobID)
	if err != nil {
		return nil, Standing{}, errNoReport
	}
	status, err := t.runner.Status(ctx, caller, id)
	switch {
	case errors.Is(err, jobs.ErrNotFound):
		return nil, Standing{}, errNoReport
	case err != nil:
		t.log.ErrorContext(ctx, "reports: a job cannot be looked up", "job", id, "error", err)
		return nil, Standing{}, errLater
	}
	out, err := t.standing(status)
	return nil, out, err
}

// standing words a status.
func (t *tools) standing(status toolcall.Status) (Standing, error) {
	out := Standing{State: status.State, Attempts: status.Job.Attempts, Failure: status.Failure}
	switch status.State {
	case toolcall.StateSucceeded:
		done, err := t.report.Result(status)
		if err != nil {
			return out, err
		}
		out.Progress, out.Report, out.Next = 1, &done, "The report is done. There is nothing left to do."
	case toolcall.StateFailed:
		out.Next = "There is no report. Do not order it again before what the failure says is remedied."
	case toolcall.StateCancelled:
		out.Next = "It was cancelled, and there is no report. Order it anew, under a new number, if it is still wanted."
	default:
		out.Next = "Ask again in 2 seconds. Do not order the report again."
	}
	if p := status.Job.Progress; p != nil {
		out.Progress, out.Message = p.Fraction, p.Message
	}
	return out, nil
}
