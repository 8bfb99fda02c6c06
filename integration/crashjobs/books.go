package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// books is what the database says.
type books struct {
	jobs    []row
	effects []effect
	counts  map[int]int // by bucket
	held    int         // records of calls that wait for a job
	rescued int         // doorbells that River's own rescuer took for stuck
}

// row is a job.
type row struct {
	ID       string
	Intent   int
	State    string
	Attempts int
	Most     int
	Answer   string
	Code     string // of a failure
	By       string // the attempt in a result
	Expires  bool   // it will be removed some day
	Error    string // why the last attempt did not succeed
}

// ended reports whether the state is one that never changes.
func (r row) ended() bool {
	return r.State == "succeeded" || r.State == "failed" || r.State == "cancelled"
}

// effect is a row that a job wrote.
type effect struct {
	Intent  int
	Job     string
	Attempt string
}

const (
	sqlJobs = `
select id::text, (convert_from(args, 'UTF8')::json->>'intent')::int, state, attempts, max_attempts, convert_from(answer, 'UTF8'),
       coalesce(case when state = 'failed' then convert_from(answer, 'UTF8')::json->>'code' end, ''),
       coalesce(case when state = 'succeeded' then convert_from(answer, 'UTF8')::json->>'attempt' end, ''),
       expires_at is not null, last_error
  from txonce.job where kind = $1 order by created_at`
	sqlEffects = `select intent, job, attempt from effect`
	sqlHeld    = `select count(*) from txonce.call where expires_at is null`
	sqlRescued = `select count(*) from txonce_river.river_job where array_to_string(errors, ' ') like '%Stuck job rescued%'`
)

func readBooks(ctx context.Context, pool *pgxpool.Pool) (b books, err error) {
	rows, _ := pool.Query(ctx, sqlJobs, jobKind)
	if b.jobs, err = pgx.CollectRows(rows, pgx.RowToStructByPos[row]); err != nil {
		return b, err
	}
	rows, _ = pool.Query(ctx, sqlEffects)
	if b.effects, err = pgx.CollectRows(rows, pgx.RowToStructByPos[effect]); err != nil {
		return b, err
	}
	b.counts = make(map[int]int)
	var bucket, n int
	rows, _ = pool.Query(ctx, `select bucket, n from counter`)
	if _, err = pgx.ForEachRow(rows, []any{&bucket, &n}, func() error {
		b.counts[bucket] = n
		return nil
	}); err != nil {
		return b, err
	}
	if err = pool.QueryRow(ctx, sqlHeld).Scan(&b.held); err != nil {
		return b, err
	}
	return b, pool.QueryRow(ctx, sqlRescued).Scan(&b.rescued)
}

func (b books) unfinished() (n int) {
	for _, j := range b.jobs {
		if !j.ended() {
			n++
		}
	}
	return n
}

// changes says what became different of jobs that had ended.
func (b books) changes(after books) (complaints []string) {
	now := make(map[string]row)
	for _, j := range after.jobs {
		now[j.ID] = j
	}
	for _, j := range b.jobs {
		if now[j.ID] != j {
			complaints = append(complaints, fmt.Sprintf("job %s had ended and is another now: %+v, %+v", j.ID, j, now[j.ID]))
		}
	}
	if len(after.jobs) != len(b.jobs) || len(after.effects) != len(b.effects) {
		complaints = append(complaints, fmt.Sprintf("behind the end of all jobs there were %d jobs and %d effects, now %d and %d",
			len(b.jobs), len(b.effects), len(after.jobs), len(after.effects)))
	}
	return complaints
}
