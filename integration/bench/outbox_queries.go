package main

import "strings"

// outboxQueries is the SQL about messages, with the schemas filled in.
type outboxQueries struct{ empty, tally, settle, written string }

func outboxQueriesFor(calls string) outboxQueries {
	in := func(sql string) string {
		return strings.NewReplacer("{app}", calls+"_app", "{calls}", calls).Replace(sql)
	}
	return outboxQueries{
		empty: in(sqlOutboxEmpty), tally: in(sqlOutboxTally), settle: in(sqlOutboxSettle), written: in(sqlOutboxWritten),
	}
}

const sqlOutboxEmpty = `
truncate {app}.effect, {calls}.call, {calls}.message, {calls}.message_pending, {calls}.message_outcome, {calls}.destination`

const sqlOutboxTally = `
select (select count(*) from {calls}.message),
       (select count(*) from {calls}.message_pending),
       (select count(*) from {calls}.message_outcome where state = 'delivered'),
       (select coalesce(sum(attempts), 0) from {calls}.message_outcome)`

const sqlOutboxSettle = `
vacuum (analyze) {calls}.message, {calls}.message_pending, {calls}.message_outcome`

// sqlOutboxWritten counts what calls have left.
const sqlOutboxWritten = `
select (select count(*) from {app}.effect),
       (select count(*) from {calls}.call where state = 'succeeded'),
       (select count(*) from {calls}.message m join {calls}.message_pending p on p.id = m.id)`
