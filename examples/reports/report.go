package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/jobs"
	"github.com/txonce/txonce/txidem"
)

// Order is what a report is ordered with: the arguments of the tool, and of the job.
type Order struct {
	Order  string `json:"order" jsonschema:"the customer's number for this order, such as R-001"`
	Region string `json:"region" jsonschema:"north, south, east or west"`
	Year   int    `json:"year" jsonschema:"2020 to 2025"`
}

// Report is what comes out, once for each order.
type Report struct {
	ID        int64  `json:"id"`
	Order     string `json:"order"`
	Cents     int64  `json:"cents" jsonschema:"sales of the year"`
	BestMonth string `json:"best_month"`
	MadeBy    string `json:"made_by"`
}

const (
	firstYear, lastYear = 2020, 2025
	months              = 12
)

func regions() []string { return []string{"north", "south", "east", "west"} }

// check refuses what no worker could do: the caller learns it at once, and on each retry.
func (in Order) check() error {
	switch {
	case in.Order == "":
		return txidem.Fail("no_order", "give the order a number")
	case !slices.Contains(regions(), in.Region):
		return txidem.Fail("unknown_region", fmt.Sprintf("there is no region %q; use one of %v", in.Region, regions()))
	case in.Year < firstYear || in.Year > lastYear:
		return txidem.Fail("unknown_year", fmt.Sprintf("there are sales of the years %d to %d", firstYear, lastYear))
	}
	return nil
}

// clerk is a worker's state: what the work needs beside its arguments.
type clerk struct {
	pool  *pgxpool.Pool
	name  string
	takes time.Duration // a report; adding up is quick, so the clerk rests
}

// reportJob is the kind of job. The server needs it to submit, and the workers to do it.
type reportJob = jobs.Definition[Order, Report]

func defineReport(c *clerk) *reportJob {
	return jobs.Define("build_report", c.build, &jobs.Options{
		Timeout:     2 * longestReport, // of one attempt
		MaxAttempts: 50,                // an attempt whose worker was killed counts
	})
}

// build is the long half: it reads, and reports how far it has come. It has no transaction, so it may take as long as it likes,
// and it may be cut off anywhere and begun again by somebody else.
func (c *clerk) build(ctx context.Context, job *jobs.Job[Order]) (jobs.Commit[Report], error) {
	out := Report{Order: job.Args.Order, MadeBy: c.name}
	best := int64(-1)
	for month := time.January; month <= time.December; month++ {
		job.Progress(float64(month-1)/months, fmt.Sprintf("%s: %s", c.name, month))
		cents, err := c.sales(ctx, job.Args, month)
		if err != nil {
			return nil, err
		}
		out.Cents += cents
		if cents > best {
			best, out.BestMonth = cents, month.String()
		}
		if err := rest(ctx, c.takes/months); err != nil {
			return nil, err
		}
	}
	// The short half: it commits together with the end of the job, or not at all.
	return func(ctx context.Context, tx pgx.Tx) (Report, error) {
		err := tx.QueryRow(ctx, `insert into reports (order_no, region, year, cents, best_month, made_by) values ($1, $2, $3, $4, $5, $6) returning id`,
			out.Order, job.Args.Region, job.Args.Year, out.Cents, out.BestMonth, out.MadeBy).Scan(&out.ID)
		return out, err
	}, nil
}

// sales reads one month.
func (c *clerk) sales(ctx context.Context, in Order, month time.Month) (cents int64, err error) {
	from := time.Date(in.Year, month, 1, 0, 0, 0, 0, time.UTC)
	err = c.pool.QueryRow(ctx, `select coalesce(sum(cents), 0)::bigint from sales where region = $1 and day >= $2 and day < $3`,
		in.Region, from, from.AddDate(0, 1, 0)).Scan(&cents)
	return cents, err
}

// rest is where the time goes. A worker that is asked to stop, or a job that is cancelled, does not wait for its end.
func rest(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
