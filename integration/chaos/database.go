package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/integration/internal/lives"
)

// sqlTables makes the tables that handlers and jobs write to. No constraint keeps an effect from being there twice: that is what is
// counted. What is in the ledger has committed, and n is its place in its lane.
const sqlTables = `
create table effect (id bigint generated always as identity, intent int not null, payload text not null, try int not null, by text not null);
create table lane (name text primary key, n int not null);
create table ledger (name text not null, intent int not null, try int not null, lane text not null, n int not null)`

const (
	sqlEffect = `insert into effect (intent, payload, try, by) values ($1::int, $2::text, $3::int, $4::text)`

	// sqlEnter writes a message into the ledger. The lock of its lane's row is kept until the transaction ends, and so the
	// numbers are in the order of commits.
	sqlEnter = `
with counted as (update lane set n = n + 1 where name = $4::text returning n)
insert into ledger (name, intent, try, lane, n)
values ($1::text, $2::int, $3::int, $4::text, coalesce((select n from counted), 0))`
)

// prepare opens a fresh database and makes the tables.
func prepare(ctx context.Context, p lives.Place) (*pgxpool.Pool, error) {
	sql := sqlTables
	for _, lane := range allLanes() {
		sql += fmt.Sprintf(";\ninsert into lane values ('%s', 0)", lane)
	}
	return lives.Prepare(ctx, p, sql)
}

const sqlOpen = `
select (select count(*) from txonce.job where state not in ('succeeded', 'failed', 'cancelled')),
       (select count(*) from txonce.message_pending)`

// open is how many jobs and messages have not ended.
func open(ctx context.Context, pool *pgxpool.Pool) (jobs, messages int, err error) {
	err = pool.QueryRow(ctx, sqlOpen).Scan(&jobs, &messages)
	return jobs, messages, err
}

// books is what the database says.
type books struct {
	effects  []effect
	jobs     []job
	ledger   []entry
	messages []message
}

// effect is what a call or a job did.
type effect struct {
	Intent  int
	Payload string
	Try     int
	By      string // the run of the handler, or the attempt of the job
}

// job is a row of the table of jobs.
type job struct {
	ID      string
	Intent  int
	Payload string
	Try     int
	State   string
	By      string // the attempt in a result
	Error   string // why the last attempt did not succeed
}

// entry is a message that committed.
type entry struct {
	Name   string
	Intent int
	Try    int
	Lane   string // empty where the order does not matter
	N      int    // its place in the lane, from 1
}

// message is one of the outbox.
type message struct {
	ID       string
	Key      string
	Body     string
	State    string // pending, or as it ended
	Attempts int
}

const (
	sqlEffects = `select intent, payload, try, by from effect order by id`
	sqlJobs    = `
select id::text, (a.doc->>'intent')::int, a.doc->>'payload', (a.doc->>'try')::int, state,
       coalesce(case when state = 'succeeded' then convert_from(answer, 'UTF8')::json->>'run' end, ''), last_error
  from txonce.job, lateral (select convert_from(args, 'UTF8')::json as doc) a
 order by created_at`
	sqlLedger   = `select name, intent, try, lane, n from ledger order by lane, n, name`
	sqlMessages = `
select m.id::text, m.key, convert_from(m.body, 'UTF8'),
       coalesce(o.state, case when p.id is not null then 'pending' else 'gone' end), coalesce(o.attempts, p.attempts, 0)
  from txonce.message m
  left join txonce.message_outcome o on o.id = m.id
  left join txonce.message_pending p on p.id = m.id
 order by m.seq`
)

func readBooks(ctx context.Context, pool *pgxpool.Pool) (b books, err error) {
	rows, _ := pool.Query(ctx, sqlEffects)
	if b.effects, err = pgx.CollectRows(rows, pgx.RowToStructByPos[effect]); err != nil {
		return b, err
	}
	rows, _ = pool.Query(ctx, sqlJobs)
	if b.jobs, err = pgx.CollectRows(rows, pgx.RowToStructByPos[job]); err != nil {
		return b, err
	}
	rows, _ = pool.Query(ctx, sqlLedger)
	if b.ledger, err = pgx.CollectRows(rows, pgx.RowToStructByPos[entry]); err != nil {
		return b, err
	}
	rows, _ = pool.Query(ctx, sqlMessages)
	b.messages, err = pgx.CollectRows(rows, pgx.RowToStructByPos[message])
	return b, err
}
