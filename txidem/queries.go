package txidem

import "strings"

// queries is the SQL of the package, with the schema filled in.
type queries struct {
	schema string

	claim  string
	read   string
	forget string
	record string
	fail   string
}

func queriesFor(schema string) queries {
	in := func(sql string) string { return strings.ReplaceAll(sql, "{schema}", schema) }
	return queries{
		schema: schema,
		claim:  sqlClaim,
		read:   in(sqlRead),
		forget: in(sqlForget),
		record: in(sqlRecord),
		fail:   in(sqlFail),
	}
}

// sqlClaim takes the call's lock or fails at once, and leaves three settings in the transaction: the attempt's token,
// which only this transaction can show when it writes the record, and two that make Postgres end the transaction of a
// client that vanished. They are local, so they end with the transaction.
const sqlClaim = `
select pg_try_advisory_xact_lock($1::bigint),
       set_config('txonce.attempt', $2::text, true),
       set_config('idle_in_transaction_session_timeout', $3::text, true),
       set_config('client_connection_check_interval', '1000', true)`

// sqlRead is a statement of its own behind sqlClaim: in one statement the snapshot would be older than the lock, and a
// rival that finished in between would be missed. A transaction's own now() may be old, hence clock_timestamp().
const sqlRead = `
select scope, tool, key, fingerprint, canon, fields, state, attempt::text, answer, finished_at,
       coalesce(expires_at <= clock_timestamp(), false)
  from {schema}.call
 where id = $1::uuid`

// sqlForget removes the expired record that the claim has seen, and no other.
const sqlForget = `
delete from {schema}.call
 where id = $1::uuid and attempt = $2::uuid`

// sqlRecord writes the finished record. Reading the token from the transaction's own setting makes it fail when the
// handler ended the transaction behind our back, even where another one is open by now (COMMIT AND CHAIN). The
// primary key is the final arbiter between two callers.
const sqlRecord = `
insert into {schema}.call (id, scope, tool, key, fingerprint, canon, fields, state, attempt, answer,
                           started_at, finished_at, expires_at)
values ($1::uuid, $2::text, $3::text, $4::text, $5::bytea, $6::smallint, $7::bytea, 'succeeded',
        current_setting('txonce.attempt')::uuid, $8::bytea,
        now(), clock_timestamp(), clock_timestamp() + make_interval(secs => $9::double precision))
returning finished_at`

// sqlFail writes a failure in a transaction of its own, if nobody else holds or has finished the call by now.
const sqlFail = `
insert into {schema}.call (id, scope, tool, key, fingerprint, canon, fields, state, attempt, answer,
                           started_at, finished_at, expires_at)
select $1::uuid, $2::text, $3::text, $4::text, $5::bytea, $6::smallint, $7::bytea, 'failed',
       $8::uuid, $9::bytea,
       now(), clock_timestamp(), clock_timestamp() + make_interval(secs => $10::double precision)
 where pg_try_advisory_xact_lock($11::bigint)
on conflict (id) do nothing
returning finished_at`
