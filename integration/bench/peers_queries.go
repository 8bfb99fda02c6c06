package main

import "strings"

// peersQueries is the SQL of "bench peers", with the schemas filled in.
type peersQueries struct{ empty, tally, drop string }

func peersQueriesFor(calls string) peersQueries {
	in := func(sql string) string {
		return strings.NewReplacer("{app}", calls+"_app", "{calls}", calls, "{dbos}", dbosSchema(calls), "{one}", onePoolSchema(calls)).Replace(sql)
	}
	return peersQueries{empty: in(sqlPeersEmpty), tally: in(sqlPeersTally), drop: in(sqlPeersDrop)}
}

// sqlPeersEmpty empties what calls of all peers write. What else refers to DBOS's workflows is empty anyway.
const sqlPeersEmpty = `
truncate {app}.effect, {calls}.call, {dbos}.transaction_completion,
         {dbos}.workflow_status, {dbos}.workflow_input, {dbos}.workflow_output, {dbos}.operation_outputs,
         {one}.workflow_status, {one}.workflow_input, {one}.workflow_output, {one}.operation_outputs cascade`

// sqlPeersTally counts effects, those of different keys, and the records of calls and of workflows that belong to one each; then
// all records.
const sqlPeersTally = `
select (select count(*) from {app}.effect),
       (select count(distinct intent) from {app}.effect),
       (select count(*) from {calls}.call c join {app}.effect e on c.key = 'x:' || e.intent where c.state = 'succeeded'),
       (select count(*) from {dbos}.workflow_status w join {app}.effect e on w.workflow_uuid = e.intent
          join {dbos}.operation_outputs o on o.workflow_uuid = w.workflow_uuid
          join {dbos}.transaction_completion t on t.workflow_id = w.workflow_uuid where w.status = 'SUCCESS'),
       (select count(*) from {one}.workflow_status w join {app}.effect e on w.workflow_uuid = e.intent
          join {one}.operation_outputs o on o.workflow_uuid = w.workflow_uuid where w.status = 'SUCCESS'),
       (select count(*) from {calls}.call) + (select count(*) from {dbos}.workflow_status) + (select count(*) from {one}.workflow_status)`

const sqlPeersDrop = `drop schema if exists {dbos}, {one} cascade`
