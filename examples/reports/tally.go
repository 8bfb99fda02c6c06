package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/toolcall"
)

// tally is what the agent was told, held against what is in the database.
type tally struct {
	ordered, calls, jobs, done, cancelled, duplicates int

	problems []string
}

// count compares.
func count(errands []*errand, calls, jobs int, rows map[string]int) *tally {
	t := &tally{ordered: len(errands), calls: calls, jobs: jobs, duplicates: max(0, jobs-len(errands))}
	if t.duplicates > 0 {
		t.problem("%d jobs were submitted for %d orders", jobs, len(errands))
	}
	for _, e := range errands {
		n := rows[e.order.Order]
		if n > 1 {
			t.duplicates += n - 1
			t.problem("%s came out %d times", e.order.Order, n)
		}
		switch {
		case e.err != nil:
			t.problem("%s is missing: %v", e.order.Order, e.err)
		case e.told.State == toolcall.StateCancelled && n == 0:
			t.cancelled++ // by a person, in River UI
		case e.told.State == toolcall.StateSucceeded && n > 0:
			t.done++
		case e.told.State == toolcall.StateFailed:
			t.problem("%s is missing: %v", e.order.Order, e.told.Failure)
		default:
			t.problem("%s: the agent was told %q, and there are %d rows", e.order.Order, e.told.State, n)
		}
	}
	return t
}

func (t *tally) problem(format string, args ...any) {
	t.problems = append(t.problems, fmt.Sprintf(format, args...))
}

// String is the last line. Programs read it: its form is fixed.
func (t *tally) String() string {
	return fmt.Sprintf("reports: ordered=%d calls=%d jobs=%d done=%d cancelled=%d duplicates=%d",
		t.ordered, t.calls, t.jobs, t.done, t.cancelled, t.duplicates)
}

// made counts the reports of each order.
func (db *database) made(ctx context.Context) (map[string]int, error) {
	made := make(map[string]int)
	rows, _ := db.Query(ctx, `select order_no, count(*)::integer from reports group by order_no`)
	var order string
	var n int
	_, err := pgx.ForEachRow(rows, []any{&order, &n}, func() error {
		made[order] = n
		return nil
	})
	return made, err
}

// jobs counts what was submitted.
func (db *database) jobs(ctx context.Context) (n int, err error) {
	err = db.QueryRow(ctx, `select count(*)::integer from `+pgx.Identifier{db.names.records, "job"}.Sanitize()).Scan(&n)
	return n, err
}
