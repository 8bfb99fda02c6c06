package main

import (
	"context"
	"log/slog"

	"github.com/jackc/pgx/v5"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/jobs"
	"github.com/txonce/txonce/statustool"
	"github.com/txonce/txonce/txidem"
	"github.com/txonce/txonce/txidem/mcpidem"
)

// The tools' names.
const (
	toolBuild  = "build_report"
	toolStatus = "get_status"
	toolCancel = "cancel_job"
)

func buildTool() *mcp.Tool {
	return &mcp.Tool{Name: toolBuild, Description: "Order a report of a region's sales in a year. It takes a while: the answer is a job_id, with which " + toolStatus + " tells how far it is."}
}

// addTools puts the tools on the server: one that orders a report, one that tells how far calls and jobs are, and one that cancels
// jobs. Nobody is told of another's, and nobody cancels them.
func addTools(idem *mcpidem.Adapter, store *txidem.Store, runner *jobs.Runner, report *reportJob, log *slog.Logger) error {
	mcpidem.AddTool(idem, buildTool(), (&desk{runner, report}).buildReport)
	return statustool.Add(idem, &statustool.Config{Name: toolStatus, Canceller: runner, CancelName: toolCancel, Logger: log}, store, runner)
}

// desk takes orders.
type desk struct {
	runner *jobs.Runner
	report *reportJob
}

// buildReport submits the job in the call's own transaction: there is one if and only if the call has an answer, so a call that
// is repeated gets the id of the job that there is.
func (d *desk) buildReport(ctx context.Context, tx pgx.Tx, in Order) (jobs.Handle, error) {
	if err := in.check(); err != nil {
		return jobs.Handle{}, err
	}
	return d.report.SubmitTx(ctx, tx, d.runner, in, nil)
}
