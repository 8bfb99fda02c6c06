package main

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/txonce/txonce/txidem"
)

// size is a table of so many records, with the calls that are made on it.
type size struct {
	records int
	name    string // such as 1e7
	db      *database
	link    *link // whose calls are kept for a day
	brief   *link // whose calls are kept for briefly only
	made    tally // what calls and loads have written
	gone    int   // records that were swept or deleted

	turns []turn
	all   histogram // of all calls beside a sweeper
	bytes int64     // of table and indexes, after loading
}

// briefly is how long the calls of a turn are remembered: their records expire and are swept while others are made, so
// that the table keeps its size, as one does whose calls expire as fast as they come.
const briefly = 500 * time.Millisecond

// nameOf writes powers of ten as such.
func nameOf(records int) string {
	exponent := int(math.Round(math.Log10(float64(records))))
	if int(math.Pow10(exponent)) == records {
		return fmt.Sprintf("1e%d", exponent)
	}
	return fmt.Sprint(records)
}

// connect uses the connections of another link, or opens some if there is none.
func (s *size) connect(ctx context.Context, shared *link, connections int) (err error) {
	if shared == nil {
		if s.link, err = openLink(ctx, s.db, s.name, connections, dialTo(serverOf(s.db))); err != nil {
			return err
		}
	} else {
		s.link = &link{name: s.name, pool: shared.pool, sql: s.db.sql}
		if err := s.link.prepare(ctx, s.db, connections); err != nil {
			return err
		}
	}
	brief := *s.link
	s.brief = &brief
	brief.store, err = txidem.New(brief.pool, &txidem.Config{Schema: s.db.calls, Policy: &txidem.Policy{Retention: briefly}})
	s.made.records++ // the pattern of connect's own call
	return err
}

// call lets the workers make calls for a while.
func (s *size) call(ctx context.Context, workers []*worker, l *link, length time.Duration) (calls int, err error) {
	calls, _, err = drive(ctx, workers, shapes()[ours], l, length)
	s.count(calls)
	return calls, err
}

func (s *size) count(calls int) { s.made = s.made.plus(shapes()[ours].writes.times(calls)) }

// sweep removes what has expired.
func (s *size) sweep(ctx context.Context) (deleted int, err error) {
	done, err := s.link.store.Sweep(ctx)
	s.gone += int(done.Deleted)
	return int(done.Deleted), err
}

// verify counts: so many loads and calls, less what was swept.
func (s *size) verify(ctx context.Context) error {
	want := s.made
	want.records -= s.gone
	if err := s.db.verify(ctx, want); err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	return nil
}

const sqlSize = `select pg_total_relation_size($1::text::regclass)`

// settle leaves the table as an autovacuum would have left it while it grew.
func (s *size) settle(ctx context.Context) error {
	if _, err := s.db.admin.Exec(ctx, `vacuum (analyze) `+s.db.calls+`.call`); err != nil {
		return err
	}
	return s.db.admin.QueryRow(ctx, sqlSize, s.db.calls+".call").Scan(&s.bytes)
}
