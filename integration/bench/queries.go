package main

import "strings"

// queries is the SQL of the shapes, with the schemas filled in.
type queries struct {
	create, drop, empty, tally string

	effect        string // the handler's
	queued        string // the same, where nobody reads its answer
	pattern       string // of the records that floor writes
	record        string // with room for columns and values
	claim, finish string // of five
}

func queriesFor(app, calls string) queries {
	in := func(sql string) string {
		return strings.NewReplacer("{app}", app, "{calls}", calls).Replace(sql)
	}
	return queries{
		create: in(sqlCreate), drop: in(sqlDrop), empty: in(sqlEmpty), tally: in(sqlTally),
		effect: in(sqlEffect), queued: in(sqlQueued), pattern: in(sqlPattern), record: in(sqlRecord), claim: in(sqlClaim), finish: in(sqlFinish),
	}
}

const sqlCreate = `
create schema {app};
create table {app}.effect (
    id       bigint generated always as identity primary key,
    intent   text        not null,
    order_id text        not null,
    cents    bigint      not null,
    at       timestamptz not null default now()
);
create table {app}.tool_idempotency (
    key           text primary key,
    state         text not null check (state in ('in_progress', 'succeeded', 'failed')),
    response      jsonb,
    attempt_count int not null default 1,
    created_at    timestamptz not null default now(),
    expires_at    timestamptz not null
);
create index on {app}.tool_idempotency (expires_at)`

const sqlDrop = `drop schema if exists {app}, {calls}, {calls}_river cascade`

const sqlEmpty = `truncate {app}.effect, {app}.tool_idempotency, {calls}.call`

const sqlTally = `
select (select count(*) from {app}.effect),
       (select count(*) from {calls}.call where state = 'succeeded'),
       (select count(*) from {app}.tool_idempotency where state = 'succeeded' and response is not null)`

const sqlEffect = `
insert into {app}.effect (intent, order_id, cents) values ($1, $2, $3) returning id`

const sqlQueued = `
insert into {app}.effect (intent, order_id, cents) values ($1, $2, $3)`

// sqlPattern reads a record of txidem, and sqlRecord writes others like it: its columns are filled in. Unlike txidem it asks
// for nothing back.
const sqlPattern = `
select * from {calls}.call where id = $1::uuid`

const sqlRecord = `
insert into {calls}.call (%s) values (%s)`

// sqlClaim is the insert-or-read of a key, sqlFinish what follows the work.
const sqlClaim = `
insert into {app}.tool_idempotency (key, state, expires_at)
values ($1, 'in_progress', now() + interval '10 minutes')
on conflict (key) do update
  set attempt_count = tool_idempotency.attempt_count + 1
returning state, response, attempt_count, (xmax = 0) as inserted`

const sqlFinish = `
update {app}.tool_idempotency set state = 'succeeded', response = $2 where key = $1`
