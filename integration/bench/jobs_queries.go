package main

import "strings"

// jobQueries is the SQL about jobs, with the schemas filled in.
type jobQueries struct{ tally, empty, queued, processes string }

func jobQueriesFor(calls string) jobQueries {
	in := func(sql string) string {
		return strings.NewReplacer("{app}", calls+"_app", "{calls}", calls).Replace(sql)
	}
	return jobQueries{tally: in(sqlJobTally), empty: in(sqlJobEmpty), queued: in(sqlJobQueued), processes: sqlProcesses}
}

const sqlJobTally = `
select (select count(*) from {app}.effect),
       (select count(*) from {calls}.job where state = 'succeeded'),
       (select count(*) from {calls}_river.river_job where state = 'completed')`

const sqlJobEmpty = `truncate {app}.effect, {calls}.call, {calls}.job, {calls}_river.river_job`

// sqlJobQueued counts what submissions have left, of both tables those rows that have each other.
const sqlJobQueued = `
select (select count(*) from {app}.effect),
       (select count(*) from {calls}.call where state = 'succeeded'),
       (select count(*) from {calls}.job j join {calls}_river.river_job b on b.id = j.bell where j.state = 'queued')`

const sqlProcesses = `select pid from pg_stat_activity`
