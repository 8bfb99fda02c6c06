package main

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// bloatState is how things are, and how they went since the state before.
type bloatState struct {
	name      string
	rate      float64 // messages delivered per second
	waiting   int
	trip      quantiles // from COMMIT to the receiver
	claim     quantiles
	claimRate float64
	tables    []tableState // in the order of bloatTables
}

// quantiles are of times.
type quantiles struct{ p50, p99 time.Duration }

func quantilesOf(took []time.Duration) quantiles {
	if len(took) == 0 {
		return quantiles{}
	}
	return quantiles{quantile(took, 1, 2), quantile(took, 99, 100)}
}

// tableState is in bytes, and row versions.
type tableState struct{ table, indexes, dead int64 }

func bloatTables() []string { return []string{"message_pending", "message", "message_outcome"} }

// mark begins the time of the next state.
func (l *bloat) mark() (took []time.Duration, claims []time.Duration, length time.Duration) {
	now := time.Now()
	if !l.began.IsZero() {
		length = now.Sub(l.began)
	}
	l.began = now
	return l.trips.since(), l.claims.since(), length
}

// state writes down how things are.
func (l *bloat) state(ctx context.Context, name string) error {
	s := bloatState{name: name, waiting: l.trips.waiting()}
	took, claims, length := l.mark()
	s.rate, s.claimRate = float64(len(took))/length.Seconds(), float64(len(claims))/length.Seconds()
	s.trip, s.claim = quantilesOf(took), quantilesOf(claims)
	for _, table := range bloatTables() {
		var t tableState
		if err := l.bench.db.admin.QueryRow(ctx, sqlTableState, l.bench.db.calls, table).Scan(&t.table, &t.indexes, &t.dead); err != nil {
			return err
		}
		s.tables = append(s.tables, t)
	}
	l.states = append(l.states, s)
	pending := s.tables[0]
	l.bench.say("%s: %.0f messages a second, %d wait, p99 %.1f ms; a claim p50 %.2f ms, p99 %.2f ms; message_pending %.1f MB and %.1f MB of indexes, %d dead",
		name, s.rate, s.waiting, inMS(s.trip.p99), inMS(s.claim.p50), inMS(s.claim.p99), inMB(pending.table), inMB(pending.indexes), pending.dead)
	return nil
}

const sqlTableState = `
select pg_table_size(relid), pg_indexes_size(relid), n_dead_tup
  from pg_stat_user_tables
 where schemaname = $1::text and relname = $2::text`

func inMB(bytes int64) float64 { return float64(bytes) / (1 << 20) }

// claimTimes traces a pool and keeps how long the round trips took in which a relay claims. The two statements of one are not told
// apart: the server sends the answers to both at once.
type claimTimes struct {
	mu   sync.Mutex
	took []time.Duration
	n    int // how many there have been
}

// seen fails if there have been none.
func (c *claimTimes) seen() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == 0 {
		return errors.New("messages were delivered and no claim was seen; the benchmark has to learn the statements that claim")
	}
	return nil
}

type claimBegan struct{}

// claims knows a claim by what it does.
func claims(b *pgx.Batch) bool {
	for _, q := range b.QueuedQueries {
		if strings.Contains(q.SQL, "message_pending") && strings.Contains(q.SQL, "skip locked") {
			return true
		}
	}
	return false
}

// TraceQueryStart is for pgx.
func (c *claimTimes) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}

// TraceQueryEnd is for pgx.
func (c *claimTimes) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TraceBatchStart is for pgx.
func (c *claimTimes) TraceBatchStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	if !claims(data.Batch) {
		return ctx
	}
	return context.WithValue(ctx, claimBegan{}, time.Now())
}

// TraceBatchQuery is for pgx.
func (c *claimTimes) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

// TraceBatchEnd is for pgx.
func (c *claimTimes) TraceBatchEnd(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchEndData) {
	began, ok := ctx.Value(claimBegan{}).(time.Time)
	if !ok || data.Err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.took = append(c.took, time.Since(began))
	c.n++
}

// since returns those that came since it was asked last.
func (c *claimTimes) since() (took []time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	took, c.took = c.took, nil
	return took
}
