package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/integration/internal/lives"
)

// sqlTables makes the tables that handlers write to. What is in the ledger has committed, and n is its place in its lane.
const sqlTables = `
create table lane (name text primary key, n int not null);
create table ledger (name text not null, intent int not null, run text not null, destination text not null, lane text not null, n int not null)`

// sqlEnter writes a message into the ledger. The lock of its lane's row is kept until the transaction ends, and so the numbers are
// in the order of commits.
const sqlEnter = `
with counted as (update lane set n = n + 1 where name = $5::text returning n)
insert into ledger (name, intent, run, destination, lane, n)
values ($1::text, $2::int, $3::text, $4::text, $5::text, coalesce((select n from counted), 0))`

// prepare opens a fresh database and makes the tables.
func prepare(ctx context.Context, p lives.Place) (*pgxpool.Pool, error) {
	sql := sqlTables
	for _, lane := range allLanes() {
		sql += fmt.Sprintf(";\ninsert into lane values ('%s', 0)", lane)
	}
	return lives.Prepare(ctx, p, sql)
}

// pending is how many messages have not ended.
func pending(ctx context.Context, pool *pgxpool.Pool) (n int, err error) {
	err = pool.QueryRow(ctx, `select count(*) from txonce.message_pending`).Scan(&n)
	return n, err
}

const sqlTaken = `select not exists (select from txonce.message_pending where id = $1::text::uuid and attempts <= $2::int)`

// taken reports whether the message has ended, or another attempt than the one with this number has it.
func taken(ctx context.Context, pool *pgxpool.Pool, message string, number int) (is bool, err error) {
	err = pool.QueryRow(ctx, sqlTaken, message, number).Scan(&is)
	return is, err
}

const sqlTerminate = `
select pg_terminate_backend(pid)
  from (select pid from pg_stat_activity
         where datname = current_database() and application_name = $1 order by random() limit 1) one`

// books is what the database says.
type books struct {
	ledger   []entry
	messages []message
	pending  int
}

// entry is a message that committed.
type entry struct {
	Name        string
	Intent      int
	Run         string
	Destination string
	Lane        string // empty where the order does not matter
	N           int    // its place in the lane, from 1
}

// message is one of the outbox.
type message struct {
	ID          string
	Destination string
	Key         string
	OrderingKey string
	Intent      string // in a header
	Body        []byte
	State       string // pending, or as it ended
	Attempts    int
}

const (
	sqlLedger   = `select name, intent, run, destination, lane, n from ledger order by lane, n, name`
	sqlMessages = `
select m.id::text, m.destination, m.key, coalesce(m.ordering_key, ''), coalesce(m.headers->>'X-Intent', ''), m.body,
       coalesce(o.state, case when p.id is not null then 'pending' else 'gone' end), coalesce(o.attempts, p.attempts, 0)
  from txonce.message m
  left join txonce.message_outcome o on o.id = m.id
  left join txonce.message_pending p on p.id = m.id
 order by m.seq`
)

func readBooks(ctx context.Context, pool *pgxpool.Pool) (b books, err error) {
	rows, _ := pool.Query(ctx, sqlLedger)
	if b.ledger, err = pgx.CollectRows(rows, pgx.RowToStructByPos[entry]); err != nil {
		return b, err
	}
	rows, _ = pool.Query(ctx, sqlMessages)
	if b.messages, err = pgx.CollectRows(rows, pgx.RowToStructByPos[message]); err != nil {
		return b, err
	}
	b.pending, err = pending(ctx, pool)
	return b, err
}

// changes says what became different when all messages had ended.
func (b books) changes(after books) (complaints []string) {
	if len(after.ledger) != len(b.ledger) || len(after.messages) != len(b.messages) || after.pending > b.pending {
		complaints = append(complaints, fmt.Sprintf("calls that were made again published: there were %d messages in the ledger and %d in the outbox, now %d and %d, %d of them pending",
			len(b.ledger), len(b.messages), len(after.ledger), len(after.messages), after.pending))
	}
	return complaints
}
