package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/txonce/txonce/toolcall"
)

// Nine calls in ten are remembered for ten minutes and one for a day. Where calls come and expire at a steady rate, a
// seventeenth of the records is of the first kind (9 x 10 minutes to 9 x 10 minutes + 24 hours), and 10^7 records are those
// of some 1,090 calls a second.
const (
	shortRetention = 10 * time.Minute
	longRetention  = 24 * time.Hour
	shortShare     = 17
)

// copied is how many records one COPY takes: a second's work or so, after which progress is shown.
const copied = 50_000

// load fills all tables: what is kept for long first, in the order of its age, as it would lie there.
func (g *growth) load(ctx context.Context) error {
	began := time.Now()
	for _, retention := range []time.Duration{longRetention, shortRetention} {
		for _, s := range g.sizes {
			n := s.records / shortShare
			if retention == longRetention {
				n = s.records - n
			}
			what := fmt.Sprintf("%s: records kept for %v", s.name, retention)
			if err := g.copyRecords(ctx, s, n, retention, 0, what); err != nil {
				return err
			}
		}
	}
	for _, s := range g.sizes {
		g.say("%s: vacuum, analyze", s.name)
		if err := s.settle(ctx); err != nil {
			return err
		}
	}
	g.loading = time.Since(began)
	g.markHeap("after loading")
	return nil
}

const sqlNow = `select clock_timestamp()`

// copyRecords loads n records that expire one after the other, the last one after the retention, all of it moved into
// the past by early.
func (g *growth) copyRecords(ctx context.Context, s *size, n int, retention, early time.Duration, what string) error {
	r, err := newRecords(ctx, s, n, retention)
	if err != nil {
		return err
	}
	if err := s.db.admin.QueryRow(ctx, sqlNow).Scan(&r.since); err != nil {
		return err
	}
	r.since = r.since.Add(-early)
	m := newMeter(g.progress, what, n)
	for r.next < n {
		r.stop = min(r.next+copied, n)
		rows, err := s.link.pool.CopyFrom(ctx, pgx.Identifier{s.db.calls, "call"}, r.columns, r)
		s.made.records += int(rows)
		if err != nil {
			return fmt.Errorf("load of %s: %w", s.name, err)
		}
		m.at(r.next)
	}
	return nil
}

// records is a source of rows for COPY that look like those that calls have left.
type records struct {
	columns   []string
	row       []any          // the pattern, with the values of the current record in it
	places    map[string]int // of columns in row
	worker    *worker        // for its keys
	since     time.Time
	retention time.Duration
	next      int // number of the record behind the current one
	stop, of  int
	err       error
}

// newRecords takes a call's record as the pattern, as floor does.
func newRecords(ctx context.Context, s *size, n int, retention time.Duration) (*records, error) {
	r := &records{places: make(map[string]int), worker: newWorkers(1, nil)[0], of: n, retention: retention}
	var err error
	if r.columns, r.row, err = s.link.readRecord(ctx, s.link.record.pattern); err != nil {
		return nil, err
	}
	for i, column := range r.columns {
		r.places[column] = i
	}
	varying := perCall()
	for _, column := range append(varying[:], slices.Collect(maps.Keys(clocks()))...) {
		if _, ok := r.places[column]; !ok {
			return nil, fmt.Errorf("a record has no column %s; the benchmark has to learn the new table", column)
		}
	}
	return r, nil
}

// Next is for COPY.
func (r *records) Next() bool {
	if r.next == r.stop || r.err != nil {
		return false
	}
	key := "x:" + r.worker.newKey()
	answer, err := json.Marshal(receiptFor(int64(r.next + 1)))
	r.err = err
	expires := r.since.Add(time.Duration(float64(r.retention) * float64(r.next+1) / float64(r.of)))
	finished := expires.Add(-r.retention)
	for column, value := range map[string]any{
		"id":          pgtype.UUID{Bytes: toolcall.NewID(scope, tool, key), Valid: true},
		"key":         key,
		"attempt":     someToken(),
		"answer":      answer,
		"started_at":  finished.Add(-time.Millisecond),
		"finished_at": finished,
		"expires_at":  expires,
	} {
		r.row[r.places[column]] = value
	}
	r.next++
	return r.err == nil
}

// Values is for COPY, which is done with the row when it asks for the next one.
func (r *records) Values() ([]any, error) { return r.row, r.err }

// Err is for COPY.
func (r *records) Err() error { return r.err }
