package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/integration/internal/lives"
)

// applicationName is how the workers' sessions are known.
const applicationName = "txonce-crash"

const sqlEffect = `insert into effect (intent, attempt) values ($1, $2)`

// sqlCount reads all counters and writes one: in SERIALIZABLE transactions, a reason to fail at COMMIT.
const sqlCount = `update counter set n = n + 1 where bucket = $1 returning n, (select sum(n) from counter)`

// A batch counts in two statements.
const (
	sqlCountOne = `update counter set n = n + 1 where bucket = $1`
	sqlTotal    = `select sum(n) from counter`
)

// sqlCountOuter is what a caller of RunTx writes in its own transaction.
const sqlCountOuter = `update counter set outside = outside + 1 where bucket = $1`

// sqlTables makes the tables that calls write to. Nothing in them keeps an effect from being there twice, but for a charge
// at a provider that knows keys.
const sqlTables = `
create table effect (intent int not null, attempt text not null);
create table charge (downstream_key text not null, intent int not null, attempt text not null, knows_keys boolean not null);
create unique index on charge (downstream_key) where knows_keys;
create table counter (bucket int primary key, n int not null, outside int not null)`

// prepare opens a fresh database and makes the tables.
func prepare(ctx context.Context, p lives.Place) (*pgxpool.Pool, error) {
	return lives.Prepare(ctx, p, fmt.Sprintf("%s;\ninsert into counter select bucket, 0, 0 from generate_series(0, %d) bucket", sqlTables, buckets-1))
}

// effect is a row that a handler wrote.
type effect struct {
	Intent  int
	Attempt string
}

// record is what the library stored.
type record struct {
	ID     string
	State  string
	Answer []byte
}

// books is what the database says in the end.
type books struct {
	effects []effect
	records []record
	counts  map[int]counter // by bucket
}

// counter counts effects, and those that were written in a transaction of the caller's.
type counter struct{ n, outside int }

func readBooks(ctx context.Context, pool *pgxpool.Pool) (b books, err error) {
	rows, _ := pool.Query(ctx, `select intent, attempt from effect union all select intent, attempt from charge`)
	if b.effects, err = pgx.CollectRows(rows, pgx.RowToStructByPos[effect]); err != nil {
		return b, err
	}
	rows, _ = pool.Query(ctx, `select id::text, state, answer from txonce.call`)
	if b.records, err = pgx.CollectRows(rows, pgx.RowToStructByPos[record]); err != nil {
		return b, err
	}
	b.counts = make(map[int]counter)
	var bucket int
	var c counter
	rows, _ = pool.Query(ctx, `select bucket, n, outside from counter`)
	_, err = pgx.ForEachRow(rows, []any{&bucket, &c.n, &c.outside}, func() error {
		b.counts[bucket] = c
		return nil
	})
	return b, err
}
