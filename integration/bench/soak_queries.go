package main

import "strings"

// soakQueries is the SQL of "bench soak", with the schemas filled in.
type soakQueries struct{ once, tidy, effects, left, sizes, sessions string }

func soakQueriesFor(calls string) soakQueries {
	in := func(sql string) string {
		return strings.NewReplacer("{app}", calls+"_app", "{calls}", calls).Replace(sql)
	}
	return soakQueries{
		once: in(sqlSoakOnce), tidy: in(sqlSoakTidy), effects: in(sqlSoakEffects), left: in(sqlSoakLeft), sizes: in(sqlSoakSizes), sessions: sqlSoakSessions,
	}
}

// sqlSoakOnce has Postgres refuse a second effect of one intent.
const sqlSoakOnce = `create unique index on {app}.effect (intent)`

// sqlSoakTidy removes effects, which are the application's to keep: the table is not to grow.
const sqlSoakTidy = `delete from {app}.effect where at < clock_timestamp() - make_interval(secs => $1)`

const sqlSoakEffects = `select count(*) from {app}.effect`

// sqlSoakLeft counts the records that a sweep should have taken, and those that no job has let go.
const sqlSoakLeft = `
select count(*) filter (where expires_at < $1), count(*) filter (where expires_at is null) from {calls}.call`

// sqlSoakSizes lists the tables that are ours and River's.
const sqlSoakSizes = `
select c.relname, pg_table_size(c.oid), pg_indexes_size(c.oid)
  from pg_class c
  join pg_namespace n on n.oid = c.relnamespace
 where c.relkind = 'r' and n.nspname in ('{calls}', '{calls}_river')
 order by n.nspname, c.relname`

const sqlSoakSessions = `
select count(*) from pg_stat_activity where datname = current_database() and application_name = $1`
