package jobs

import (
	"context"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// ride is a transaction, as River is given it to insert one doorbell, that has the job's row travel with the doorbell: one
// round trip instead of two. River has no way to say so, hence its statement is recognised on the way. One that is not
// recognised goes as it is, and the row follows by itself.
type ride struct {
	pgx.Tx
	sql  string
	args []any
	read func(pgx.Row) error

	taken bool
	err   error // of the row's statement
}

// Query is what River inserts with.
func (r *ride) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if r.taken || !hangsOne(sql, args) {
		return r.Tx.Query(ctx, sql, args...)
	}
	r.taken = true
	b := &pgx.Batch{}
	b.Queue(sql, args...)
	b.Queue(r.sql, r.args...)
	results := r.Tx.SendBatch(ctx, b)
	rows, err := results.Query()
	together := &ridden{Rows: rows, ride: r, results: results}
	if err != nil {
		together.Close() // River does not, behind an error
	}
	return together, err
}

// hangsOne reports whether the statement is River's insert of one row that gets its id from the sequence: the only id there
// is then for the row behind it to take from there.
func hangsOne(sql string, args []any) bool {
	if len(args) == 0 || !strings.Contains(sql, "river_job(") || !strings.Contains(sql, "nextval(") {
		return false
	}
	ids, ok := args[0].([]int64)
	return ok && slices.Equal(ids, []int64{0})
}

// ridden are River's rows, behind which the job's statement is read when River is done with them.
type ridden struct {
	pgx.Rows
	ride    *ride
	results pgx.BatchResults
	closed  bool
}

func (r *ridden) Close() {
	r.Rows.Close()
	if r.closed {
		return
	}
	r.closed = true
	if r.Rows.Err() == nil {
		r.ride.err = r.ride.read(r.results.QueryRow())
	}
	if err := r.results.Close(); r.ride.err == nil {
		r.ride.err = err
	}
}
