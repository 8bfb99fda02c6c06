package main

import "strings"

// statusQueries is the SQL of "bench status", with the schema filled in.
type statusQueries struct{ row, settle string }

func statusQueriesFor(calls string) statusQueries {
	in := func(sql string) string { return strings.ReplaceAll(sql, "{calls}", calls) }
	return statusQueries{row: in(sqlRow), settle: in(sqlSettle)}
}

// sqlRow is the least that somebody could read who knows the id of a call that has ended.
const sqlRow = `
select scope, state, answer, finished_at from {calls}.call where id = $1::uuid`

const sqlSettle = `
vacuum (analyze) {calls}.call, {calls}.job, {calls}_river.river_job`
